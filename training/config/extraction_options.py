"""What extract_features.py is told; no TensorFlow: see `finetuning_options`."""

import dataclasses

from modeling.choices import EMBEDDINGS
from modeling.config import BertConfig
from training.config.options import DeviceOptions


@dataclasses.dataclass(frozen=True, kw_only=True)
class VectorOptions:
    """Which vectors are made of a text.

    Attributes:
      layers: blocks, from 0, or from -1 at the end, or `embeddings`, which is
        what enters the first block.
      pooling: `none` = a vector for each wordpiece; `cls` = that of [CLS];
        `mean`, `max` = over all wordpieces, [CLS] and [SEP] included.
      layer_mix: `separate` = each layer its own vector; `concat` = one vector
        of all, in the order of `layers`; `sum` = their sum.
      whole_words: a vector for each word: the mean of its wordpieces.
      attention: the attention maps of the layers too.
    """

    layers: tuple[int | str, ...] = (-1, -2, -3, -4)
    pooling: str = "none"
    layer_mix: str = "separate"
    whole_words: bool = False
    attention: bool = False

    def __post_init__(self):
        if self.whole_words and self.pooling != "none":
            raise ValueError(
                "--whole_words gives a vector for each word, --pooling="
                f"{self.pooling} one for each line; drop one."
            )
        if self.attention and EMBEDDINGS in self.layers:
            raise ValueError(
                "--attention: the embeddings have none; leave them out of "
                "--layers."
            )

    @property
    def layer_names(self) -> list[int | str | list]:
        """Whose the L vectors are; of a mix, all of its layers."""
        layers = list(self.layers)
        return layers if self.layer_mix == "separate" else [layers]

    def width(self, config: BertConfig) -> int:
        """W."""
        factor = len(self.layers) if self.layer_mix == "concat" else 1
        return factor * config.hidden_size


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExtractionOptions:
    """What extract_features.py does.

    Attributes:
      input_file: text, `A` or `A ||| B` a line.
      output_file: where the vectors go.
      bert_config_file: JSON file with the model's sizes.
      init_checkpoint: the weights.
      vocab_file: the model's vocabulary.
      do_lower_case: its casing.
      max_seq_length: most wordpieces of a line; longer ones are cut.
      batch_size: lines of a batch, over all devices.
      use_one_hot_embeddings: look words up by matrix product (TPU).
      vectors: which are made.
      format: one of `vector_files.FORMATS`.
      attention_png: draw those of one line; None = do not.
      attention_line: number of that line, from 0.
      attention_layer: the block to draw.
      attention_head: the head to draw; None = all.
      device: options of the device.
    """

    input_file: str
    output_file: str
    bert_config_file: str
    init_checkpoint: str
    vocab_file: str
    do_lower_case: bool = True
    max_seq_length: int = 128
    batch_size: int = 32
    use_one_hot_embeddings: bool = False
    vectors: VectorOptions = VectorOptions()
    format: str = "jsonl"
    attention_png: str | None = None
    attention_line: int = 0
    attention_layer: int = -1
    attention_head: int | None = None
    device: DeviceOptions

    def __post_init__(self):
        for name, least in (
            ("max_seq_length", 3),  # [CLS] a [SEP]
            ("batch_size", 1),
            ("attention_line", 0),
        ):
            if getattr(self, name) < least:
                raise ValueError(
                    f"--{name}={getattr(self, name)}; it must be at least "
                    f"{least}."
                )
        if self.vectors.attention and (
            self.format != "npz" or self.vectors.pooling != "none"
        ):
            raise ValueError(
                "--attention needs --format=npz and --pooling=none: maps are "
                "written beside the vectors of the wordpieces."
            )


def parse_layers(text: str) -> tuple[int | str, ...]:
    """Reads `--layers`.

    Args:
      text: numbers of blocks and `embeddings`, comma-separated.

    Returns:
      Them, in their order.

    Raises:
      ValueError: one is neither.
    """
    layers = []
    for part in map(str.strip, text.split(",")):
        try:
            layers.append(part if part == EMBEDDINGS else int(part))
        except ValueError:
            raise ValueError(
                f"--layers={text}: {part!r} is no layer; give numbers of "
                f"blocks, or {EMBEDDINGS}, such as --layers=-1,-2."
            ) from None
    return tuple(layers)
