"""Rows made in a graph are the rows of data.finetuning.features."""

import random

import numpy as np
import pytest
import tensorflow as tf

from data.finetuning import features
from data.tasks import InputExample
from data.text.in_graph import packing
from data.text.in_graph.tokenization import InGraphTokenizer
from data.text.packing import INPUTS

SPECIAL = {"cls_id": 2, "sep_id": 3}  # of the goldens


def rows_of(examples, tokenizer, **options):
    made = features.FeatureOptions("classification", ("0", "1"), **options)
    rows = list(features.Converter(tokenizer, made).rows(examples))
    return {name: np.stack([row[name] for row in rows]) for name in INPUTS}


def random_texts(rng, count, most):
    words = "the man 's café , \u4e2d unaffable \u200b x".split(" ")
    return [
        " ".join(rng.choices(words, k=rng.randint(0, most)))
        for _ in range(count)
    ]


@pytest.fixture(scope="module")
def asked(goldens):
    """First and second texts, and the wordpieces of both."""
    rng = random.Random(11)
    texts = [random_texts(rng, 60, 20) for _ in range(2)]
    tokenizer = InGraphTokenizer(str(goldens / "vocab.txt"))
    signature = [tf.TensorSpec([None], tf.string)]
    tokenize = tf.function(tokenizer.tokenize, input_signature=signature)
    return texts, [tokenize(tf.constant(some)) for some in texts]


@pytest.mark.parametrize("cut", ["longest", "first"])
@pytest.mark.parametrize("length", [5, 6, 11, 24])
@pytest.mark.parametrize("is_pair", [False, True])
def test_rows_are_those_of_features(tokenizer, asked, cut, length, is_pair):
    (first, second), pieces = asked
    if not is_pair:
        second = [None] * len(first)
    expected = rows_of(
        [InputExample("", a, b) for a, b in zip(first, second, strict=True)],
        tokenizer,
        max_seq_length=length,
        cut=cut,
    )

    @tf.function
    def pack(pieces_a, pieces_b=None):
        return packing.pack(
            pieces_a, pieces_b, max_seq_length=length, cut=cut, **SPECIAL
        )

    rows = pack(*pieces[: 1 + is_pair])
    longest = int(expected["input_mask"].sum(1).max())
    assert rows["input_ids"].shape[1] == longest
    for name in INPUTS:
        np.testing.assert_array_equal(rows[name], expected[name][:, :longest])
        assert not expected[name][:, longest:].any()
        assert rows[name].dtype == tf.int32


def test_a_later_cls_and_what_follows_is_no_row():
    ids = [
        [[2, 5, 3, 2, 2], [2, 5, 3, 6, 3], [5, 3, 2, 7, 0]],
        [[2, 2, 5, 5, 5], [2, 5, 0, 0, 2], [2, 2, 2, 2, 2]],
    ]
    found = packing.before_later_cls(tf.constant(ids), cls_id=2)
    assert found.numpy().tolist() == [
        [[1, 1, 1, 0, 0], [1, 1, 1, 1, 1], [1, 1, 0, 0, 0]],
        [[1, 0, 0, 0, 0], [1, 1, 1, 1, 0], [1, 0, 0, 0, 0]],
    ]
    nothing = packing.before_later_cls(tf.zeros([3, 0], tf.int32), cls_id=2)
    assert nothing.shape == (3, 0)


@pytest.mark.parametrize("cut", ["longest", "first"])
def test_every_pair_of_lengths_is_shortened_alike(cut):
    pairs = [(a, b) for a in range(9) for b in range(9)]
    lengths = np.array(pairs)

    def ragged(column, first):
        return tf.ragged.range(first, first + lengths[:, column])

    for length in range(5, 12):
        rows = packing.pack(
            tf.cast(ragged(0, 100), tf.int32),
            tf.cast(ragged(1, 200), tf.int32),
            max_seq_length=length,
            cls_id=1,
            sep_id=2,
            cut=cut,
        )
        for row, (num_a, num_b) in zip(
            rows["input_ids"].numpy(), pairs, strict=True
        ):
            a, b = list(range(100, 100 + num_a)), list(range(200, 200 + num_b))
            features.packing.truncate_ends(a, b, length - 2 - (num_b > 0), cut)
            wanted = [1, *a, 2, *b, *([2] if num_b else [])]
            assert row[row > 0].tolist() == wanted
