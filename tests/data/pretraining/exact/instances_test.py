"""Flat containers behave like lists."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.pretraining.exact.instances import (
    Document,
    InstanceList,
    TrainingInstance,
    shuffle,
)

SENTENCES = st.lists(
    st.lists(st.integers(0, 65535), min_size=1, max_size=9),
    min_size=1,
    max_size=9,
)


@given(st.integers(0, 300), st.integers(0, 2**32))
def test_shuffle_equals_pythons(length, seed):
    ours, pythons = random.Random(seed), random.Random(seed)
    items, expected = list(range(length)), list(range(length))
    shuffle(items, ours)
    pythons.shuffle(expected)
    assert items == expected
    assert ours.getstate() == pythons.getstate()


@given(SENTENCES, st.data())
def test_a_document_cuts_runs_of_sentences(sentences, data):
    document = Document("H", sentences)
    assert len(document) == len(sentences)
    start = data.draw(st.integers(0, len(sentences) - 1))
    num_tokens = data.draw(st.integers(-5, 90))
    # Sentence by sentence, as the original walks.
    reaching, tokens = start, []
    while reaching < len(sentences):
        tokens += sentences[reaching]
        reaching += 1
        if len(tokens) >= num_tokens:
            break
    end = document.end_reaching(start, num_tokens)
    assert end == reaching
    assert document.slice(start, end) == tokens
    within = document.end_within(start, num_tokens)
    rest = sentences[start:]
    fits = [
        n
        for n in range(1, len(rest) + 1)
        if sum(map(len, rest[:n])) <= num_tokens
    ]
    assert within == start + max(fits, default=1)


@pytest.mark.parametrize(("typecode", "largest"), [("H", 65535), ("i", 119546)])
def test_instances_come_back_in_a_lists_shuffled_order(typecode, largest):
    instances = [
        TrainingInstance(
            tokens=[1, 7, 2, largest, n, 2][: 3 + 3 * (n % 2)],
            segment_ids=[0, 0, 0, 1, 1, 1][: 3 + 3 * (n % 2)],
            masked_lm_positions=[1, 3][: 1 + n % 2],
            masked_lm_labels=[n, largest][: 1 + n % 2],
            is_random_next=n % 3 == 0,
        )
        for n in range(20)
    ]
    stored = InstanceList(typecode)
    for instance in instances:
        stored.append(instance)
    assert list(stored) == instances
    assert (stored.num_tokens, stored.num_masked) == (10 * 9, 10 * 3)
    stored.shuffle(random.Random(5))
    random.Random(5).shuffle(instances)
    assert list(stored) == instances
