"""Options of devices, training and export."""

import os
from collections.abc import Callable, Mapping
from typing import Any

from data.settings import amount, optional, positive, setting, switch
from data.storage import files
from training.config import shared

PRECISIONS = ("float32", "bfloat16", "float16", "auto")
SIGNATURES = ("ids", "examples", "text")
STRATEGIES = ("auto", "one_device", "mirrored", "multi_worker_mirrored", "tpu")


def dtype_policy(precision: str) -> str:
    """Returns the Keras policy of every layer.

    `precision` is one of `PRECISIONS` except `auto`, which depends on the
    devices (`strategy.policy_of`).
    """
    return precision if precision == "float32" else f"mixed_{precision}"


class DeviceOptions(shared.Options):
    """Where and in which arithmetic a program computes."""

    use_tpu: bool = switch("Whether to use a TPU.")
    tpu_name: str | None = optional("Name or grpc:// address of the Cloud TPU.")
    tpu_zone: str | None = optional("The TPU's GCE zone; found if not given.")
    gcp_project: str | None = optional("The TPU's project; found if not given.")
    master: str | None = optional("Address of the TPU's master.")
    num_tpu_cores: int = setting(
        8, "Cores of the TPU; only compared, with a warning."
    )
    precision: str = setting(
        "float32",
        "[new] Arithmetic; weights, layer norm and softmax stay float32. "
        "bfloat16 is faster on a TPU, a GPU of compute capability 8.0+, and a "
        "CPU with avx512_bf16 or amx_bf16. auto: bfloat16 on those, else "
        "float32. float16 scales the loss, and skips updates that overflow.",
        choices=PRECISIONS,
    )
    distribution_strategy: str = setting(
        "auto",
        "[new] auto: --use_tpu, else TF_CONFIG's hosts, all GPUs, or the CPU.",
        choices=STRATEGIES,
    )
    allow_tf32: bool = setting(
        True,
        "[new] Compute float32 products in TF32 on a GPU of compute capability "
        "8.0+: several times as fast, with a mantissa of 10 bits, not 23.",
    )
    deterministic: bool = switch(
        "[new] Repeat a run bit for bit on the same GPUs (TensorFlow's op "
        "determinism); slower. On one CPU a run repeats without it."
    )
    worker_timeout_minutes: float = amount(
        30.0,
        "[new] Exit after waiting this many minutes for other workers. Must be "
        "longer than one works alone (the chief saves); 0 = wait forever.",
    )

    def _check(self) -> None:
        if self.distribution_strategy != "tpu":
            self._exclude("use_tpu", "distribution_strategy")

    @property
    def on_tpu(self) -> bool:
        """Whether a TPU computes."""
        return self.use_tpu or self.distribution_strategy == "tpu"


class LogOptions(shared.Options):
    """How a program writes its log."""

    log_format: str = setting(
        "text",
        "[new] json: an object a line, with time, level, message and place.",
        choices=("text", "json"),
    )


class TrainOptions(shared.Options):
    """How a model is trained.

    `on_step` has no flag: it is called after each step with the step and its
    metrics.
    """

    on_step: Callable[[int, Mapping[str, float]], None] | None = None
    output_dir: str = setting(
        help="Folder of checkpoints, events and results; a stopped run resumes."
    )
    train_batch_size: int = positive(32, "Examples per update of all devices.")
    learning_rate: float = setting(
        5e-5, "Peak learning rate (linear warm-up and decay).", above=0
    )
    num_train_steps: int = positive(help="Updates, also those before a resume.")
    num_warmup_steps: int = amount(0, "Updates of warm-up.")
    num_train_minutes: float = amount(
        0.0,
        "[new] Train for this many minutes; the learning rate follows elapsed "
        "time, and the warm-up keeps its share. Compiling, saving, evaluating "
        "and the time before a resume count; 0 = train by steps.",
    )
    stop_at_step: int = amount(
        0, "[new] End at this step, before --num_train_steps; 0 = do not."
    )
    continue_from: str = setting(
        "",
        "[new] Folder of a run that ended before --num_train_steps. This run "
        "starts from its weights, optimizer slots and step, in another "
        "--output_dir, and reads --input_file from the beginning.",
    )
    optimizer: str = setting(
        "adamw",
        "[new] adamw = the original's Adam; lamb = for batches of thousands; "
        "muon = for pretraining in fewer updates.",
        choices=("adamw", "lamb", "muon"),
    )
    save_checkpoints_steps: int = positive(1000, "Updates between checkpoints.")
    keep_checkpoint_max: int | None = optional(
        "[new] Checkpoints kept; 0 = all. Default: 5; after fine-tuning, 1.",
        least=0,
    )
    iterations_per_loop: int = positive(
        1000,
        "Most updates in one call to the device. A call takes about a second "
        "(on a TPU five), so that progress shows and SIGTERM is handled.",
    )
    gradient_accumulation_steps: int = positive(
        1, "[new] Micro-batches of one update: the same result in less memory."
    )
    log_steps: int = positive(
        100, "[new] Updates between TensorBoard points; each resets log means."
    )
    eval_every_steps: int = amount(
        0, "[new] Updates between evaluations while training; 0 = never."
    )
    seed: int = amount(
        12345, "[new] Seed of weights, dropout and data order.", most=2**31 - 1
    )
    gradient_checkpointing: bool = switch(
        "[new] Compute each Transformer block twice instead of keeping it: "
        "half the memory, 40 % more time, the same result."
    )
    whole_last_layer: bool = switch(
        "[new] Compute the last block at every position, as the original, not "
        "only where it is used: masked positions and [CLS]. Slower; the same "
        "result except for rounding and dropout's random numbers."
    )
    xla: bool = switch(
        "[new] Compile the gradient with XLA: on a CPU faster for models of "
        "hidden size 128, slower for large ones in bfloat16."
    )
    fuse: bool | None = optional(
        "[new] Compile the operations between a step's matrix products with "
        "XLA; each new length takes about a second to compile. Same result "
        "except for rounding. Default: where it saves time; on a TPU always."
    )
    layerwise_lr_decay: float = setting(
        1.0,
        "[new] Learning rate of each block divided by that of the block above. "
        "ELECTRA uses 0.8 (Large: 0.9); its last block is two below the head.",
        above=0,
        most=1,
    )
    trainable_layers: int = setting(
        -1, "[new] Last blocks to train, with the head; -1 = all.", least=-1
    )

    @property
    def last_step(self) -> int:
        """The last step of training without --num_train_minutes."""
        return self.stop_at_step or self.num_train_steps

    @property
    def end(self) -> tuple[str, float, str]:
        """The flag that ends training, its value and its unit."""
        if self.num_train_minutes:
            return "num_train_minutes", self.num_train_minutes, "minutes"
        name = "stop_at_step" if self.stop_at_step else "num_train_steps"
        return name, self.last_step, "steps"

    @property
    def shaping(self) -> dict[str, Any]:
        """Flag -> value, for those that decide how examples change weights."""
        names = (
            *("train_batch_size", "learning_rate", "num_train_steps"),
            *("num_warmup_steps", "num_train_minutes", "layerwise_lr_decay"),
            "trainable_layers",
        )
        return {name: getattr(self, name) for name in names}

    def _check(self) -> None:
        if self.on_step and not callable(self.on_step):
            raise ValueError(
                f"on_step is {self.on_step!r}, expected a function of the step "
                "and its metrics."
            )
        self._exclude("num_train_minutes", "stop_at_step", "continue_from")
        if self.stop_at_step > self.num_train_steps:
            raise ValueError(
                f"--stop_at_step={self.stop_at_step} is after "
                f"--num_train_steps={self.num_train_steps}, of all phases."
            )


class ServingOptions(shared.Options):
    """What the clients of an export send, and what they receive."""

    signatures: tuple[str, ...] = setting(
        SIGNATURES,
        "[new] Signatures; the first is serving_default. examples: serialized "
        "tf.Example. Without text, a server needs no TensorFlow Text.",
        flag="export_signatures",
    )
    like_original: bool = switch(
        "[new] For the original's clients: serving_default has the inputs "
        "and outputs of its usual serving_input_receiver_fn: with ids also "
        "label_ids (unique_ids); probabilities alone (unique_ids and logits).",
        flag="serving_like_original",
    )

    def _check(self) -> None:
        known = set(SIGNATURES) & set(self.signatures)
        if not 0 < len(self.signatures) == len(known):
            raise ValueError(
                f"--export_signatures={','.join(self.signatures)}; it must be "
                f"some of {','.join(SIGNATURES)}, each once."
            )
        if self.like_original and self.signatures[:1] == ("text",):
            raise ValueError(
                "--serving_like_original: clients of the original send ids or "
                "examples; name one of them first in --export_signatures."
            )


class ExportOptions(shared.Options):
    """What is exported, and where to."""

    output_dir: str = setting(help="Folder of the finished run.")
    export_dir: str | None = optional("[new] Versions go to EXPORT_DIR/1, 2...")
    format: str = setting(
        "saved_model",
        "[new] saved_model: for TF Serving. litert: files of 8 bits and "
        "float32 for phones, or Python without TensorFlow; ids to scores.",
        choices=("saved_model", "litert"),
        flag="export_format",
    )
    precision: str = setting(
        "float32",
        "[new] Arithmetic of the export; its README.md says what is lost.",
        choices=("float32", "bfloat16"),
        flag="export_precision",
    )
    use_calibration: bool = True  # a flag of run_classifier.py
    serving: ServingOptions = ServingOptions()

    def _check(self) -> None:
        place = self.export_dir or self.output_dir
        places = {*map(os.path.realpath, (place, self.output_dir))}
        of_models = "bert_config.json", "config.json"
        if len(places) == 1 or files.first_of(of_models, place):
            raise ValueError(
                "--do_export: give --export_dir, a folder of its own: in that "
                f"of a model, {place}, it would be loaded instead of the model."
            )
        changed = self.serving.changed() or self.precision != "float32"
        if self.format == "litert" and changed:
            raise ValueError(
                "--export_format=litert has files for ids alone, in float32 "
                "and 8 bits; leave out --export_signatures, --export_precision "
                "and --serving_like_original."
            )
        # A refused command leaves no new folder.
        while "://" not in place and not files.exists(place):
            place = os.path.dirname(place) or "."
        files.check_writable(place, "export_dir")
