"""Masks of many rows at once: what must hold of any, and their distribution."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.pretraining.data_options import PretrainingDataOptions
from data.pretraining.exact.examples import create_masked_lm_predictions
from data.pretraining.masking import Masker, _choose_units
from tests.data.pretraining.support import (
    CLS,
    MASK,
    SEP,
    WORDPIECES,
    assert_same_shares,
    assert_share,
    pad_rows,
)

PARTS = st.lists(st.integers(5, 29), min_size=1, max_size=25)
ROWS = st.lists(st.tuples(PARTS, st.one_of(st.none(), PARTS)), min_size=1)


def row_of(a, b=None):
    return [CLS, *a, SEP] + ([*b, SEP] if b else [])


def mask(rows, seed=0, **options):
    """Masks rows; returns input_ids, what `mask` gives, bool [N, S] masked."""
    input_ids, lengths = pad_rows(rows)
    masker = Masker(WORDPIECES, PretrainingDataOptions(**options))
    masked = masker.mask(input_ids, lengths, np.random.default_rng(seed))
    chosen = np.zeros(input_ids.shape, bool)
    row, slot = np.nonzero(masked.masked_lm_weights)
    chosen[row, masked.masked_lm_positions[row, slot]] = True
    return input_ids, masked, chosen


def words_of(row):
    """Positions of each word; a [SEP] ends a word."""
    words = []
    for i, token in enumerate(row):
        if token in (CLS, SEP):
            continue
        if WORDPIECES.starts_word[token] or row[i - 1] in (CLS, SEP):
            words.append([])
        words[-1].append(i)
    return words


@given(ROWS, st.integers(0, 99), st.booleans(), st.integers(1, 4))
def test_predictions_undo_the_masks(parts, seed, whole_words, max_ngram_size):
    rows = [row_of(a, b) for a, b in parts]
    input_ids, masked, chosen = mask(
        rows,
        seed,
        max_predictions_per_seq=6,
        do_whole_word_mask=whole_words,
        max_ngram_size=max_ngram_size,
        random_token_prob=0.2,
    )
    for i, row in enumerate(rows):
        count = int(masked.masked_lm_weights[i].sum())
        positions = masked.masked_lm_positions[i]
        assert list(masked.masked_lm_weights[i]) == [1] * count + [0] * (
            6 - count
        )
        assert (np.diff(positions[:count]) > 0).all()
        assert not positions[count:].any()
        assert not masked.masked_lm_ids[i, count:].any()
        assert not {CLS, SEP, 0} & set(masked.masked_lm_ids[i, :count])
        restored = masked.input_ids[i].copy()
        restored[positions[:count]] = masked.masked_lm_ids[i, :count]
        assert restored.tolist() == input_ids[i].tolist()
        # The original's count: specials included, rounded to even.
        wanted = min(6, max(1, round(0.15 * len(row))))
        if whole_words or max_ngram_size > 1:
            assert count <= wanted
        else:
            assert count == wanted
    assert masked.input_ids.dtype == masked.masked_lm_ids.dtype == np.int32


@given(ROWS, st.integers(0, 99), st.integers(1, 3))
def test_words_are_masked_whole_or_not_at_all(parts, seed, max_ngram_size):
    rows = [row_of(a, b) for a, b in parts]
    options = {"do_whole_word_mask": True, "max_ngram_size": max_ngram_size}
    _, _, chosen = mask(rows, seed, masked_lm_prob=0.5, **options)
    for i, row in enumerate(rows):
        for word in words_of(row):
            assert len(set(chosen[i, word])) == 1, (row, word)


@pytest.mark.parametrize("do_whole_word_mask", [False, True])
def test_the_count_of_masks_rounds_half_to_even(do_whole_word_mask):
    # 5 * 0.5 = 2.5 -> 2 and 7 * 0.5 = 3.5 -> 4, as Python's round().
    rows = [row_of([9] * (length - 2)) for length in range(3, 60)]
    _, _, chosen = mask(
        rows,
        masked_lm_prob=0.5,
        max_predictions_per_seq=20,
        do_whole_word_mask=do_whole_word_mask,
    )
    expected = [min(20, len(row) - 2, round(len(row) * 0.5)) for row in rows]
    assert chosen.sum(axis=1).tolist() == expected
    assert expected[:5] == [1, 2, 2, 3, 4]


def test_spans_may_mask_every_token():
    _, _, chosen = mask(
        [row_of([9]), row_of([9] * 9)], max_ngram_size=3, masked_lm_prob=1.0
    )
    assert chosen[0].tolist() == [False, True, False] + [False] * 8
    assert chosen[1].sum() == 9


@pytest.mark.parametrize("max_ngram_size", [1, 3])
def test_without_maskable_tokens_nothing_is_masked(max_ngram_size):
    masker = Masker(
        WORDPIECES, PretrainingDataOptions(max_ngram_size=max_ngram_size)
    )
    rng = np.random.default_rng(0)
    none = masker.mask(np.zeros((0, 8), int), np.zeros(0, int), rng)
    assert none.input_ids.shape == (0, 8)
    assert none.masked_lm_positions.shape == (0, 20)
    special = masker.mask(np.array([[CLS, SEP, 0, 0]]), np.array([2]), rng)
    assert special.input_ids.tolist() == [[CLS, SEP, 0, 0]]
    assert not special.masked_lm_weights.any()


def test_a_word_too_long_for_the_count_is_left_out():
    # 0.15 * 9 = 1.35 -> 1 token; the only word has seven.
    _, masked, _ = mask([row_of([9, *[20] * 6])], do_whole_word_mask=True)
    assert not masked.masked_lm_weights.any()


def test_padding_is_no_token_whatever_it_holds():
    masker = Masker(WORDPIECES, PretrainingDataOptions(masked_lm_prob=1.0))
    input_ids = np.array([[CLS, 9, SEP, 11, 12, 13]])
    masked = masker.mask(input_ids, np.array([3]), np.random.default_rng(0))
    assert masked.masked_lm_positions[0, :2].tolist() == [1, 0]
    assert masked.masked_lm_weights.sum() == 1
    assert masked.input_ids[0, 3:].tolist() == [11, 12, 13]


def test_the_replacements_have_the_papers_shares():
    rows = [row_of([9] * 200)] * 500
    _, masked, chosen = mask(
        rows, masked_lm_prob=0.5, max_predictions_per_seq=200
    )
    got = masked.input_ids[chosen]
    num = len(got)
    assert num == 500 * 101
    # One random token in 30 is [MASK], another the token itself, and so on.
    assert_share((got == MASK).sum(), num, 0.8 + 0.1 / 30)
    assert_share((got == 9).sum(), num, 0.1 + 0.1 / 30)
    for token in {*range(30)} - {MASK, 9}:
        assert_share((got == token).sum(), num, 0.1 / 30)


@pytest.mark.parametrize(
    ("mask_token_prob", "random_token_prob", "expected"),
    [(1.0, 0.0, {MASK}), (0.0, 0.0, {9}), (0.0, 1.0, {*range(30)})],
)
def test_shares_of_0_and_1(mask_token_prob, random_token_prob, expected):
    _, masked, chosen = mask(
        [row_of([9] * 100)] * 50,
        masked_lm_prob=1.0,
        max_predictions_per_seq=100,
        mask_token_prob=mask_token_prob,
        random_token_prob=random_token_prob,
    )
    assert chosen.sum() == 5000
    assert set(masked.input_ids[chosen].tolist()) == expected


def test_every_position_is_equally_likely():
    _, _, chosen = mask([row_of([9] * 20, [9] * 17)] * 20_000)
    assert chosen.sum(axis=1).tolist() == [6] * 20_000
    for position, count in enumerate(chosen.sum(axis=0)):
        assert_share(count, 20_000, 0 if position in (0, 21, 39) else 6 / 37)


def test_choices_of_positions_are_independent():
    # Two masks among 8 tokens: each of the 28 pairs as often as any other.
    _, _, chosen = mask([row_of([9] * 8)] * 28_000, masked_lm_prob=0.2)
    pairs = [tuple(np.nonzero(row)[0]) for row in chosen]
    assert len(set(pairs)) == 28
    for pair in set(pairs):
        assert_share(pairs.count(pair), 28_000, 1 / 28)


def test_equal_draws_are_ordered_alike_on_every_processor():
    # A random order must not come from argsort, which breaks ties as the
    # processor's vector instructions do. Draws of 0 bits are all equal.
    class Ties:
        def integers(self, high, size):
            del high
            return np.zeros(size, np.int64)

    taken = _choose_units(np.ones((3, 40), int), np.full(3, 5), Ties())
    assert taken.tolist() == [[True] * 5 + [False] * 35] * 3


def run_lengths(chosen):
    """Lengths of the runs of neighbouring True, row by row."""
    edges = np.diff(np.pad(chosen.astype(int), ((0, 0), (1, 1))), axis=1)
    return np.nonzero(edges == -1)[1] - np.nonzero(edges == 1)[1]


def units(rows, **options):
    """The number of each place's span, within its row."""
    ids, _ = pad_rows(rows)
    masker = Masker(WORDPIECES, PretrainingDataOptions(**options))
    maskable = (ids != CLS) & (ids != SEP)
    return masker._units(ids, maskable, np.random.default_rng(0))


@pytest.mark.parametrize("max_ngram_size", [2, 3, 5])
def test_spans_have_lengths_in_the_ratio_of_their_inverses(max_ngram_size):
    unit = units([row_of([9] * 400)] * 200, max_ngram_size=max_ngram_size)
    # The first 50 spans of each row: none of them is cut by the row's end.
    sizes = np.concatenate([np.bincount(row[1:-1])[:50] for row in unit])
    assert set(sizes) == {*range(1, max_ngram_size + 1)}
    harmonic = sum(1 / n for n in range(1, max_ngram_size + 1))
    for n in range(1, max_ngram_size + 1):
        assert_share((sizes == n).sum(), 50 * 200, 1 / n / harmonic)
    _, _, chosen = mask(
        [row_of([9] * 40)] * 4000,
        max_ngram_size=max_ngram_size,
        masked_lm_prob=max_ngram_size / 42,
        max_predictions_per_seq=max_ngram_size,
    )
    runs = np.bincount(run_lengths(chosen))
    assert len(runs) == max_ngram_size + 1 and runs[1:].all()


def test_spans_are_of_consecutive_words_and_end_at_sep():
    # Six words of two pieces on either side, spans of up to 3 words: of 12
    # masked pieces at most the runs are of 2, 4, ... and never reach over 13.
    rows = [row_of([9, 20] * 6, [9, 20] * 6)] * 3000
    words = {"do_whole_word_mask": True, "masked_lm_prob": 0.25}
    spans = words | {"max_ngram_size": 3}
    _, _, chosen = mask(rows, **spans)
    assert not chosen[:, [0, 13, 26]].any()
    assert not (run_lengths(chosen) % 2).any()
    assert (chosen.sum(axis=1) <= 7).all()
    unit = units(rows, **spans)
    assert (unit[:, 12] < unit[:, 14]).all()
    # Masks of n-grams hang together: fewer runs than of single words.
    _, _, apart = mask(rows, **words)
    assert len(run_lengths(chosen)) < 0.8 * len(run_lengths(apart))


def kinds(before, after, chosen):
    """How many masks are [MASK], the token itself, another token."""
    is_mask = after[chosen] == MASK
    is_same = after[chosen] == before[chosen]
    return is_mask.sum(), is_same.sum(), (~is_mask & ~is_same).sum()


def histograms(rows, chosen):
    """Masks in a row; masks by position; masked words by their size."""
    by_size = np.zeros(30)
    for row, mask_of_row in zip(rows, chosen, strict=True):
        for word in words_of(row):
            by_size[len(word)] += mask_of_row[word[0]]
    return (
        np.bincount(chosen.sum(axis=1), minlength=30),
        chosen.sum(axis=0),
        by_size,
    )


@pytest.mark.parametrize("whole_words", [False, True])
def test_the_distribution_is_the_originals(whole_words):
    draw = random.Random(5)
    # b begins with a whole word: behind a [SEP] the two differ, as marked.
    rows = [
        row_of(
            [draw.randint(5, 29) for _ in range(30)],
            [9] + [draw.randint(15, 29) for _ in range(draw.randint(5, 25))],
        )
        for _ in range(6000)
    ]
    options = {"do_whole_word_mask": whole_words, "max_predictions_per_seq": 7}
    _, masked, chosen = mask(rows, **options)
    ids = pad_rows(rows)[0]
    theirs, their_ids = np.zeros_like(chosen), ids.copy()
    draw = random.Random(6)
    for i, row in enumerate(rows):
        tokens, positions, _ = create_masked_lm_predictions(
            row, WORDPIECES, PretrainingDataOptions(**options), draw
        )
        theirs[i, positions] = True
        their_ids[i, : len(row)] = tokens
    for ours, expected in zip(
        histograms(rows, chosen), histograms(rows, theirs), strict=True
    ):
        assert_same_shares(ours, expected)
    assert_same_shares(
        kinds(ids, masked.input_ids, chosen), kinds(ids, their_ids, theirs)
    )
