"""What compare.py measures: the cases and their targets."""

import dataclasses

VOCAB_SIZE = 30522
ROWS = 32  # sequences of a batch
_LATENCY_CALLS = 50  # of a turn
PREDICTIONS = 20  # masked places of a row
# Name -> layers, hidden size, heads, activation.
_SIZES = {
    "4x256": (4, 256, 4, "gelu"),
    "base": (12, 768, 12, "gelu"),
    "minilm": (6, 384, 12, "gelu_exact"),
}


@dataclasses.dataclass(frozen=True)
class Case:
    """One comparison.

    Attributes:
      kind: name of the function in ours.py and theirs.py.
      targets: peer -> least ratio: how many times as long it takes.
      turns: how often each side runs.
      unit: `ms` for one run, or what is done in a second.
      model: key of `_SIZES`; "" = none.
      precision: of the model.
      length: wordpieces of a row, at most.
      count: sequences to predict; 0 = all of the data set.
      data: its name; "" = random sequences of full length.
      share: least share of the matrix rate at the case's own shapes; 0 = none
        is asked for.
      rate: least figure of ours; 0 = likewise.
    """

    kind: str
    targets: dict[str, float]
    turns: int
    unit: str
    model: str = ""
    precision: str = "float32"
    length: int = 128
    count: int = 0
    data: str = ""
    share: float = 0.0
    rate: float = 0.0

    @property
    def needs_vocab(self):
        """Whether its sides read texts."""
        return self.kind == "latency" or self.kind.startswith("tokenizing")

    def request(self):
        """What every side is told of it."""
        model = {}
        if self.model:
            layers, hidden, heads, activation = _SIZES[self.model]
            model = {
                "vocab_size": VOCAB_SIZE,
                "hidden_size": hidden,
                "num_hidden_layers": layers,
                "num_attention_heads": heads,
                "intermediate_size": 4 * hidden,
                "type_vocab_size": 2,
                "hidden_act": activation,
            }
        return {
            "kind": self.kind,
            "model": model,
            "precision": self.precision,
            "rows": ROWS,
            "length": self.length,
            "predictions": PREDICTIONS,
            "head": "span" if self.data == "squad" else "classification",
            "calls": _LATENCY_CALLS,
        }


def _cases():
    """Name -> case, with the targets."""
    found = {}
    for model, turns, shares in (
        ("4x256", 10, (0.60, 0.45)),
        ("base", 4, (0.75, 0.65)),
    ):
        for precision, share in zip(
            ("float32", "bfloat16"), shares, strict=True
        ):
            found[f"pretraining_{model}_{precision}"] = Case(
                "pretraining",
                {"transformers": 2, "tf-models-official": 1},
                turns,
                "ms",
                model,
                precision,
                share=share,
            )
    for name, model, turns, length, count, data in (
        ("full_base", "base", 3, 128, 256, ""),
        ("full_minilm", "minilm", 3, 128, 2048, ""),
        ("cola", "minilm", 5, 128, 0, "cola"),
        ("rte", "minilm", 3, 128, 0, "rte"),
        ("squad", "minilm", 3, 384, 0, "squad"),
    ):
        found[f"prediction_{name}_bfloat16"] = Case(
            "prediction",
            {"transformers": 2 if data else 1},
            turns,
            "sequences/s",
            model,
            "bfloat16",
            length,
            count,
            data,
            share=0 if data else 0.75,
        )
    for model in ("base", "minilm"):
        for length in (16, 128):
            found[f"latency_{model}_{length}"] = Case(
                "latency", {"transformers": 1}, 8, "ms", model, length=length
            )
    for kind, rate in ("tokenizing_python", 8), ("tokenizing_in_graph", 30):
        found[kind] = Case(kind, {"tokenizers": 3}, 5, "MB/s", rate=rate)
    return found


CASES = _cases()
