"""Options of ask.py."""

import dataclasses

from data.settings import Settings, setting
from data.tasks import KINDS

FORMATS = ("text", "jsonl")


@dataclasses.dataclass(frozen=True, kw_only=True)
class AskingOptions(Settings):
    """What ask.py does."""

    model: str = setting(
        help="Folder of a model: the original's, Hugging Face's, a run's "
        "output_dir, or an export."
    )
    input_file: str | None = setting(
        None,
        "Texts, one a line (pairs and questions: two with a tab between). "
        "Default: standard input.",
    )
    context_file: str | None = setting(
        None, "The text that all questions are about; each line is a question."
    )
    vocab_file: str | None = setting(
        None, "The model's vocabulary. Default: its folder's."
    )
    kind: str | None = setting(
        None,
        "What a classifier of the original answers. Default: as its folder "
        "says.",
        choices=KINDS,
    )
    num_choices: int | None = setting(
        None, "Choices of a line, if a model does not say it.", least=2
    )
    use_calibration: bool = setting(
        True,
        "Answer with the calibration and thresholds of the folder, if it has "
        "them.",
    )
    format: str = setting(
        "text", "text, or jsonl: one JSON object a line.", choices=FORMATS
    )
    top_k: int | None = setting(
        None, "Fillings of each [MASK]. Default: 5.", least=1
    )
    max_seq_length: int | None = setting(
        None,
        "Wordpieces of a text. Default: as in training.",
        least=3,  # [CLS] a [SEP]
    )
    batch_size: int = setting(32, "Texts computed at once.", least=1)
