"""What a run is told, as frozen values: flags end where these begin."""

import dataclasses

from data.storage import files

PRECISIONS = ("float32", "bfloat16", "float16", "auto")
EXPORT_PRECISIONS = ("float32", "bfloat16")
OPTIMIZERS = ("adamw", "lamb")
STRATEGIES = (
    "auto",
    "one_device",
    "mirrored",
    "multi_worker_mirrored",
    "tpu",
)


def dtype_policy(precision: str) -> str:
    """Returns the Keras policy of every layer.

    Args:
      precision: one of `PRECISIONS`, but `auto`, which depends on the devices:
        see `strategy.policy_of`.

    Raises:
      ValueError: the precision is unknown, or `auto`.
    """
    known = [name for name in PRECISIONS if name != "auto"]
    if precision not in known:
        raise ValueError(
            f"precision {precision!r}; it must be one of {', '.join(known)}."
        )
    return precision if precision == "float32" else f"mixed_{precision}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeviceOptions:
    """Where and in which arithmetic a program computes.

    Attributes:
      use_tpu: run on a Cloud TPU.
      tpu_name: its name or grpc:// address; None = the local TPU.
      tpu_zone: its Compute Engine zone; None = found automatically.
      gcp_project: its Cloud project; None = found automatically.
      master: address of the TPU's master, the original's other way to name
        it.
      num_tpu_cores: cores expected; only checked, with a warning.
      precision: one of `PRECISIONS` (arithmetic; weights, layer norm and
        softmax stay float32); `auto` is bfloat16 where the devices are faster
        with it, else float32.
      distribution_strategy: one of `STRATEGIES`; `auto` takes the TPU if
        use_tpu, else the workers of TF_CONFIG, else all GPUs, else the CPU.
    """

    use_tpu: bool = False
    tpu_name: str | None = None
    tpu_zone: str | None = None
    gcp_project: str | None = None
    master: str | None = None
    num_tpu_cores: int = 8
    precision: str = "float32"
    distribution_strategy: str = "auto"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """How a model is trained.

    Attributes:
      output_dir: folder of checkpoints and events; a run resumes there.
      train_batch_size: examples of one update, over all devices and
        micro-batches together.
      learning_rate: peak of the schedule.
      num_train_steps: updates in all, those before a resume included.
      num_warmup_steps: updates of linear warm-up from 0.
      num_train_minutes: the schedule follows the clock, for so long in all,
        and training ends with it: num_train_steps and num_warmup_steps then
        say no more than the warm-up's share; 0 = it follows the steps.
      stop_at_step: end this run at a step of the schedule; 0 = at its end.
      continue_from: folder of a run whose weights, slots and step this one
        goes on from, with an input that begins at its beginning; "" = none.
      optimizer: one of `OPTIMIZERS`.
      save_checkpoints_steps: updates between checkpoints.
      keep_checkpoint_max: checkpoints kept; 0 = all.
      iterations_per_loop: most updates of one call into the device.
      gradient_accumulation_steps: micro-batches that one update is made of.
      log_steps: updates between log lines and TensorBoard points.
      eval_every_steps: updates between evaluations; 0 = none.
      seed: of initial weights, dropout and the order of the data.
      gradient_checkpointing: see `transformer.Encoder`.
      whole_last_layer: see `transformer.Encoder`.
      xla: compile the gradient into one program; pays for small models on a
        CPU, where many small operations cost more than their arithmetic.
      fuse: compile the elementwise parts of a step: see `modeling.kernels`;
        None = where that pays.
      layerwise_lr_decay: see `rates.layer_rates`; 1 = one rate for all.
      trainable_layers: see `rates.layer_rates`; -1 = all.
    """

    output_dir: str
    train_batch_size: int = 32
    learning_rate: float = 5e-5
    num_train_steps: int
    num_warmup_steps: int = 0
    num_train_minutes: float = 0.0
    stop_at_step: int = 0
    continue_from: str = ""
    optimizer: str = "adamw"
    save_checkpoints_steps: int = 1000
    keep_checkpoint_max: int = 5
    iterations_per_loop: int = 1000
    gradient_accumulation_steps: int = 1
    log_steps: int = 100
    eval_every_steps: int = 0
    seed: int = 12345
    gradient_checkpointing: bool = False
    whole_last_layer: bool = False
    xla: bool = False
    fuse: bool | None = None
    layerwise_lr_decay: float = 1.0
    trainable_layers: int = -1

    def __post_init__(self):
        for name in (
            "train_batch_size",
            "num_train_steps",
            "save_checkpoints_steps",
            "iterations_per_loop",
            "gradient_accumulation_steps",
            "log_steps",
        ):
            if getattr(self, name) < 1:
                raise ValueError(
                    f"--{name}={getattr(self, name)}; it must be at least 1."
                )
        for name in (
            "num_warmup_steps",
            "num_train_minutes",
            "stop_at_step",
            "keep_checkpoint_max",
            "eval_every_steps",
        ):
            if getattr(self, name) < 0:
                raise ValueError(
                    f"--{name}={getattr(self, name)}; it must be at least 0."
                )
        if not 0 <= self.seed < 2**31:
            raise ValueError(
                f"--seed={self.seed}; it must be 0 to {2**31 - 1}."
            )
        if self.trainable_layers < -1:
            raise ValueError(
                f"--trainable_layers={self.trainable_layers}; it must be at "
                "least 0, or -1 for all."
            )
        if not 0 < self.layerwise_lr_decay <= 1:
            raise ValueError(
                f"--layerwise_lr_decay={self.layerwise_lr_decay}; it must be "
                "above 0, and 1 at most."
            )
        if not self.learning_rate > 0:
            raise ValueError(
                f"--learning_rate={self.learning_rate}; it must be above 0."
            )
        if self.optimizer not in OPTIMIZERS:
            raise ValueError(
                f"--optimizer={self.optimizer}; it must be one of "
                f"{', '.join(OPTIMIZERS)}."
            )
        self._check_end()

    @property
    def last_step(self) -> int:
        """The step that training ends with, unless by the clock."""
        return self.stop_at_step or self.num_train_steps

    @property
    def end(self) -> tuple[str, float, str]:
        """What ends training: the flag, its value, what there is more of."""
        name = next(
            name
            for name in ("num_train_minutes", "stop_at_step", "num_train_steps")
            if getattr(self, name)
        )
        unit = "minutes" if name == "num_train_minutes" else "steps"
        return name, getattr(self, name), unit

    def _check_end(self) -> None:
        """Refuses contradictions about where training begins and ends."""
        if self.stop_at_step and self.num_train_minutes:
            raise ValueError(
                f"--stop_at_step={self.stop_at_step} contradicts "
                f"--num_train_minutes={self.num_train_minutes:g}, which ends "
                "by the clock; drop one."
            )
        if self.stop_at_step > self.num_train_steps:
            raise ValueError(
                f"--stop_at_step={self.stop_at_step} lies behind "
                f"--num_train_steps={self.num_train_steps}, the end of the "
                "schedule; give the steps of all phases together there."
            )
        if self.continue_from and self.num_train_minutes:
            raise ValueError(
                f"--continue_from={self.continue_from} goes on with a schedule "
                "of steps, which --num_train_minutes has not; begin the next "
                "phase with --init_checkpoint."
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """What is exported, and where to.

    Attributes:
      output_dir: of a finished run.
      export_dir: a folder, in which each export is a new version: 1, 2, ...
      precision: one of `EXPORT_PRECISIONS`; bfloat16 = arithmetic; weights,
        layer norm and softmax stay float32.

    Raises:
      ValueError, OSError: there is no such precision, or the folder cannot be
        written.
    """

    output_dir: str
    export_dir: str
    precision: str = "float32"

    def __post_init__(self):
        if not self.export_dir:
            raise ValueError("--do_export: give --export_dir, a folder.")
        if self.precision not in EXPORT_PRECISIONS:
            raise ValueError(
                f"--export_precision={self.precision}; it must be one of "
                f"{', '.join(EXPORT_PRECISIONS)}."
            )
        files.check_writable(self.export_dir, "export_dir")
