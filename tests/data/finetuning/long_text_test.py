"""Windows of long texts, and one answer of them.

The expected windows and poolings are computed here by loops over positions.
"""

import numpy as np
import pytest
import tensorflow as tf

from data.finetuning import features, tagging
from data.finetuning.long_text import LongTextOptions, pool
from data.in_graph import tagging as graph_tagging
from data.in_graph import windows
from data.tasks import InputExample, TaggingExample
from data.text.packing import INPUTS

VOCAB = "[PAD] [UNK] [CLS] [SEP] a b c d e f g h i j k ##k".split()
SPECIAL = {"cls_id": 2, "sep_id": 3}


def options(length, stride, kind="classification"):
    return features.FeatureOptions(kind, ("no", "yes"), length, stride=stride)


def convert(tokenizer, texts, *, length, stride):
    converter = features.Converter(tokenizer, options(length, stride))
    examples = [
        InputExample(str(i), text, None, "no" if i % 2 else "yes")
        for i, text in enumerate(texts)
    ]
    return list(converter.rows(examples)), converter.report


def test_a_long_text_has_windows_and_a_short_one_its_row(tokenizer):
    rows, report = convert(
        tokenizer, ["a b c d e f g h", "", "a b c d"], length=6, stride=2
    )
    texts = [
        "".join(VOCAB[i] for i in row["input_ids"] if i > 3) for row in rows
    ]
    assert texts == ["abcd", "cdef", "efgh", "", "abcd"]
    assert [row["example_number"] for row in rows] == [[0], [0], [0], [1], [2]]
    assert [row["label_ids"] for row in rows] == [[1], [1], [1], [0], [1]]
    assert [sum(row["input_mask"]) for row in rows] == [6, 6, 6, 2, 6]
    assert (report.num_examples, report.num_records) == (3, 5)
    assert (report.num_split, report.num_shortened) == (1, 0)
    assert "1 split over several rows" in str(report)


def test_short_texts_have_the_rows_they_have_without_windows(tokenizer):
    texts = ["a b", "", "k kk a", "a b c d"]
    rows, _ = convert(tokenizer, texts, length=6, stride=1)
    plain, _ = convert(tokenizer, texts, length=6, stride=0)
    for row in rows:
        del row["example_number"]
    assert rows == plain


@pytest.mark.parametrize(("length", "stride"), [(6, 1), (6, 4), (9, 3), (5, 2)])
def test_rows_of_a_graph_are_the_same(tokenizer, length, stride):
    rng = np.random.default_rng(0)
    texts = [
        " ".join(rng.choice(list("abcdefghij"), count))
        for count in (0, 1, 30, length - 2, length - 1, 7, 19)
    ]
    rows, _ = convert(tokenizer, texts, length=length, stride=stride)
    batch, number = tf.function(windows.text_windows)(
        tf.ragged.constant([tokenizer.encode(t) for t in texts], tf.int32),
        stride,
        max_seq_length=length,
        **SPECIAL,
    )
    assert number.numpy().tolist() == [row["example_number"][0] for row in rows]
    for name in INPUTS:
        expected = np.stack([row[name] for row in rows])
        np.testing.assert_array_equal(batch[name], expected)


@pytest.mark.parametrize(("length", "stride"), [(6, 1), (7, 3), (9, 2), (9, 7)])
def test_a_word_is_labelled_where_it_has_context(tokenizer, length, stride):
    """Away from the ends of a sentence, context is on both sides."""
    sentence = TaggingExample("", list("abcdefghij") * 3 + ["kkkk", "kk"])
    short = TaggingExample("", ["a", "b"])
    converter = features.Converter(
        tokenizer, options(length, stride, "tagging")
    )
    rows = list(converter.rows([sentence, short]))
    mask = np.stack([row["label_mask"] for row in rows])
    assert mask.sum() == len(sentence.words) + 2
    ids = np.stack([row["input_ids"] for row in rows])
    first, _ = tagging.words_of_rows(ids, mask, [len(sentence.words), 2])
    assert first.tolist() == [
        tokenizer.encode(word)[0] for word in sentence.words
    ]
    assert (mask.sum(axis=1)[:-1] <= stride).all()
    room = length - 2
    # The first words have less before them.
    for number in range(-(-room // stride), len(mask)):
        row = mask[number]
        places = np.flatnonzero(row) - 1
        before, behind = places[0], room - 1 - places[-1]
        if number * stride + room > 30:
            break  # where words of several wordpieces follow
        assert abs(before - behind) <= 1
    # The same rows in a graph.
    pieces = tf.ragged.constant(
        [[tokenizer.encode(w) for w in e.words] for e in (sentence, short)],
        tf.int32,
        ragged_rank=2,
    )
    batch, label_mask = graph_tagging.tagged_rows(
        pieces, max_seq_length=length, unknown_id=1, stride=stride, **SPECIAL
    )
    for name in INPUTS:
        expected = np.stack([row[name] for row in rows])
        np.testing.assert_array_equal(batch[name], expected)
    np.testing.assert_array_equal(label_mask, mask == 1)


@pytest.mark.parametrize("kind", ["classification", "multilabel"])
@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_windows_are_pooled(kind, pooling):
    numbers = np.repeat([0, 1, 2, 3], [3, 1, 5, 1])
    values = np.random.default_rng(3).random((10, 4), np.float32)
    values /= values.sum(axis=1, keepdims=True)
    pooled = pool(values, numbers, pooling, kind)
    assert pooled.dtype == np.float32
    for text in range(4):
        own = [v for v, n in zip(values, numbers, strict=True) if n == text]
        for label in range(4):
            column = [row[label] for row in own]
            wanted = max(column) if pooling == "max" else np.mean(column)
            if (kind, pooling) == ("classification", "max"):
                wanted /= sum(max(r[i] for r in own) for i in range(4))
            # One division more or less: a few units in the last place.
            np.testing.assert_allclose(pooled[text, label], wanted, rtol=5e-7)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"stride": 3}, "--long_text_stride=3 is for --long_text=windows"),
        ({"pooling": "max"}, "--long_text_pooling=max is for --long_text=win"),
        ({"mode": "cut"}, "--long_text=cut; it must be one of truncate, wind"),
    ],
)
def test_options_that_do_not_fit_are_refused(values, message):
    with pytest.raises(ValueError, match=message):
        LongTextOptions(**values)


def test_the_stride_is_half_a_window_unless_given():
    assert LongTextOptions().stride_of(128) == 0
    assert LongTextOptions(mode="windows").stride_of(128) == 63
    assert LongTextOptions(mode="windows").stride_of(5) == 1
    assert LongTextOptions(mode="windows", stride=7).stride_of(128) == 7


def test_windows_that_cannot_be_are_refused(tokenizer):
    with pytest.raises(ValueError, match="the task is a choice between texts"):
        options(8, 3, "choice")
    with pytest.raises(ValueError, match="--long_text_stride=7; .* 6 at most"):
        options(8, 7)
    pair = InputExample("dev-7", "a", "b", "no")
    with pytest.raises(ValueError, match="but example dev-7 is a pair; leave"):
        list(features.Converter(tokenizer, options(8, 3)).rows([pair]))
