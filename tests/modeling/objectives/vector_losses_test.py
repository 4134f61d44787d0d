"""The losses of sentence vectors, beside NumPy's forms of them."""

import numpy as np
import pytest
import tensorflow as tf

from modeling.choices import VECTOR_LOSSES
from modeling.objectives import vector_losses

RNG = np.random.default_rng(7)
SCALE = 5.0


def cosine(a, b):
    return float(a @ b / np.sqrt(a @ a) / np.sqrt(b @ b))


def cosent(vectors, scores):
    """The sum over all pairs of pairs, written out."""
    cosines = [cosine(a, b) for a, b in zip(*vectors, strict=True)]
    total = 1.0
    for i, low in enumerate(scores):
        for j, high in enumerate(scores):
            if low[0] < high[0]:
                total += np.exp(SCALE * (cosines[i] - cosines[j]))
    return np.log(total)


def squared(vectors, scores):
    pairs = zip(*vectors, scores, strict=True)
    return np.mean([(cosine(a, b) - score[0]) ** 2 for a, b, score in pairs])


def negatives(vectors, scores):
    first, *others = vectors
    losses = []
    for i, query in enumerate(first):
        logits = [SCALE * cosine(query, x) for text in others for x in text]
        losses.append(np.log(np.sum(np.exp(logits))) - logits[i])
    return np.mean(losses)


def teacher(vectors, targets):
    pairs = zip(vectors[0], targets, strict=True)
    return np.mean([1 - cosine(a, b) for a, b in pairs])


CASES = {
    "cosent": (cosent, 2, np.array([[0.2], [0.9], [0.2], [0.5], [1.0]])),
    "cosine": (squared, 2, np.array([[0.2], [-0.9], [0.2], [0.5], [1.0]])),
    "negatives": (negatives, 2, None),
    "hard negatives": (negatives, 3, None),
    "teacher": (teacher, 1, RNG.normal(size=(5, 4))),
}


def test_every_loss_is_tested():
    assert {name.split()[-1] for name in CASES} == {*VECTOR_LOSSES}


@pytest.mark.parametrize("name", CASES)
def test_value_and_gradients_are_those_of_the_formula(name):
    formula, num_texts, targets = CASES[name]
    vectors = RNG.normal(size=(num_texts, 5, 4))
    inputs = [tf.constant(x, tf.float32) for x in vectors]
    given = None if targets is None else tf.constant(targets, tf.float32)
    loss = vector_losses.get(name.split()[-1])
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        value = loss(inputs, given, SCALE)
    gradients = np.stack(tape.gradient(value, inputs))
    assert float(value) == pytest.approx(formula(vectors, targets), rel=1e-5)
    step, expected = 1e-6, np.zeros_like(vectors)
    for place in np.ndindex(vectors.shape):
        moved = [vectors.copy(), vectors.copy()]
        moved[0][place] += step
        moved[1][place] -= step
        up, down = (formula(x, targets) for x in moved)
        expected[place] = (up - down) / (2 * step)
    np.testing.assert_allclose(gradients, expected, rtol=1e-4, atol=2e-6)


def test_pairs_of_equal_score_are_not_ranked():
    vectors = [tf.constant(RNG.normal(size=(3, 4)), tf.float32)] * 2
    loss = vector_losses.get("cosent")(vectors, tf.ones([3, 1]), SCALE)
    assert float(loss) == 0.0


def test_an_unknown_loss_is_refused_with_the_names_of_all():
    with pytest.raises(ValueError, match="cosent, cosine, negatives, teacher"):
        vector_losses.get("triplet")
