"""Vectors of texts and words, against NumPy."""

import numpy as np
import pytest

from modeling import choices, pooling
from tests.support import rounding

RNG = np.random.default_rng(4)
VECTORS = RNG.normal(size=(3, 6, 2, 5)).astype(np.float32)
LENGTHS = (6, 4, 1)
MASK = (np.arange(6) < np.array(LENGTHS)[:, None]).astype(np.int32)


@pytest.mark.parametrize(
    ("name", "of_real"),
    [
        ("cls", lambda x: x[0]),
        ("mean", lambda x: x.mean(axis=0)),
        ("max", lambda x: x.max(axis=0)),
    ],
)
def test_one_vector_of_the_real_wordpieces(name, of_real):
    pooled = np.asarray(pooling.pool(VECTORS, MASK, name))
    expected = [of_real(x[:n]) for x, n in zip(VECTORS, LENGTHS, strict=True)]
    assert pooled.shape == (3, 1, 2, 5)
    np.testing.assert_allclose(pooled[:, 0], expected, atol=rounding.ONE_SUM)


def test_without_pooling_nothing_changes():
    assert pooling.pool(VECTORS, MASK, "none") is VECTORS


def test_a_row_without_text_is_finite():
    for name in choices.POOLINGS:
        pooled = np.asarray(pooling.pool(VECTORS, 0 * MASK, name))
        assert np.isfinite(pooled).all(), name


def test_layers_are_joined_in_their_order():
    outputs = [VECTORS[:, :, i] for i in (0, 1, 0)]
    for name, expected, bound in (
        ("separate", np.stack(outputs, axis=2), 0),
        ("concat", np.concatenate(outputs, axis=-1)[:, :, np.newaxis], 0),
        ("sum", sum(outputs)[:, :, np.newaxis], rounding.ONE_SUM),
    ):
        joined = pooling.mix_layers(outputs, name)
        assert joined.shape == expected.shape
        np.testing.assert_allclose(joined, expected, rtol=0, atol=bound)


def test_a_word_is_the_mean_of_its_wordpieces():
    word_ids = np.array(
        [[0, 1, 1, 1, 2, 3], [0, 0, 1, 2, -1, -1], [0, -1, -1, -1, -1, -1]],
        np.int32,
    )
    means = pooling.word_means(VECTORS, word_ids).numpy()
    assert means.shape == VECTORS.shape
    for row, (vectors, words) in enumerate(zip(VECTORS, word_ids, strict=True)):
        for word in range(6):
            of_word = vectors[words == word]
            expected = of_word.mean(axis=0) if len(of_word) else 0.0
            np.testing.assert_allclose(
                means[row, word], expected, atol=rounding.ONE_SUM
            )
