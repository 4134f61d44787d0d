"""The cases that compare.py and bench.py measure, with their targets."""

import dataclasses
import functools

VOCAB_SIZE = 30522
ORIGINAL = "google-research/bert"  # as a peer
ARITHMETIC = ("=flops", "=matrix_rate", "=products")
# Row of the table -> objective, its options.
OBJECTIVES = {
    "pretraining": ("pretraining", {}),
    "left_to_right": ("left_to_right", {}),
    "left_to_right, 20 positions": (
        "left_to_right",
        {"num_predicted_positions": 20},
    ),
    # The released vocabulary's [MASK], [CLS], [SEP].
    "replaced_tokens": ("replaced_tokens", {"token_ids": [103, 101, 102]}),
}
# Name -> layers, hidden size, heads, activation.
_SIZES = {
    "tiny": (1, 64, 2, "gelu"),
    "2x128": (2, 128, 2, "gelu"),
    "4x256": (4, 256, 4, "gelu"),
    "base": (12, 768, 12, "gelu"),
    "large": (24, 1024, 16, "gelu"),
    "minilm": (6, 384, 12, "gelu_exact"),
}


def model_of(name, vocab_size=VOCAB_SIZE):
    """The arguments of `BertConfig` for a key of `_SIZES`."""
    layers, hidden, heads, activation = _SIZES[name]
    return {
        "vocab_size": vocab_size,
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": 4 * hidden,
        "type_vocab_size": 2,
        "hidden_act": activation,
    }


@dataclasses.dataclass(frozen=True)
class Case:
    """One measurement, of this project alone or beside its peers."""

    kind: str  # name of the function in ours/ and theirs.py
    unit: str  # `ms` or `s` of one call, or what is done in a second
    turns: int  # timed calls of each side
    # Peer -> least ratio of its time to ours.
    targets: dict[str, float] = dataclasses.field(default_factory=dict)
    model: str = ""  # key of `_SIZES`; "" = the work needs none
    precision: str = "float32"
    length: int = 128  # S, most wordpieces of a row
    count: int = 0  # sequences or texts; 0 = all of the data set
    data: str = ""  # cola, rte or squad; "" = random sequences of length S
    share: float = 0.0  # least share of the matrix rate at its own shapes
    rate: float = 0.0  # least figure of ours
    asks: tuple[str, ...] = ()  # untimed ways of ours, after the turns
    # Keys in place of those of `request`.
    more: dict = dataclasses.field(default_factory=dict)

    def request(self):
        """What each side receives, without its input and its folder."""
        same = ("kind", "precision", "length", "count", "data")
        return {
            **{name: getattr(self, name) for name in same},
            "model": model_of(self.model or "tiny"),
            "rows": 32,  # B
            "predictions": 20,  # masked places of a row
            "calls": 50,  # of a turn, of latency
            "gradient_checkpointing": False,
            "objective": "pretraining",
            "objective_options": {},
        } | self.more


def _with_peers():
    """Yields (name, case)."""
    peers = {"transformers": 2, "tf-models-official": 1}
    for model, precision, turns, share in (
        ("4x256", "float32", 10, 0.60),
        ("4x256", "bfloat16", 10, 0.45),
        ("base", "float32", 4, 0.75),
        ("base", "bfloat16", 4, 0.65),
    ):
        own = {ORIGINAL: 1} if precision == "float32" else {}
        case = Case("pretraining", "ms", turns, peers | own, model, precision)
        case = dataclasses.replace(case, share=share, asks=ARITHMETIC)
        yield f"pretraining_{model}_{precision}", case
    for name, case in _predictions():
        yield f"prediction_{name}_bfloat16", case
    peers = {"transformers": 1}
    for model in ("base", "minilm"):
        for length in (16, 128):
            case = Case("latency", "ms", 8, peers, model, length=length)
            yield f"latency_{model}_{length}", case
    for precision, least in ("float32", 1.5), ("bfloat16", 1):
        peers = {"sentence-transformers": least}
        case = Case("encoding", "texts/s", 3, peers, "minilm", precision)
        case = dataclasses.replace(case, count=10_000)
        yield f"encoding_minilm_{precision}", case
    for kind, rate in ("tokenizing_python", 8), ("tokenizing_in_graph", 30):
        yield kind, Case(kind, "MB/s", 5, {"tokenizers": 3}, rate=rate)


def _predictions():
    """Yields (name, case)."""
    case = functools.partial(
        *(Case, "prediction", "sequences/s"), precision="bfloat16"
    )
    peers, full = {"transformers": 1}, {"share": 0.75, "asks": ARITHMETIC}
    for model, count in ("base", 256), ("minilm", 2048):
        yield f"full_{model}", case(3, peers, model, count=count, **full)
    peers = {"transformers": 2}
    yield "cola", case(5, peers, "minilm", data="cola")
    yield "rte", case(3, peers, "minilm", data="rte")
    yield "squad", case(3, peers, "minilm", data="squad", length=384)


def _alone():
    """Yields (name, case)."""
    case = Case("finetuning", "s", 6, model="minilm", asks=("=padded_by_real",))
    for data, length, steps, padded_steps in (
        ("cola", 128, 0, 18),
        ("rte", 128, 0, 18),
        ("squad", 384, 60, 12),
    ):
        # Timed steps of the trimmed epoch, 0 = all, and of the padded one.
        more = {"steps": steps, "padded_steps": padded_steps}
        own = {"length": length, "data": data, "more": more}
        yield f"finetuning_{data}", dataclasses.replace(case, **own)
    for name, devices, hosts, num_files in (
        ("reading", 1, 1, 8),
        ("reading_8_devices", 8, 1, 8),
        ("reading_8_hosts_by_file", 64, 8, 8),
        ("reading_8_hosts_by_record", 64, 8, 1),
        ("reading_64_hosts_by_record", 64, 64, 1),
    ):
        for masking in ("static", "dynamic"):
            more = {
                **{"devices": devices, "hosts": hosts, "num_files": num_files},
                **{"seconds": 3.0, "num_examples": 80_000, "masking": masking},
            }
            case = Case("reading", "examples/s", 2, asks=("=cpu_us",))
            yield f"{name}_{masking}", dataclasses.replace(case, more=more)
    # A small vocabulary, because the memory of the blocks is compared and not
    # that of the logits.
    sizes = {"rows": 16, "length": 384, "model": model_of("4x256", 1000)}
    for name, again in ("memory", False), ("memory_checkpointing", True):
        more = sizes | {"gradient_checkpointing": again}
        yield name, Case("pretraining", "ms", 3, asks=("=peak_mb",), more=more)


def _objectives():
    """Yields (name, case)."""
    for name, (objective, options) in OBJECTIVES.items():
        more = {"objective": objective, "objective_options": options}
        case = Case("pretraining", "ms", 15, model="2x128", more=more)
        yield f"step, {name}", case


CASES = dict(_with_peers()) | dict(_alone()) | dict(_objectives())
