"""Options of extract_features.py."""

from data.settings import optional, setting, switch
from data.vectors.vector_files import FORMATS
from modeling.choices import EMBEDDINGS, LAYER_MIXES, POOLINGS
from modeling.config import BertConfig
from training.config import shared
from training.config.run_options import DeviceOptions


def parse_layers(text: str) -> tuple[int | str, ...]:
    """Reads `--layers`: numbers of blocks, or `embeddings`, between commas."""
    layers = []
    for part in map(str.strip, text.split(",")):
        try:
            layers.append(part if part == EMBEDDINGS else int(part))
        except ValueError:
            raise ValueError(
                f"--layers={text}: {part!r} is not a layer; give numbers of "
                f"blocks, or {EMBEDDINGS}, such as --layers=-1,-2."
            ) from None
    return tuple(layers)


class VectorOptions(shared.Options):
    """Which vectors are made of a text."""

    layers: tuple[int | str, ...] = setting(
        (-1, -2, -3, -4),
        "Blocks to write: 0 = first, -1 = last; embeddings = the input.",
        parse=parse_layers,
    )
    pooling: str = setting(
        "none",
        "[new] One vector a line: [CLS]'s, or the mean or maximum over all "
        "wordpieces, [CLS] and [SEP] included.",
        choices=POOLINGS,
    )
    layer_mix: str = setting(
        "separate", "[new] Mix the layers to one vector.", choices=LAYER_MIXES
    )
    whole_words: bool = switch("[new] One vector a word: its wordpieces' mean.")
    attention: bool = switch(
        "[new] With --format=npz: write the attention maps of the layers, "
        "[layers, heads, wordpieces, wordpieces] for each line."
    )

    def _check(self) -> None:
        if not self.layers:
            raise ValueError("--layers names no layer; give one, such as -1.")
        self._exclude("whole_words", "pooling")
        if self.attention and EMBEDDINGS in self.layers:
            raise ValueError(
                "--attention: the embeddings have none; change --layers."
            )

    @property
    def layer_names(self) -> list[int | str | list]:
        """The layer of each of the L vectors; for a mix, all of its layers."""
        layers = list(self.layers)
        return layers if self.layer_mix == "separate" else [layers]

    def width(self, config: BertConfig) -> int:
        """Returns the length of one vector."""
        factor = len(self.layers) if self.layer_mix == "concat" else 1
        return factor * config.hidden_size


class ExtractionOptions(shared.Options):
    """What extract_features.py does.

    `given` holds the flags that the command gives; None = all.
    """

    given: frozenset[str] | None = None
    input_file: str = setting(help="Text, one a line, or A ||| B.")
    output_file: str = setting(help="File of the vectors.")
    bert_config_file: str | None = optional(shared.OF_MODEL)
    init_checkpoint: str = setting(help=shared.INIT_CHECKPOINT)
    vocab_file: str | None = optional(shared.OF_MODEL)
    do_lower_case: bool = setting(True, shared.DO_LOWER_CASE)
    never_split: tuple[str, ...] = setting((), shared.NEVER_SPLIT)
    # [CLS] a [SEP]
    max_seq_length: int = setting(
        128, "Wordpieces of a line; longer ones are cut, and counted.", least=3
    )
    batch_size: int = setting(32, "Lines at once (more if short).", least=1)
    use_one_hot_embeddings: bool = switch(shared.ONE_HOT)
    vectors: VectorOptions = VectorOptions()
    format: str = setting("jsonl", "[new] Output format.", choices=FORMATS)
    attention_png: str | None = optional("[new] Draw the attention in a line.")
    attention_line: int = setting(0, "[new] Which line; 0 = first.", least=0)
    attention_layer: int = setting(-1, "[new] Which block; -1 = the last.")
    attention_head: int | None = optional("[new] Which head. Default: all.")
    device: DeviceOptions

    def _check(self) -> None:
        for name in ("attention_line", "attention_layer", "attention_head"):
            self._need(name, "attention_png")
        has_place = self.format == "npz" and self.vectors.pooling == "none"
        if self.vectors.attention and not has_place:
            raise ValueError(
                "--attention needs --format=npz and --pooling=none: maps are "
                "written beside the vectors of the wordpieces."
            )
