"""A trainer on the golden model and records, shared by several tests."""

import time

import numpy as np

from data import input_pipeline, records
from modeling import BertConfig, PretrainingModel, checkpoints
from training import loop
from training.checkpointing import CheckpointManager
from training.options import TrainOptions


def golden_run(
    goldens,
    output_dir,
    *,
    num_train_steps=60,
    dtype="float32",
    dropout=0.0,
    shuffle_window=1,
    offset=0,
    clock=time.monotonic,
    **options,
):
    """Trains as the golden trajectory did; call it in a strategy's scope.

    Args:
      goldens: the folder.
      output_dir: of the run.
      num_train_steps: of the schedule.
      dtype: Keras policy.
      dropout: both rates.
      shuffle_window: of the records.
      offset: examples to leave out at the beginning.
      clock: see `loop.Trainer`.
      options: of the loop, where they differ.

    Returns:
      The metrics of each step as {name: [steps]}, and the weights by name.
    """
    config = BertConfig.from_json_file(str(goldens / "bert_config.json"))
    rates = {
        "hidden_dropout_prob": dropout,
        "attention_probs_dropout_prob": dropout,
    }
    config = BertConfig.from_dict(config.to_dict() | rates)
    model = PretrainingModel(
        config,
        dtype=dtype,
        gradient_checkpointing=options.get("gradient_checkpointing", False),
    )
    variables = checkpoints.variables_by_name(model.layers)
    checkpoints.init_from_checkpoint(str(goldens / "model/init"), variables)
    train_options = TrainOptions(
        output_dir=str(output_dir),
        train_batch_size=16,
        learning_rate=1e-3,
        num_train_steps=num_train_steps,
        num_warmup_steps=10,
        **options,
    )
    trainer = loop.Trainer(model, train_options, clock)
    opened = input_pipeline.open_records(
        [str(goldens / "pretraining_data/wordpiece_masking.tf_record")],
        records.pretraining_features(64, 10),
        limits={},
    )
    history = []
    run_steps = trainer.run_steps

    def recorded(iterator, **call):
        metrics = run_steps(iterator, **call)
        history.append(metrics)
        return metrics

    trainer.run_steps = recorded
    trainer.train(
        lambda first_example, shard: input_pipeline.training_batches(
            opened,
            batch_size=16,
            seed=1,
            first_example=offset + first_example,
            shard=shard,
            shuffle_window=shuffle_window,
        ),
        CheckpointManager(str(output_dir)),
        num_examples=opened.count,
    )
    stacked = np.concatenate(history) if history else np.zeros((0, 7, 2))
    with np.errstate(invalid="ignore"):  # a skipped update has no norm: nan
        metrics = {
            name: stacked[:, i, 0] / stacked[:, i, 1]
            for i, name in enumerate(trainer.metric_names)
        }
    return metrics, {n: v.numpy() for n, v in variables.items()}


def assert_same_weights(got, want, share):
    """Each tensor within `share` of its own largest magnitude.

    The key biases are left to an absolute bound: softmax does not change when
    one number is added to a whole row, so their gradient is 0 but for
    rounding, and so are their slots.
    """
    assert got.keys() == want.keys()
    for name, value in want.items():
        if "self/key/bias" in name:
            assert np.abs(got[name]).max() < 1e-6, name
        else:
            bound = share * np.abs(value).max()
            assert np.abs(got[name] - value).max() <= bound, name
