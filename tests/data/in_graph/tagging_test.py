"""Rows of tagged words made in a graph equal those made in Python."""

import random

import numpy as np
import pytest
import tensorflow as tf

from data.finetuning import features
from data.in_graph import tagging
from data.tasks import TaggingExample
from data.text.in_graph.tokenization import InGraphTokenizer
from data.text.tokenization import FullTokenizer

NAMES = ("input_ids", "input_mask", "segment_ids", "label_mask")
WORDS = "the man 's café , \u4e2d unaffable \u200b x extraordinarily".split()
SPECIAL = {"cls_id": 2, "sep_id": 3, "unknown_id": 1}  # in the goldens, too


@pytest.mark.parametrize("length", [5, 9, 16, 40])
def test_rows_are_those_of_features(tokenizer, length):
    rng = random.Random(length)
    # Of several rows, too.
    sentences = [rng.choices(WORDS, k=rng.randint(1, 20)) for _ in range(40)]
    options = features.FeatureOptions("tagging", ("0", "1"), length)
    made = features.Converter(tokenizer, options).rows(
        [TaggingExample("", words) for words in sentences]
    )
    expected = list(made)
    pieces = tf.ragged.constant(
        [[tokenizer.encode(word) for word in words] for words in sentences],
        tf.int32,
        ragged_rank=2,
    )
    batch, label_mask = tf.function(tagging.tagged_rows)(
        pieces, max_seq_length=length, **SPECIAL
    )
    got = batch | {"label_mask": tf.cast(label_mask, tf.int64)}
    for name in NAMES:
        wanted = np.stack([row[name] for row in expected])
        longest = got[name].shape[1]
        np.testing.assert_array_equal(got[name], wanted[:, :longest], name)
        assert not wanted[:, longest:].any()
    assert int(tf.reduce_sum(got["label_mask"])) == sum(map(len, sentences))


def test_a_sentence_without_words_has_a_row_without_labels():
    pieces = tf.RaggedTensor.from_row_lengths(
        tf.ragged.constant([[7, 8], [9]], tf.int32), [0, 2, 0]
    )
    batch, label_mask = tagging.tagged_rows(pieces, max_seq_length=5, **SPECIAL)
    empty, no_label = [2, 3, 0, 0, 0], [0] * 5
    ids = batch["input_ids"].numpy().tolist()
    assert ids == [empty, [2, 7, 8, 9, 3], empty]
    labels = label_mask.numpy().astype(int).tolist()
    assert labels == [no_label, [0, 1, 0, 1, 0], no_label]
    # No words at all.
    batch, label_mask = tagging.tagged_rows(
        pieces[:1], max_seq_length=5, **SPECIAL
    )
    assert batch["input_ids"].numpy().tolist() == [[2, 3]]
    assert not label_mask.numpy().any()


@pytest.mark.parametrize(
    ("do_lower_case", "never_split"),
    [(True, ()), (False, ()), (True, ("[MASK]", "the"))],
)
def test_words_of_pieces_are_those_of_the_tokenizer(
    goldens, do_lower_case, never_split
):
    """Marks, controls, syllables and sigmas in random places."""
    made_with = str(goldens / "vocab.txt"), do_lower_case, never_split
    parts = (
        " a the [MASK] \u03a3 \u0391 . \u0301 \u0302 \u200b \x94 \uac00 \u00e9"
    )
    parts = [" ", *parts.split(" "), "\u4e2d", "\u0130", "\ufb01", "\u2028"]
    rng = random.Random(0)
    texts = ["".join(rng.choices(parts, k=9)) for _ in range(300)]
    texts += ["", "The caf\u00e9's unaffable man. U.S.", "y" * 201 + " z"]
    tokenizer = FullTokenizer(*made_with)
    words, starts, ends = tagging.words_of_pieces(
        *InGraphTokenizer(*made_with).tokenize_with_offsets(tf.constant(texts)),
        tokenizer.vocab,
    )
    found = (column.to_list() for column in (words, starts, ends))
    for text, ids, *places in zip(texts, *found, strict=True):
        assert tokenizer.spans(text) == list(zip(*places, strict=True)), text
        pieces = [of_word for _, of_word in tokenizer.words(text)]
        assert ids == list(map(tokenizer.convert_tokens_to_ids, pieces)), text
