"""The dev set that is drawn from the train set."""

from collections import Counter

import numpy as np
import pytest

from data.tasks.splits import dev_places


def labels_of(**counts):
    """Rows with one label each, shuffled."""
    rows = [(label,) for label, count in counts.items() for _ in range(count)]
    order = np.random.default_rng(5).permutation(len(rows))
    return [rows[place] for place in order]


def test_every_label_gives_its_share():
    rows = labels_of(a=60, b=30, c=10)
    places = dev_places(rows, 0.1)
    assert places == sorted(set(places))
    assert Counter(rows[place] for place in places) == {
        ("a",): 6,
        ("b",): 3,
        ("c",): 1,
    }
    # No prefix of the rows, and not all of a kind at the end.
    assert places != list(range(10)) and places != list(range(90, 100))


def test_the_remainder_goes_to_the_labels_that_lack_most():
    # 0.2 of 7, 4 and 2 rows is 1.4, 0.8 and 0.4: 2.6 in all, rounded to 3.
    # Rounded down 1, 0 and 0; b lacks 0.8, a and c 0.4, a comes first.
    rows = labels_of(a=7, b=4, c=2)
    found = Counter(rows[place] for place in dev_places(rows, 0.2))
    assert found == {("a",): 2, ("b",): 1}


def test_a_row_of_each_label_stays_to_be_learned():
    rows = labels_of(a=50, b=1, c=1)
    for share in 0.3, 0.5, 0.99:
        places = dev_places(rows, share)
        left = {rows[i] for i in range(len(rows)) if i not in places}
        assert left == {("a",), ("b",), ("c",)}


def test_the_same_rows_give_the_same_set_and_another_seed_another():
    rows = labels_of(a=40, b=40)
    assert dev_places(rows, 0.25) == dev_places(list(rows), 0.25)
    assert dev_places(rows, 0.25) != dev_places(rows, 0.25, seed=1)


def test_a_row_of_several_labels_counts_for_the_rarest():
    rows = [("common",)] * 16 + [("common", "rare")] * 4 + [()] * 10
    places = dev_places(rows, 0.5)
    found = Counter(rows[place] for place in places)
    assert found == {("common",): 8, ("common", "rare"): 2, (): 5}


@pytest.mark.parametrize(
    ("rows", "share"),
    [([], 0.5), ([("a",)], 0.5), ([("a",), ("b",)], 0.5), ([("a",)] * 4, 0.1)],
)
def test_too_few_rows_are_refused(rows, share):
    message = f"a share of {share} for the dev set: {len(rows)} training rows"
    with pytest.raises(ValueError, match=message):
        dev_places(rows, share)
