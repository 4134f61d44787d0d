"""A trainer on the golden model and records, shared by several tests."""

import contextlib
import dataclasses
import json
import socket
import time
from unittest import mock

import numpy as np
import tensorflow as tf

from data.records import feature_spec, input_pipeline
from modeling import BertConfig, PretrainingModel, TaskModel, checkpoints
from tests.support import rounding
from training.config.run_options import TrainOptions
from training.loop import optimizers, steps
from training.loop import trainer as loop

# Endings of the files of a checkpoint.
FILES = (".index", ".data-00000-of-00001", ".resume.json")


def golden_run(
    goldens,
    output_dir,
    *,
    num_train_steps=60,
    num_layers=1,
    dtype="float32",
    dropout=0.0,
    shuffle_window=1,
    offset=0,
    clock=time.monotonic,
    evaluate=None,
    **options,
):
    """Trains as the golden trajectory did; call it in a strategy's scope.

    Args:
      goldens: the folder.
      output_dir: of the run.
      num_train_steps: of the schedule.
      num_layers: 3 as the golden model, or only its first ones.
      dtype: Keras policy.
      dropout: both rates.
      shuffle_window: of the records.
      offset: examples to leave out at the beginning.
      clock: see `trainer.Trainer`.
      evaluate: likewise.
      options: of the loop, where they differ.

    Returns:
      The metrics of each step as {name: [steps]}, and the weights by name.
    """
    model, variables = _model(goldens, num_layers, dropout, dtype, options)
    train_options = TrainOptions(
        output_dir=str(output_dir),
        train_batch_size=16,
        learning_rate=1e-3,
        num_train_steps=num_train_steps,
        num_warmup_steps=10,
        **options,
    )
    trainer = loop.Trainer(model, train_options, evaluate, clock)
    opened = golden_records(goldens)
    with recorded_metrics() as metrics:
        trainer.train(
            lambda first_example, shard: input_pipeline.training_batches(
                opened,
                batch_size=16,
                seed=1,
                first_example=offset + first_example,
                shard=shard,
                shuffle_window=shuffle_window,
            ),
            num_examples=opened.count,
        )
    return metrics, {n: v.numpy() for n, v in variables.items()}


def steps_of(model, **options):
    """The training steps of a short run that warms up and writes nothing."""
    usual = {"output_dir": "", "num_train_steps": 10, "num_warmup_steps": 2}
    return steps.TrainSteps(model, TrainOptions(**usual | options))


def golden_records(goldens):
    """The original's records of pretraining."""
    return input_pipeline.open_records(
        [str(goldens / "pretraining_data/wordpiece_masking.tf_record")],
        feature_spec.pretraining_features(64, 10),
        limits={},
    )


@contextlib.contextmanager
def recorded_metrics():
    """The metrics of all steps, {name: [steps]}, when the block has ended."""
    names, rows, metrics = [], [], {}
    run_steps = loop.Trainer.run_steps

    def recorded(self, *args, **kwargs):
        found = run_steps(self, *args, **kwargs)
        with np.errstate(invalid="ignore"):  # a skipped update has no norm: nan
            rows.extend(found[..., 0] / found[..., 1])
        names[:] = self._steps.metric_names
        return found

    with mock.patch.object(loop.Trainer, "run_steps", recorded):
        yield metrics
    metrics |= dict(zip(names, np.array(rows).T, strict=True))


def _model(goldens, num_layers, dropout, dtype, options):
    """The model with the golden first weights, and its variables by name."""
    config = dataclasses.replace(
        BertConfig.from_json_file(str(goldens / "bert_config.json")),
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        num_hidden_layers=num_layers,
    )
    model = PretrainingModel(
        config,
        dtype=dtype,
        gradient_checkpointing=options.get("gradient_checkpointing", False),
    )
    variables = checkpoints.variables_by_name(model.layers)
    checkpoints.init_from_checkpoint(str(goldens / "model/init"), variables)
    return model, variables


def assert_losses_near(losses, golden, dtype, num_layers=3):
    """Asserts that losses of `golden_run` differ from float32 by roundings.

    A loss is a mean of differences between logits. These are near 0 at first
    and grow as the loss falls, so its fall is the scale of what is rounded.
    The predictions share their weights; errors are not taken to cancel in the
    mean.

    Args:
      losses: of the first steps.
      golden: losses in float32.
      dtype: `bfloat16` or `float16`.
      num_layers: of both models; 3 as the golden one.
    """
    golden = np.asarray(golden, np.float64)[: len(losses)]
    logits = (
        rounding.EMBEDDINGS
        + num_layers * rounding.BLOCK
        + rounding.DENSE  # the transform before the vocabulary
        + 1  # its layer norm
        + rounding.DENSE  # the product with the vocabulary
    )
    # A gradient has passed the layers twice, and each update is a new share of
    # the fall with an error of its own.
    updates = 2 * logits / len(losses)
    scale = rounding.root_mean_square(golden[0] - golden)
    rounding.assert_near(losses, golden, dtype, logits + updates, scale)


class Sgd(optimizers.AdamWeightDecay):
    """Gradient descent, as an example of a third update rule."""

    @staticmethod
    def new_values(param, m, v, grad, *, rate, weight_decay, step):
        """Moves against the gradient."""
        return param - rate * grad, m, v


def sgd_run(goldens, accumulation=1, rule=Sgd, kind="classification"):
    """Makes three updates of a model by `Sgd`; the weights by name.

    Args:
      goldens: the folder.
      accumulation: micro-batches of an update.
      rule: another optimizer.
      kind: of the model's task; `tagging` does not read the pooler.
    """
    model, batch = first_model(goldens, kind)
    options = TrainOptions(
        output_dir="unused",
        train_batch_size=8,
        learning_rate=0.1,
        num_train_steps=10,
        optimizer="lamb",
        gradient_accumulation_steps=accumulation,
    )
    with mock.patch.object(steps, "Lamb", rule):
        train_steps = steps.TrainSteps(model, options)
    data = tf.data.Dataset.from_tensors(batch).unbatch().batch(8).repeat()
    strategy = tf.distribute.get_strategy()
    train_steps.run(
        iter(strategy.experimental_distribute_dataset(data)),
        tf.constant(1, tf.int64),
        tf.constant(3),
    )
    return {name: v.numpy() for name, v in train_steps.weights.items()}


def sgd_by_hand(goldens):
    """The weights of `sgd_run`, from the gradient of the whole batch."""
    model, batch = first_model(goldens)
    weights = checkpoints.variables_by_name(model.layers)
    words = weights["bert/embeddings/word_embeddings"]
    before = words.numpy()
    for rate in (0.09, 0.08, 0.07):
        with tf.GradientTape() as tape:
            loss, _ = model.losses(batch, model.loss_weights(batch))
        gradients = tape.gradient(loss, list(weights.values()))
        gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
        # Nothing is clipped.
        assert sum(np.square(gradient).sum() for gradient in gradients) < 1
        for variable, gradient in zip(weights.values(), gradients, strict=True):
            variable.assign_sub(rate * gradient)
    moved = (before != words.numpy()).any(axis=1)
    assert set(np.flatnonzero(moved)) == set(_WORDS)
    return {name: v.numpy() for name, v in weights.items()}


# Few enough that rows of a batch have a word twice.
_WORDS = (7, 8, 9, 30, 31)


def first_model(goldens, kind="classification"):
    """A model without dropout, the same at every call, and a batch."""
    rng = np.random.default_rng(0)
    ids = rng.choice(_WORDS, size=(8, 12))
    batch = {
        "input_ids": ids,
        "input_mask": np.ones_like(ids),
        "segment_ids": np.zeros_like(ids),
        "label_ids": rng.integers(0, 2, (8, 1)),
        "label_mask": np.ones_like(ids),
        "is_real_example": np.ones((8, 1)),
    }
    if kind == "tagging":
        batch["label_ids"] = rng.integers(0, 2, ids.shape)
    config = BertConfig.from_json_file(str(goldens / "first_layer.json"))
    model = TaskModel(config, kind=kind, num_labels=2)
    model._head_dropout = 0.0
    for variable in checkpoints.variables_by_name(model.layers).values():
        variable.assign(rng.normal(scale=0.1, size=variable.shape))
    return model, {n: tf.constant(x, tf.int32) for n, x in batch.items()}


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


def assert_near_weights(got, want, atol=rounding.EQUAL, rtol=rounding.EQUAL):
    """Equal except for the order of sums."""
    assert got.keys() == want.keys()
    for name, value in want.items():
        np.testing.assert_allclose(
            got[name], value, atol=atol, rtol=rtol, err_msg=name
        )


def free_ports(count):
    """Ports that nobody listens at now."""
    servers = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [server.getsockname()[1] for server in servers]
    for server in servers:
        server.close()
    return ports


def configurations(count):
    """TF_CONFIG of each of some workers of this host."""
    cluster = {"worker": [f"127.0.0.1:{port}" for port in free_ports(count)]}
    return [
        json.dumps({"cluster": cluster, "task": {"type": "worker", "index": i}})
        for i in range(count)
    ]
