"""Options of devices, training and export."""

import dataclasses

from data.settings import Settings, setting
from data.storage import files

PRECISIONS = ("float32", "bfloat16", "float16", "auto")
EXPORT_PRECISIONS = ("float32", "bfloat16")
SIGNATURES = ("ids", "examples", "text")
OPTIMIZERS = ("adamw", "lamb")
STRATEGIES = (
    "auto",
    "one_device",
    "mirrored",
    "multi_worker_mirrored",
    "tpu",
)

# Help of flags that several programs have.
BERT_CONFIG_FILE = (
    "JSON file with the sizes of the model, such as "
    "configs/uncased_L-12_H-768_A-12.json. If not given, that in --output_dir "
    "or beside --init_checkpoint."
)
INIT_CHECKPOINT = (
    "Checkpoint to start from: a prefix such as DIR/bert_model.ckpt, or a "
    "folder; of a finished run its best weights if it has kept them, of trials "
    "those of the chosen one. Weights only: step and optimizer slots "
    "start anew. What was loaded, missing and unused is reported."
)
VOCAB_FILE = (
    "The model's vocabulary. If not given, that in --output_dir or beside "
    "--init_checkpoint."
)
DO_LOWER_CASE = (
    "False for cased models. If not given, what the folder of "
    "--init_checkpoint says of its tokenizer counts."
)
NEVER_SPLIT = (
    "[new] Tokens of the vocabulary, comma-separated, that stay whole wherever "
    "a text has them, such as [ENTITY]; those of the folder of "
    "--init_checkpoint if not given."
)
DO_EXPORT = (
    "[new] Write a SavedModel for TF Serving; also alone, of a finished "
    "--output_dir."
)
ONE_HOT = "[new] Look words up by matrix product; always so on a TPU."


def check_can_be_found(options: Settings, *flags: str) -> None:
    """Raises ValueError for files that are not given and cannot be found."""
    output_dir = options.find("output_dir")
    if options.find("init_checkpoint") or "://" in output_dir:
        return
    for flag in flags:
        if not options.find(flag) and not files.exists(output_dir):
            raise ValueError(
                f"Flag --{flag} must have a value other than None: there is "
                "no --init_checkpoint to look beside, and nothing yet in "
                f"--output_dir={output_dir}."
            )


def dtype_policy(precision: str) -> str:
    """Returns the Keras policy of every layer.

    Args:
      precision: one of `PRECISIONS` except `auto`, which depends on the devices
        (`strategy.policy_of`).

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
class DeviceOptions(Settings):
    """Where and in which arithmetic a program computes."""

    use_tpu: bool = setting(False, "Whether to use a TPU.")
    tpu_name: str | None = setting(
        None, "Name or grpc:// address of the Cloud TPU."
    )
    tpu_zone: str | None = setting(
        None, "GCE zone of the TPU; found automatically if not given."
    )
    gcp_project: str | None = setting(
        None, "Project of the TPU; found automatically if not given."
    )
    master: str | None = setting(None, "Address of the TPU's master.")
    num_tpu_cores: int = setting(
        8, "Cores of the TPU; only compared, with a warning."
    )
    precision: str = setting(
        "float32",
        "[new] Arithmetic; weights, layer norm and softmax stay float32. "
        "bfloat16 is faster on a TPU, a GPU of compute capability 8.0 or more, "
        "and a CPU with avx512_bf16 or amx_bf16; on other CPUs it is slower "
        "than float32. auto: bfloat16 on those devices, else float32; the log "
        "says which. float16 scales the loss, and skips updates that overflow.",
        choices=PRECISIONS,
    )
    distribution_strategy: str = setting(
        "auto",
        "[new] auto: the TPU if --use_tpu, else the hosts that TF_CONFIG "
        "names, else all GPUs of this one, else the CPU.",
        choices=STRATEGIES,
    )
    allow_tf32: bool = setting(
        True,
        "[new] Compute float32 products in TF32 on a GPU of compute capability "
        "8.0 or more: several times as fast, with 10 bits instead of 23 after "
        "the leading one. False: in float32, as on a CPU.",
    )
    deterministic: bool = setting(
        False,
        "[new] Add in a fixed order (TensorFlow's op determinism), so that "
        "a repeated run on the same GPUs gives the same result. Slower. On one "
        "CPU a run repeats without it.",
    )
    worker_timeout_minutes: float = setting(
        30.0,
        "[new] With several workers: end when the others have not come to the "
        "same point for so long, because one of them hangs. Longer than one of "
        "them may work alone, such as the first one that saves; 0 = wait "
        "forever.",
        least=0,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainOptions(Settings):
    """How a model is trained."""

    output_dir: str = setting(
        help="Folder of checkpoints, events, records and results. A run that "
        "was stopped resumes there."
    )
    train_batch_size: int = setting(
        32, "Examples of one update, over all devices together.", least=1
    )
    learning_rate: float = setting(
        5e-5, "Peak learning rate (linear warm-up and decay).", above=0
    )
    num_train_steps: int = setting(
        help="Updates in all, those before a resume included.", least=1
    )
    num_warmup_steps: int = setting(0, "Updates of warm-up.", least=0)
    num_train_minutes: float = setting(
        0.0,
        "[new] Train so long, and let the learning rate follow the clock: it "
        "is 0 when the time is over, however many updates that makes. The "
        "warm-up keeps its share of the whole. Counted are compiling, saving, "
        "evaluating while training, and the time before a resume, but not the "
        "pause; 0 = train by steps.",
        least=0,
    )
    stop_at_step: int = setting(
        0,
        "[new] End this run at a step before --num_train_steps, such as the "
        "end of the first of two phases; 0 = go to the end.",
        least=0,
    )
    continue_from: str = setting(
        "",
        "[new] Folder of a run that ended before --num_train_steps. This one "
        "continues with its weights, optimizer slots and step, in another "
        "--output_dir, and reads its --input_file from the beginning.",
    )
    optimizer: str = setting(
        "adamw",
        "[new] adamw = the original's Adam; lamb = for batches of thousands.",
        choices=OPTIMIZERS,
    )
    save_checkpoints_steps: int = setting(
        1000, "Updates between checkpoints.", least=1
    )
    keep_checkpoint_max: int | None = setting(
        None,
        "[new] Checkpoints kept; 0 = all. If not given, 5 while training, and "
        "of a finished fine-tuning the last one.",
        least=0,
    )
    iterations_per_loop: int = setting(
        1000,
        "Most updates of one call into the device. A call is kept to about a "
        "second, on a TPU to five, so that progress shows and SIGTERM is "
        "heard.",
        least=1,
    )
    gradient_accumulation_steps: int = setting(
        1,
        "[new] Micro-batches that one update is made of: the same result "
        "with a fraction of the memory.",
        least=1,
    )
    log_steps: int = setting(
        100, "[new] Updates between log lines and event points.", least=1
    )
    eval_every_steps: int = setting(
        0,
        "[new] Evaluate every so many updates while training; 0 = never.",
        least=0,
    )
    seed: int = setting(
        12345,
        "[new] Seed of initial weights, dropout and data order.",
        least=0,
        most=2**31 - 1,
    )
    gradient_checkpointing: bool = setting(
        False,
        "[new] Compute the inside of each Transformer block twice instead of "
        "keeping it: half the memory, 40 % more time, the same result.",
    )
    whole_last_layer: bool = setting(
        False,
        "[new] Compute the last Transformer block at every position, as the "
        "original does. Without it, only the positions that are used are "
        "computed: the masked positions and [CLS] in pretraining, [CLS] in a "
        "classifier. It is slower and has the same result except for rounding "
        "and the random numbers of dropout.",
    )
    xla: bool = setting(
        False,
        "[new] Compile the gradient with XLA: on a CPU faster for small "
        "models (hidden size 128), slower for large ones in bfloat16.",
    )
    fuse: bool | None = setting(
        None,
        "[new] Compile the parts of a training step between its matrix "
        "products, each into one loop, with XLA (a TPU always does so). On a "
        "CPU it is faster after about a second at each new length. The result "
        "is the same except for rounding. Default: if training is long enough "
        "to be faster with it.",
    )
    layerwise_lr_decay: float = setting(
        1.0,
        "[new] Learning rate of each block as a share of the block above it. "
        "Of an ELECTRA the last block is two below the head, as in its code, "
        "which uses 0.8, for the large size 0.9.",
        above=0,
        most=1,
    )
    trainable_layers: int = setting(
        -1,
        "[new] Number of last blocks to train, with the head; -1 = all.",
        least=-1,
    )

    @property
    def last_step(self) -> int:
        """The last step of training without --num_train_minutes."""
        return self.stop_at_step or self.num_train_steps

    @property
    def end(self) -> tuple[str, float, str]:
        """The flag that ends training, its value and its unit."""
        name = next(
            name
            for name in ("num_train_minutes", "stop_at_step", "num_train_steps")
            if getattr(self, name)
        )
        unit = "minutes" if name == "num_train_minutes" else "steps"
        return name, getattr(self, name), unit

    def _check(self) -> None:
        """Refuses contradictions about where training begins and ends."""
        if self.stop_at_step and self.num_train_minutes:
            raise ValueError(
                f"--stop_at_step={self.stop_at_step} contradicts "
                f"--num_train_minutes={self.num_train_minutes:g}, which ends "
                "after a time; drop one."
            )
        if self.stop_at_step > self.num_train_steps:
            raise ValueError(
                f"--stop_at_step={self.stop_at_step} is after "
                f"--num_train_steps={self.num_train_steps}, the end of the "
                "schedule; --num_train_steps is the sum over all phases."
            )
        if self.continue_from and self.num_train_minutes:
            raise ValueError(
                f"--continue_from={self.continue_from} continues a schedule of "
                "steps, which --num_train_minutes does not have; begin the "
                "next phase with --init_checkpoint."
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ServingOptions(Settings):
    """What the clients of an export send, and what they receive."""

    signatures: tuple[str, ...] = setting(
        SIGNATURES,
        "[new] Signatures of the export: ids, examples (serialized "
        "tf.Example), text. Without text, a server needs no operations of "
        "TensorFlow Text.",
        flag="export_signatures",
    )
    default: str | None = setting(
        None,
        "[new] What serving_default takes. If not given, the first of "
        "--export_signatures.",
        choices=SIGNATURES,
        flag="serving_default",
    )
    ids_dtype: str = setting(
        "int32",
        "[new] Type of the ids that clients send.",
        choices=("int32", "int64"),
        flag="serving_ids",
    )
    like_original: bool = setting(
        False,
        "[new] For clients of the original's usual "
        "serving_input_receiver_fn: serving_default with ids also takes "
        "label_ids (a question's: unique_ids), and it returns probabilities "
        "alone (a question's: unique_ids, start_logits, end_logits).",
        flag="serving_like_original",
    )

    @property
    def default_form(self) -> str:
        """What `serving_default` takes, one of SIGNATURES."""
        return self.default or self.signatures[0]

    def _check(self) -> None:
        given = ",".join(self.signatures)
        known = set(self.signatures) <= set(SIGNATURES)
        if not known or len(set(self.signatures)) != len(self.signatures):
            raise ValueError(
                f"--export_signatures={given}; it must be some of "
                f"{','.join(SIGNATURES)}, each once."
            )
        if not self.signatures:
            raise ValueError(
                "--export_signatures is empty; give some of "
                f"{','.join(SIGNATURES)}."
            )
        if self.default_form not in self.signatures:
            raise ValueError(
                f"--serving_default={self.default} is not exported by "
                f"--export_signatures={given}; add it there."
            )
        if self.ids_dtype != "int32" and "ids" not in self.signatures:
            raise ValueError(
                f"--serving_ids={self.ids_dtype}: no signature takes ids by "
                f"--export_signatures={given}; add ids there, or drop "
                "--serving_ids."
            )
        if self.like_original and self.default_form == "text":
            raise ValueError(
                "--serving_like_original: clients of the original send ids or "
                "examples; give --serving_default=ids or examples."
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportOptions(Settings):
    """What is exported, and where to."""

    do_export: bool = setting(True, DO_EXPORT)
    output_dir: str = setting(help="Folder of the finished run.")
    export_dir: str | None = setting(
        None,
        "[new] Where to: the next version is written, EXPORT_DIR/1, 2, ...",
    )
    precision: str = setting(
        "float32",
        "[new] Arithmetic of the export; its README.md says what is lost.",
        choices=EXPORT_PRECISIONS,
        flag="export_precision",
    )
    serving: ServingOptions = ServingOptions()

    def _check(self) -> None:
        if not self.export_dir:
            raise ValueError("--do_export: give --export_dir, a folder.")
        files.check_writable(self.export_dir, "export_dir")
