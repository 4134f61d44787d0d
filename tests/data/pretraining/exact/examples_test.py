"""Masked instances: the original's draws, and what must hold of any."""

import random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from data.pretraining.exact.examples import (
    PretrainingDataOptions,
    Wordpieces,
    create_instances_from_document,
    create_masked_lm_predictions,
    create_training_instances,
    shuffle,
)
from tests.data.pretraining.support import (
    CLS,
    MASK,
    SEP,
    VOCAB,
    WORDPIECES,
    assert_share,
    group_of,
)

WORDS = st.lists(st.integers(5, 29), min_size=1, max_size=40)


def restored(instance):
    tokens = list(instance.tokens)
    for position, label in zip(
        instance.masked_lm_positions, instance.masked_lm_labels, strict=True
    ):
        tokens[position] = label
    return tokens


def mask(tokens, seed=0, **options):
    return create_masked_lm_predictions(
        tokens,
        WORDPIECES,
        PretrainingDataOptions(**options),
        random.Random(seed),
    )


def test_wordpieces_know_what_continues_a_word():
    assert WORDPIECES[:3] == (CLS, SEP, MASK)
    assert WORDPIECES.ids == list(range(30))
    continuing = [i for i in range(30) if not WORDPIECES.starts_word[i]]
    assert continuing == list(range(20, 30))
    assert WORDPIECES.typecode == "H"
    assert Wordpieces.from_vocab(VOCAB | {"z": 65536}).typecode == "i"


@given(WORDS, WORDS, st.integers(0, 99), st.booleans())
def test_masks_spare_specials_and_can_be_undone(a, b, seed, whole_words):
    tokens = [CLS, *a, SEP, *b, SEP]
    masked, positions, labels = mask(
        tokens, seed, do_whole_word_mask=whole_words, max_predictions_per_seq=9
    )
    assert positions == sorted(set(positions))
    assert not {0, len(a) + 1, len(tokens) - 1} & set(positions)
    assert labels == [tokens[i] for i in positions]
    for i, (before, after) in enumerate(zip(tokens, masked, strict=True)):
        assert before == after or i in positions
    # The original's count: specials included, rounded to even, cut at 9.
    wanted = min(9, max(1, round(0.15 * len(tokens))))
    if whole_words:
        assert len(positions) <= wanted
    else:
        assert len(positions) == wanted


@given(WORDS, st.integers(0, 99))
def test_whole_words_are_masked_as_a_whole(a, seed):
    assume(WORDPIECES.starts_word[a[0]])
    _, positions, _ = mask([CLS, *a, SEP], seed, do_whole_word_mask=True)
    for i, token in enumerate(a[1:], start=2):
        if not WORDPIECES.starts_word[token]:
            assert (i in positions) == (i - 1 in positions)


def test_a_piece_behind_sep_joins_the_word_before_it():
    # As in the original, 20 continues the word 9 before the [SEP].
    tokens = [CLS, 9, SEP, 20, SEP]
    options = {"do_whole_word_mask": True, "masked_lm_prob": 0.4}
    assert mask(tokens, **options)[1] == [1, 3]
    # Both together are more than may be masked: so neither is.
    assert mask(tokens, max_predictions_per_seq=1, **options)[1] == []


def test_study_flags_have_the_asked_shares():
    tokens = [CLS, *[9] * 20_000, SEP]

    def mask_all(mask_token_prob, random_token_prob):
        return mask(
            tokens,
            masked_lm_prob=1.0,
            max_predictions_per_seq=20_000,
            mask_token_prob=mask_token_prob,
            random_token_prob=random_token_prob,
        )

    masked, _, _ = mask_all(0.5, 0.2)
    # A thirtieth of the random tokens is [MASK], another 9, as before.
    assert_share(masked.count(MASK), 20_000, 0.5 + 0.2 / 30, z=4)
    assert_share(masked.count(9), 20_000, 0.3 + 0.2 / 30, z=4)
    same, positions, _ = mask_all(0.0, 0.0)
    assert same == tokens and len(positions) == 20_000
    all_masked, _, _ = mask_all(1.0, 0.0)
    assert all_masked == [CLS, *[MASK] * 20_000, SEP]


def test_default_shares_are_exactly_the_originals():
    assert PretrainingDataOptions().keep_share == 0.5
    assert PretrainingDataOptions(mask_token_prob=0.9).keep_share == 0.0


def test_shares_of_more_than_all_masks_are_refused():
    message = "--random_token_prob=0.4; .* at most 1 - mask_token_prob = 0.3"
    with pytest.raises(ValueError, match=message):
        PretrainingDataOptions(mask_token_prob=0.7, random_token_prob=0.4)


SENTENCE = st.lists(st.integers(5, 29), min_size=1, max_size=12)
DOCUMENT = st.lists(SENTENCE, min_size=1, max_size=8)
DOCUMENTS = st.lists(DOCUMENT, min_size=1, max_size=4)


@given(DOCUMENTS, st.integers(5, 40), st.integers(0, 99))
def test_pairs_are_well_formed(corpus, max_seq_length, seed):
    options = PretrainingDataOptions(
        max_seq_length=max_seq_length, dupe_factor=2, short_seq_prob=0.5
    )
    rng = random.Random(seed)
    instances = list(
        create_training_instances(group_of(corpus), WORDPIECES, options, rng)
    )
    assert len(instances) >= 2 * len(corpus)
    for instance in instances:
        tokens = restored(instance)
        assert 5 <= len(tokens) <= max_seq_length
        assert tokens[0] == CLS and tokens[-1] == SEP and tokens.count(SEP) == 2
        num_first = tokens.index(SEP) + 1
        num_second = len(tokens) - num_first
        assert instance.segment_ids == [0] * num_first + [1] * num_second


def rows_of(group, index=0, seed=0, **options):
    return list(
        create_instances_from_document(
            group,
            index,
            WORDPIECES,
            PretrainingDataOptions(**options),
            random.Random(seed),
        )
    )


NO_PAIRS = {"short_seq_prob": 0.0, "next_sentence_prediction": False}


@given(DOCUMENTS, st.integers(15, 40), st.integers(0, 99))
def test_without_pairs_rows_hold_each_document_once(corpus, length, seed):
    group = group_of(corpus)
    for index, sentences in enumerate(corpus):
        rows = rows_of(group, index, seed, max_seq_length=length, **NO_PAIRS)
        for row in rows:
            assert set(row.segment_ids) == {0}
            assert len(row.tokens) <= length
            assert not row.is_random_next
        # No sentence is longer than a row: nothing is cut, nothing is lost.
        assert [t for row in rows for t in restored(row)[1:-1]] == sum(
            sentences, []
        )


def test_a_lone_document_calls_itself_random():
    # The original's quirk, after ten draws that all hit the same document.
    (row,) = rows_of(group_of([[[5, 6, 7]]]))
    assert restored(row) == [CLS, 5, 6, 7, SEP, 5, 6, 7, SEP]
    assert row.is_random_next


@given(st.integers(0, 300), st.integers(0, 2**32))
def test_shuffle_equals_pythons(length, seed):
    ours, pythons = random.Random(seed), random.Random(seed)
    items, expected = list(range(length)), list(range(length))
    shuffle(items, ours)
    pythons.shuffle(expected)
    assert items == expected
    assert ours.getstate() == pythons.getstate()
