import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.text import packing

TOKENS = st.lists(st.integers(5, 99), max_size=30)


def contains_run(tokens, run):
    return any(
        tokens[i : i + len(run)] == run
        for i in range(len(tokens) - len(run) + 1)
    )


def check_lengths_even_out(a, b, short_a, short_b):
    """Only the longer one loses tokens, until both are equally long."""
    if short_a != a:
        assert len(short_a) >= len(short_b) - 1
    if short_b != b:
        assert len(short_b) >= len(short_a) - 1


@given(TOKENS, TOKENS, st.integers(0, 70), st.integers(0, 99))
def test_truncation_evens_out_lengths_and_keeps_runs(a, b, limit, seed):
    short_a, short_b = list(a), list(b)
    rng, draws = random.Random(seed), random.Random(seed)
    packing.truncate_seq_pair(short_a, short_b, limit, rng)
    num_lost = max(0, len(a) + len(b) - limit)
    assert len(short_a) + len(short_b) == len(a) + len(b) - num_lost
    assert contains_run(a, short_a) and contains_run(b, short_b)
    check_lengths_even_out(a, b, short_a, short_b)
    for _ in range(num_lost):
        draws.random()
    assert rng.random() == draws.random()


@given(TOKENS, TOKENS, st.integers(0, 70))
def test_deterministic_truncation_evens_out_lengths_at_the_ends(a, b, limit):
    short_a, short_b = list(a), list(b)
    num_lost = packing.truncate_ends(short_a, short_b, limit)
    assert num_lost == max(0, len(a) + len(b) - limit)
    assert len(short_a) + len(short_b) == len(a) + len(b) - num_lost
    assert short_a == a[: len(short_a)] and short_b == b[: len(short_b)]
    check_lengths_even_out(a, b, short_a, short_b)


def test_of_two_as_long_the_second_loses_its_last_token():
    a, b = [1, 2, 3], [4, 5, 6]
    assert packing.truncate_ends(a, b, 5) == 1
    assert (a, b) == ([1, 2, 3], [4, 5])
    # A text alone, too.
    assert packing.truncate_ends(a, [], 1) == 2
    assert a == [1]


@given(TOKENS, TOKENS, st.integers(0, 70))
def test_the_second_is_cut_only_if_it_does_not_fit_alone(a, b, limit):
    short_a, short_b = list(a), list(b)
    num_lost = packing.truncate_ends(short_a, short_b, limit, "first")
    assert num_lost == len(a) + len(b) - len(short_a) - len(short_b)
    assert short_b == b[:limit]
    assert short_a == a[: max(0, limit - len(b))]


def test_special_tokens_of_pairs_and_single_sequences():
    special = {"cls_id": 1, "sep_id": 2}
    assert packing.add_special_tokens([7, 8], [9], **special) == (
        [1, 7, 8, 2, 9, 2],
        [0, 0, 0, 0, 1, 1],
    )
    row = packing.add_special_tokens([7], [], **special)
    assert row == ([1, 7, 2], [0, 0, 0])
    # An empty second text has a [SEP] if the row is a pair.
    row = packing.add_special_tokens([7], [], is_pair=True, **special)
    assert row == ([1, 7, 2, 2], [0, 0, 0, 1])


@pytest.mark.parametrize(
    ("line", "texts"),
    [
        ("a b", ("a b", None)),
        ("a ||| b", ("a", "b")),
        ("a ||| b ||| c", ("a ||| b", "c")),
        (" ||| ", ("", "")),
        ("a||| b", ("a||| b", None)),
    ],
)
def test_a_line_is_split_at_its_last_bars(line, texts):
    assert packing.split_pair(line) == texts


def test_rows_are_padded_to_one_length_and_the_batch_with_empty_rows():
    batch = packing.pad_batch([([1, 5, 2], [0, 0, 1]), ([1], [0])], 4, 3)
    assert {name: x.tolist() for name, x in batch.items()} == {
        "input_ids": [[1, 5, 2, 0], [1, 0, 0, 0], [0] * 4],
        "input_mask": [[1, 1, 1, 0], [1, 0, 0, 0], [0] * 4],
        "segment_ids": [[0, 0, 1, 0], [0] * 4, [0] * 4],
    }
    assert {x.dtype.name for x in batch.values()} == {"int32"}
