"""Losses against a teacher's logits: by NumPy, with padding and fillers.

Hinton et al., 2015 (arXiv:1503.02531): T^2 KL(teacher, student) of softened
probabilities, mixed with the loss of the labels.
"""

import dataclasses
import functools

import numpy as np
import pytest
import tensorflow as tf
from scipy.special import log_softmax

from data.records import length_batches
from modeling import SpanModel, TaskModel
from modeling.losses import Distillation
from tests.modeling.objectives import tasks_support
from tests.modeling.objectives.tasks_support import LABELS
from tests.support.small_model import SMALL

LENGTHS = [9, 3, 11, 1, 6, 8]
REAL, LABELED = [1, 1, 1, 1, 0, 1], [1, 0, 1, 1, 1, 0]
CONFIG = dataclasses.replace(SMALL, vocab_size=1200)


def make_batch(kind, labeled=LABELED):
    """Random examples, and random logits of a teacher, also of padding."""
    rng = np.random.default_rng(3)
    size = LABELS.get(kind, 2)
    width = size * (16 if kind in ("tagging", "span") else 1)
    columns = {
        "teacher_logits": 3 * rng.normal(size=[len(LENGTHS), width]),
        "is_real_example": np.c_[REAL],
        "is_labeled": np.c_[labeled],
    }
    if kind == "span":
        answers = np.minimum(rng.integers(0, 2, (6, 1)), np.c_[LENGTHS] - 1)
        columns |= {"start_positions": answers, "end_positions": answers}
        kind = "classification"  # its texts
    return tasks_support.make_batch(kind, LENGTHS, 16, size, **columns)


def make_model(kind, distillation=None):
    make = functools.partial(TaskModel, CONFIG, kind, LABELS.get(kind))
    if kind == "span":
        make = functools.partial(SpanModel, CONFIG)
    model = tasks_support.with_random_head(make)
    model.distillation = distillation
    return model


def loss_of(model, batch):
    return float(model.losses(batch, model.loss_weights(batch))[0])


def divergence(teacher, student, temperature):
    """T^2 sum p log(p / q) over the last axis, in float64."""
    p, q = (log_softmax(x / temperature, axis=-1) for x in (teacher, student))
    return temperature**2 * (np.exp(p) * (p - q)).sum(axis=-1)


def soft_reference(kind, student, batch, temperature):
    """The mean over the items that count."""
    batch = {name: x.numpy().astype(np.float64) for name, x in batch.items()}
    teacher = batch["teacher_logits"].reshape(student.shape)
    weights = batch["is_real_example"]
    if kind == "regression":
        items = (student - teacher) ** 2
    elif kind == "multilabel":
        pairs = [np.stack([x, 0 * x], -1) for x in (teacher, student)]
        items = divergence(*pairs, temperature).mean(axis=1, keepdims=True)
    elif kind == "span":
        items = np.zeros([len(LENGTHS), 1])
        for row, length in enumerate(LENGTHS):  # real wordpieces alone
            ends = [x[row, :length].T for x in (teacher, student)]
            items[row] = divergence(*ends, temperature).mean()
    else:
        items = divergence(teacher, student, temperature)
        if kind == "tagging":
            weights = weights * batch["label_mask"]
        else:
            items = items[:, None]
    return (items * weights).sum() / weights.sum()


@pytest.mark.parametrize("temperature", [1.0, 2.5])
@pytest.mark.parametrize("kind", [*LABELS, "span"])
def test_teachers_alone_equal_numpy(kind, temperature):
    model = make_model(kind, Distillation(1.0, temperature))
    batch = make_batch(kind)
    logits = model.logits(batch).numpy().astype(np.float64)
    expected = soft_reference(kind, logits, batch, temperature)
    assert loss_of(model, batch) == pytest.approx(expected, rel=2e-5)
    own = logits.astype(np.float32).reshape(len(LENGTHS), -1)
    same = batch | {"teacher_logits": tf.constant(own)}
    assert abs(loss_of(model, same)) < 1e-6 * expected


@pytest.mark.parametrize("kind", [*LABELS, "span"])
def test_examples_without_a_label_learn_from_the_teacher_alone(kind):
    batch = make_batch(kind)
    soft = loss_of(make_model(kind, Distillation(1.0, 2.0)), batch)
    model = make_model(kind, Distillation(0.25, 2.0))
    labeled = batch | {
        "is_real_example": batch["is_real_example"] * batch["is_labeled"]
    }
    plain = make_model(kind)
    hard, metrics = plain.losses(labeled, plain.loss_weights(batch))
    loss, found = model.losses(batch, model.loss_weights(batch))
    assert float(loss) == pytest.approx(0.25 * soft + 0.75 * float(hard), 1e-5)
    np.testing.assert_array_equal(found[model.metric], metrics[model.metric])


@pytest.mark.parametrize("kind", [*LABELS, "span"])
def test_a_trimmed_batch_has_the_same_loss(kind):
    model, batch = make_model(kind, Distillation(0.5, 2.0)), make_batch(kind)
    choices = LABELS[kind] if kind == "choice" else 1
    trimmed = length_batches.trim_batch(batch, choices, exact=True)
    assert trimmed["input_ids"].shape[1] == 11 * choices
    assert loss_of(model, trimmed) == pytest.approx(loss_of(model, batch), 1e-5)
