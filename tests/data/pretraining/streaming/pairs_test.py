"""Rows of sentence pairs: what must hold of any, and their distribution."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.pretraining.data_options import PretrainingDataOptions, Wordpieces
from data.pretraining.exact.examples import create_instances_from_document
from data.pretraining.streaming.pairs import _tokens_to_cut, draw_rows
from data.text import packing
from tests.data.pretraining.streaming.row_support import (
    CORPUS,
    FIRST_ID,
    WORDPIECES,
    Corpus,
    is_run,
)
from tests.data.pretraining.support import (
    CLS,
    MASK,
    SEP,
    assert_same_means,
    assert_share,
    group_of,
)


def test_tokens_are_cut_as_one_by_one():
    num_a, num_b, limit = (axis.ravel() for axis in np.mgrid[1:14, 0:14, 2:26])
    cut_a, cut_b = _tokens_to_cut(num_a, num_b, limit)
    for a, b, most, *cut in np.stack([num_a, num_b, limit, cut_a, cut_b]).T:
        tokens_a, tokens_b = [0] * a, [0] * b
        packing.truncate_seq_pair(tokens_a, tokens_b, most, random.Random(0))
        assert [a - len(tokens_a), b - len(tokens_b)] == cut, (a, b, most)


def test_lost_tokens_are_lost_at_either_end_alike():
    # a has 5 tokens, b 10, and together they have room for 6: b loses 5, and
    # then each of them 2.
    corpus = Corpus([[5, 10]] * 4000 + [[1]])
    fronts = []
    for a, b, label in corpus.rows(4000, max_seq_length=9, short_seq_prob=0.0):
        if not label:
            assert (len(a), len(b)) == (3, 3)
            fronts.append([(a[0] - FIRST_ID) % 15, (b[0] - FIRST_ID) % 15 - 5])
    fronts = np.array(fronts)
    assert_share(len(fronts), 4000, 0.5)
    # Pascal's triangle: of the tokens lost, how many at the front.
    for front, ways in zip(
        fronts.T, [[1, 2, 1], [1, 7, 21, 35, 35, 21, 7, 1]], strict=True
    ):
        for lost, count in enumerate(np.bincount(front, minlength=len(ways))):
            assert_share(count, len(fronts), ways[lost] / sum(ways))
    # a's and b's are drawn apart.
    assert abs(np.corrcoef(fronts.T)[0, 1]) < 4.5 / len(fronts) ** 0.5


@given(CORPUS, st.integers(5, 40), st.integers(0, 99))
def test_pairs_are_runs_of_documents(lengths, max_seq_length, seed):
    corpus = Corpus(lengths)
    rows = corpus.rows(
        seed=seed, max_seq_length=max_seq_length, short_seq_prob=0.5
    )
    assert len(rows) >= len(corpus.group.documents)
    for a, b, label in rows:
        assert is_run(a) and is_run(b)
        assert 2 <= len(a) + len(b) <= max_seq_length - 3
        (document_a,) = {corpus.document[token] for token in a}
        (document_b,) = {corpus.document[token] for token in b}
        assert (document_a != document_b) == bool(label)
        if not label:
            assert b[0] > a[-1]
            if b[0] > a[-1] + 1:  # only where tokens were cut between them
                assert len(a) + len(b) == max_seq_length - 3


@given(CORPUS, st.integers(0, 99), st.booleans())
def test_rows_go_through_every_document_once(lengths, seed, sentence_order):
    # Rows are so long that nothing is cut: targets are up to 97 tokens, and
    # no document has more.
    corpus = Corpus(lengths)
    rows = corpus.rows(
        seed=seed,
        max_seq_length=200,
        short_seq_prob=1.0,
        sentence_order_prediction=sentence_order,
    )
    expected = FIRST_ID
    for a, b, label in rows:
        is_swapped = label and corpus.document[a[0]] == corpus.document[b[0]]
        assert is_swapped <= sentence_order
        if is_swapped:
            a, b = b, a
        assert a[0] == expected
        expected = a[-1] + 1
        if not label or is_swapped:
            assert b[0] == expected
            expected = b[-1] + 1
        # Both end where a sentence ends.
        for end in (a[-1], b[-1]):
            assert corpus.sentence.get(end + 1) != corpus.sentence[end]
    assert expected == FIRST_ID + sum(map(sum, lengths))


def test_parts_of_one_document_are_no_random_next_sentences():
    # Parts 0, 1, 3 and 4 are of document 7.
    numbers = [7, 7, 9, 7, 7, 11]
    corpus = Corpus([[4] * 10] * 6, numbers)
    seen = set()
    for seed in range(30):
        for a, b, label in corpus.rows(seed=seed, max_seq_length=20):
            part_a, part_b = (corpus.document[x[0]] for x in (a, b))
            assert (numbers[part_a] != numbers[part_b]) == bool(label)
            seen.add((part_a, part_b))
    assert {(0, 2), (1, 5), (2, 4), (5, 0), (5, 2)} <= seen


def test_random_next_sentences_begin_anywhere_in_any_other_document():
    # A document is drawn first, then one of its sentences: as the original.
    corpus = Corpus([[1], [1] * 4, [1]])
    starts = []
    for seed in range(400):
        rows = corpus.rows(1, seed=seed, max_seq_length=5)
        starts += [corpus.sentence[b[0]] for _, b, _ in rows]
    assert len(starts) == 400
    for sentence in range(4):
        assert_share(starts.count((1, sentence)), 400, 1 / 8)
    assert_share(starts.count((2, 0)), 400, 1 / 2)


def test_a_corpus_of_one_document_is_refused():
    message = "--input_file: .* only one .*--next_sentence_prediction=false"
    for corpus in Corpus([[3, 3]]), Corpus([[3], [3]], numbers=[4, 4]):
        with pytest.raises(ValueError, match=message):
            # A lone sentence always needs one.
            corpus.rows(max_seq_length=5, short_seq_prob=0.0)
            corpus.rows(max_seq_length=5, seed=1)
            pytest.fail("two sentences never asked for a random one")


def test_sentence_order_swaps_one_half_of_the_pairs():
    corpus = Corpus([[3, 3, 3]] * 4000)
    labels = []
    for a, b, label in corpus.rows(
        max_seq_length=12, short_seq_prob=0.0, sentence_order_prediction=True
    ):
        first, second = (b, a) if label else (a, b)
        assert len(a) + len(b) == 9
        assert corpus.document[a[0]] == corpus.document[b[0]]
        assert second[0] == first[-1] + 1
        labels.append(label)
    assert len(labels) == 4000
    assert_share(sum(labels), 4000, 0.5)


def test_rows_are_the_same_however_many_come_at_once(monkeypatch):
    corpus = Corpus([[3, 4, 5, 6]] * 20)
    whole = corpus.rows(max_seq_length=12)
    monkeypatch.setattr("data.pretraining.streaming.pairs._ROWS_AT_ONCE", 7)
    assert len(whole) > 7
    assert corpus.rows(max_seq_length=12) == whole


@pytest.fixture(scope="module")
def golden_documents(goldens, tokenizer):
    """The goldens' corpus: documents of sentences of ids."""
    text = (goldens / "pretraining_data/corpus.txt").read_text("utf-8")
    return [
        [tokenizer.encode(line) for line in document.split("\n") if line]
        for document in text.strip().split("\n\n")
    ]


NUM_PASSES = 50


def figures(rows):
    """Counts and lengths of one pass; a row is (tokens of a, of b, label)."""
    a, b, label = np.array(rows).T
    bins = range(0, 61, 6)
    return [
        len(rows),
        *(x.sum() for x in (label, a, b, a * label, b * label)),
        *(n for x in (a, b, a + b) for n in np.histogram(x, bins)[0]),
    ]


def draw_both(documents, options):
    """Figures of many passes by `draw_rows` and by the original's function."""
    group = group_of(documents)
    rng = np.random.default_rng(1)
    ours = []
    for _ in range(NUM_PASSES):
        (rows,) = draw_rows(group, WORDPIECES, options, rng)
        num_b = rows["segment_ids"].sum(axis=1)
        num_a = rows["input_mask"].sum(axis=1) - num_b - 2
        num_b = np.maximum(num_b - 1, 0)
        labels = rows["next_sentence_labels"][:, 0] == 1
        ours.append(figures(np.stack([num_a, num_b, labels], axis=1)))
    draw = random.Random(2)
    pieces = Wordpieces(CLS, SEP, MASK, [0], [True] * 2000)
    theirs = []
    for _ in range(NUM_PASSES):
        rows = []
        for index in range(len(documents)):
            for row in create_instances_from_document(
                group, index, pieces, options, draw
            ):
                num_b = max(sum(row.segment_ids) - 1, 0)
                num_a = row.segment_ids.count(0) - 2
                rows.append((num_a, num_b, row.is_random_next))
        theirs.append(figures(rows))
    return np.array(ours), np.array(theirs)


@pytest.mark.parametrize(
    "options",
    [
        {"max_seq_length": 64},
        {"max_seq_length": 20, "short_seq_prob": 0.5},
        {"max_seq_length": 40, "next_sentence_prediction": False},
    ],
    ids=["64", "20-short", "no-pairs"],
)
def test_the_distribution_is_the_originals(golden_documents, options):
    options = PretrainingDataOptions(masked_lm_prob=0.01, **options)
    ours, theirs = draw_both(golden_documents, options)
    # Passes are independent, rows of one pass are not.
    for our_figure, their_figure in zip(ours.T, theirs.T, strict=True):
        assert_same_means(our_figure, their_figure)
    assert ours[:, 0].mean() > len(golden_documents)
