"""Options of convert_checkpoint.py."""

import dataclasses

from data.settings import Settings, setting
from data.tasks import KINDS


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConversionOptions(Settings):
    """What convert_checkpoint.py does."""

    model: str = setting(
        help="A folder of Hugging Face, a checkpoint (DIR/bert_model.ckpt), or "
        "the output_dir of a run: of trials the chosen one, of --save_best the "
        "best weights."
    )
    output_dir: str = setting(help="A new folder, or an empty one.")
    bert_config_file: str | None = setting(
        None,
        "Configuration of a checkpoint; bert_config.json beside it if not "
        "given.",
    )
    vocab_file: str | None = setting(
        None, "The model's vocabulary; the one beside its weights if not given."
    )
    kind: str | None = setting(
        None,
        "What a fine-tuned checkpoint answers; as its run says if not given.",
        choices=KINDS,
    )
    labels_file: str | None = setting(
        None,
        "The names of the labels, one a line; labels.txt beside the checkpoint "
        "if not given.",
    )
    do_lower_case: bool | None = setting(
        None,
        "Whether a checkpoint's text was lower-cased; as its run says if not "
        "given, else true. False for cased models.",
    )
