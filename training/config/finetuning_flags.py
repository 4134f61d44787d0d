"""Flags that the programs of fine-tuning share, and the options made of them.

Only programs import this; see `flags`.
"""

import dataclasses

from absl import flags

from training.config import flags as training_flags
from training.config.finetuning_options import FinetuningOptions
from training.config.options import TrainOptions

FLAGS = flags.FLAGS


def define_finetuning_flags(
    *,
    max_seq_length: int,
    row: str,
    group_by_length: bool,
    has_eval_batch_size: bool = True,
) -> None:
    """Flags of model, training and device.

    Args:
      max_seq_length: the program's default.
      row: what an example of its is called, for the help texts.
      group_by_length: the program's default.
      has_eval_batch_size: see `define_training_flags`.
    """
    training_flags.define_model_flags()
    training_flags.define_training_flags(has_eval_batch_size)
    training_flags.define_selection_flags()
    training_flags.define_device_flags()
    training_flags.define_export_flags()
    flags.DEFINE_string("vocab_file", None, "The model's vocabulary.")
    flags.DEFINE_string(
        "output_dir", None, "Folder of checkpoints, records and results."
    )
    flags.DEFINE_integer(
        "max_seq_length",
        max_seq_length,
        f"Wordpieces of {row}.",
    )
    flags.DEFINE_integer("predict_batch_size", 8, "Rows predicted at once.")
    flags.DEFINE_float("num_train_epochs", 3.0, "Passes over the train set.")
    flags.DEFINE_float(
        "warmup_proportion",
        0.1,
        "Share of the updates in which the rate rises.",
    )
    flags.DEFINE_bool(
        "use_one_hot_embeddings",
        False,
        "[new] Look words up by matrix product; always so on a TPU.",
    )
    flags.DEFINE_bool(
        "trim_batches",
        True,
        "[new] Cut each batch to its longest row: the same result, less time. "
        "Never on a TPU.",
    )
    flags.DEFINE_bool(
        "group_by_length",
        group_by_length,
        "[new] Put training rows of similar length together.",
    )
    flags.DEFINE_integer(
        "shuffle_window",
        0,
        "[new] Records held to draw the next one from; 0 = the whole set, 100 "
        "= as the original.",
    )
    training_flags.define_field(
        TrainOptions,
        "layerwise_lr_decay",
        "[new] Rate of each block below the last, as a share of the one above.",
    )
    training_flags.define_field(
        TrainOptions,
        "trainable_layers",
        "[new] Train so many of the last blocks, and the head; -1 = all.",
    )
    # So that --help of a program that adopts these shows those.
    flags.adopt_module_key_flags(training_flags)


def finetuning_options(eval_batch_size: int) -> FinetuningOptions:
    """The flags of `define_finetuning_flags`, parsed.

    Args:
      eval_batch_size: rows of an evaluation batch.

    Raises:
      ValueError: a value is impossible.
    """
    return FinetuningOptions(
        bert_config_file=FLAGS.bert_config_file,
        init_checkpoint=FLAGS.init_checkpoint,
        max_seq_length=FLAGS.max_seq_length,
        num_train_epochs=FLAGS.num_train_epochs,
        warmup_proportion=FLAGS.warmup_proportion,
        eval_batch_size=eval_batch_size,
        predict_batch_size=FLAGS.predict_batch_size,
        trim_batches=FLAGS.trim_batches,
        group_by_length=FLAGS.group_by_length,
        shuffle_window=FLAGS.shuffle_window,
        save_best=FLAGS.save_best,
        early_stopping_patience=FLAGS.early_stopping_patience,
        use_one_hot_embeddings=FLAGS.use_one_hot_embeddings,
        # The steps follow from the epochs.
        train=dataclasses.replace(
            training_flags.train_options(num_train_steps=1, num_warmup_steps=0),
            layerwise_lr_decay=FLAGS.layerwise_lr_decay,
            trainable_layers=FLAGS.trainable_layers,
        ),
        device=training_flags.device_options(),
    )
