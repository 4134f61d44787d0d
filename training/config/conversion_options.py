"""Options of convert_checkpoint.py."""

from data.settings import optional, setting
from data.tasks import KINDS
from training.config.shared import Options

FORMATS = ("original", "huggingface")


class ConversionOptions(Options):
    """What convert_checkpoint.py does."""

    model: str = setting(
        help="A folder of Hugging Face, a checkpoint (DIR/bert_model.ckpt), or "
        "a run's output_dir: its best weights if saved, its chosen trial."
    )
    output_dir: str = setting(help="A new folder, or an empty one.")
    bert_config_file: str | None = optional("Default: beside the checkpoint.")
    vocab_file: str | None = optional("Vocabulary. Default: beside the model.")
    kind: str | None = optional(
        "What a model answers. Default: as its run says.", choices=KINDS
    )
    labels_file: str | None = optional(
        "Labels, one a line. Default: labels.txt beside the checkpoint."
    )
    do_lower_case: bool | None = optional(
        "Whether a checkpoint's text was lower-cased. Default: as its run "
        "says, else whether the vocabulary has no capitals and no accents."
    )
    output_format: str | None = optional(
        "Default: the format that the model does not have.", choices=FORMATS
    )
    electra_part: str = setting(
        "discriminator",
        "Which encoder of an ELECTRA with both becomes Hugging Face's model.",
        choices=("discriminator", "generator"),
    )
    extra_words: str | None = optional(
        "Text file, one word a line. New words first replace [unusedN] tokens, "
        "then are appended; each starts as the mean of its old wordpieces."
    )
    keep_layers: tuple[int, ...] = setting(
        (), "Layers to keep, such as 0,2,4; or their number: 3 of 6 are 0,2,4."
    )
    keep_words: int | None = optional(
        "Size of a smaller vocabulary: special tokens, words of --extra_words, "
        "single characters, then the wordpieces most frequent in --input_file.",
        least=1,
    )
    input_file: str | None = optional(
        "For --keep_words: comma-separated UTF-8 text files or globs, of the "
        "texts that the model will read."
    )
    never_split: tuple[str, ...] = setting(
        (), "Words of --extra_words that stay whole, such as [ENTITY],[DATE]."
    )
    max_position_embeddings: int | None = optional(
        "Positions; those beyond the model's repeat them, untrained.", least=1
    )

    def _check(self) -> None:
        self._need("never_split", "extra_words")
        self._need("keep_words", "input_file")
        self._need("input_file", "keep_words")
