"""Flags that several programs share, and the options made of them.

Only programs import this. Names and defaults are the original release's; a
help text marked [new] belongs to a flag that it did not have.
"""

from absl import flags

from training.config import options

FLAGS = flags.FLAGS

# They may lie elsewhere for each worker.
_PLACES = ("output_dir", "export_dir", "tfds_data_dir")


def define_field(options_class: type, name: str, meaning: str) -> None:
    """Defines the flag of a field of an option dataclass.

    Args:
      options_class: has the field, with a default.
      name: of the field, and so of the flag.
      meaning: the help text.
    """
    default = getattr(options_class, name)
    define = {
        bool: flags.DEFINE_bool,
        int: flags.DEFINE_integer,
        float: flags.DEFINE_float,
    }[type(default)]
    define(name, default, meaning)


def define_model_flags() -> None:
    """Flags that say which model."""
    flags.DEFINE_string(
        "bert_config_file",
        None,
        "JSON file with the sizes of the model, such as "
        "configs/uncased_L-12_H-768_A-12.json.",
    )
    flags.DEFINE_string(
        "init_checkpoint",
        None,
        "Checkpoint to start from: a prefix such as DIR/bert_model.ckpt, or "
        "a folder. Weights only: step and optimizer slots start anew. What "
        "was loaded, missing and unused is reported.",
    )


def define_selection_flags() -> None:
    """Flags that say which weights a fine-tuned model ends with."""
    flags.DEFINE_string(
        "save_best",
        "",
        "[new] Keep the weights that are best by this metric in "
        "output_dir/best, and use them: a name of metrics.json such as "
        "eval_loss, or DEV_SET/NAME. Needs --eval_every_steps.",
    )
    flags.DEFINE_integer(
        "early_stopping_patience",
        0,
        "[new] Stop after so many evaluations that are no better by "
        "--save_best; 0 = never.",
    )


def define_export_flags() -> None:
    """Flags of SavedModels for TF Serving."""
    flags.DEFINE_bool(
        "do_export",
        False,
        "[new] Write a SavedModel for TF Serving; also alone, of a finished "
        "--output_dir.",
    )
    flags.DEFINE_string(
        "export_dir",
        None,
        "[new] Where to: the next version is written, EXPORT_DIR/1, 2, ...",
    )
    flags.DEFINE_enum(
        "export_precision",
        "float32",
        options.EXPORT_PRECISIONS,
        "[new] Arithmetic of the export; its README.md says what is lost.",
    )


def define_device_flags() -> None:
    """Flags that say where to compute."""
    flags.DEFINE_bool("use_tpu", False, "Whether to use a TPU.")
    flags.DEFINE_string(
        "tpu_name", None, "Name or grpc:// address of the Cloud TPU."
    )
    flags.DEFINE_string(
        "tpu_zone", None, "GCE zone of the TPU; found by itself if not given."
    )
    flags.DEFINE_string(
        "gcp_project", None, "Project of the TPU; found by itself if not given."
    )
    flags.DEFINE_string("master", None, "Address of the TPU's master.")
    flags.DEFINE_integer(
        "num_tpu_cores", 8, "Cores of the TPU; only compared, with a warning."
    )
    flags.DEFINE_enum(
        "precision",
        "float32",
        options.PRECISIONS,
        "[new] Arithmetic; weights, layer norm and softmax stay float32. "
        "bfloat16 is faster on a TPU, a GPU of compute capability 8.0 or more, "
        "and a CPU with avx512_bf16 or amx_bf16; on other CPUs it is slower "
        "than float32. auto: bfloat16 on those devices, else float32; the log "
        "says which. float16 scales the loss, and skips updates that overflow.",
    )
    flags.DEFINE_enum(
        "distribution_strategy",
        "auto",
        options.STRATEGIES,
        "[new] auto: the TPU if --use_tpu, else the hosts that TF_CONFIG "
        "names, else all GPUs of this one, else the CPU.",
    )


def define_training_flags(has_eval_batch_size: bool = True) -> None:
    """Flags of the training loop; run_squad.py evaluates by predicting."""
    flags.DEFINE_integer(
        "train_batch_size",
        32,
        "Examples of one update, over all devices together.",
    )
    if has_eval_batch_size:
        flags.DEFINE_integer(
            "eval_batch_size", 8, "Examples of one eval batch."
        )
    flags.DEFINE_float(
        "learning_rate", 5e-5, "Peak learning rate (linear warm-up and decay)."
    )
    flags.DEFINE_integer(
        "save_checkpoints_steps", 1000, "Updates between checkpoints."
    )
    flags.DEFINE_integer(
        "iterations_per_loop",
        1000,
        "Most updates of one call into the device; on CPU and GPU a call is "
        "kept shorter, so that the progress shows.",
    )
    flags.DEFINE_integer(
        "keep_checkpoint_max", 5, "[new] Checkpoints kept; 0 = all."
    )
    flags.DEFINE_integer(
        "gradient_accumulation_steps",
        1,
        "[new] Micro-batches that one update is made of: the same result "
        "with a fraction of the memory.",
    )
    flags.DEFINE_integer(
        "log_steps", 100, "[new] Updates between log lines and event points."
    )
    flags.DEFINE_integer(
        "eval_every_steps",
        0,
        "[new] Evaluate every so many updates while training; 0 = never.",
    )
    flags.DEFINE_integer(
        "seed",
        12345,
        "[new] Seed of initial weights, dropout and data order.",
    )
    flags.DEFINE_enum(
        "optimizer",
        "adamw",
        options.OPTIMIZERS,
        "[new] adamw = the original's Adam; lamb = for batches of thousands.",
    )
    flags.DEFINE_float(
        "num_train_minutes",
        0.0,
        "[new] Train so long, and let the learning rate follow the clock: it "
        "is 0 when the time is over, however many updates that makes. The "
        "warm-up keeps its share of the whole. Counted are compiling, saving, "
        "evaluating while training, and the time before a resume, but not the "
        "pause; 0 = train by steps.",
    )
    flags.DEFINE_bool(
        "gradient_checkpointing",
        False,
        "[new] Compute the inside of each Transformer block twice, in place "
        "of keeping it: half the memory, 40 % more time, the same result.",
    )
    flags.DEFINE_bool(
        "whole_last_layer",
        False,
        "[new] Compute the last Transformer block at every position, as the "
        "original does, also where nobody reads it: pretraining reads the "
        "masked ones and [CLS], a classifier [CLS]. Slower, the same result "
        "but for rounding and the random numbers of dropout.",
    )
    flags.DEFINE_bool(
        "xla",
        False,
        "[new] Compile the gradient with XLA: on a CPU faster for small "
        "models (hidden size 128), slower for large ones in bfloat16.",
    )
    flags.DEFINE_bool(
        "fuse",
        None,
        "[new] Compile the parts of a training step between its matrix "
        "products, each into one loop, with XLA (a TPU does so anyhow): "
        "faster on a CPU but for about a second at each new length, the same "
        "result but for rounding. Not given: where training is long enough "
        "to repay that.",
    )


def device_options() -> options.DeviceOptions:
    """The flags of `define_device_flags`, parsed."""
    return options.DeviceOptions(
        use_tpu=FLAGS.use_tpu,
        tpu_name=FLAGS.tpu_name,
        tpu_zone=FLAGS.tpu_zone,
        gcp_project=FLAGS.gcp_project,
        master=FLAGS.master,
        num_tpu_cores=FLAGS.num_tpu_cores,
        precision=FLAGS.precision,
        distribution_strategy=FLAGS.distribution_strategy,
    )


def train_options(
    *, num_train_steps: int, num_warmup_steps: int
) -> options.TrainOptions:
    """The flags of `define_training_flags`, parsed.

    Args:
      num_train_steps: updates in all.
      num_warmup_steps: updates of warm-up.
    """
    return options.TrainOptions(
        output_dir=FLAGS.output_dir,
        train_batch_size=FLAGS.train_batch_size,
        learning_rate=FLAGS.learning_rate,
        num_train_steps=num_train_steps,
        num_warmup_steps=num_warmup_steps,
        save_checkpoints_steps=FLAGS.save_checkpoints_steps,
        keep_checkpoint_max=FLAGS.keep_checkpoint_max,
        iterations_per_loop=FLAGS.iterations_per_loop,
        gradient_accumulation_steps=FLAGS.gradient_accumulation_steps,
        log_steps=FLAGS.log_steps,
        eval_every_steps=FLAGS.eval_every_steps,
        seed=FLAGS.seed,
        optimizer=FLAGS.optimizer,
        num_train_minutes=FLAGS.num_train_minutes,
        gradient_checkpointing=FLAGS.gradient_checkpointing,
        whole_last_layer=FLAGS.whole_last_layer,
        xla=FLAGS.xla,
        fuse=FLAGS.fuse,
    )


def shared_values() -> dict[str, object]:
    """Flag -> value, of all that every worker of a run must be given alike."""
    return {
        flag.name: flag.value
        for module, defined in FLAGS.flags_by_module_dict().items()
        if not module.startswith("absl.")  # of the log
        for flag in defined
        if flag.name not in _PLACES
    }
