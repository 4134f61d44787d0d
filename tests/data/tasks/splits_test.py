from collections import Counter

import pytest

from data.tasks import splits


def rows_of(texts):
    """A row of each text, with the labels a and b in turn."""
    return [(("ab"[place % 2],), text) for place, text in enumerate(texts)]


def texts_of(rows, places):
    return {rows[place][1] for place in places}


NUMBERS = [f"text {number}" for number in range(2000)]


def test_about_the_share_is_drawn():
    places = splits.dev_places(rows_of(NUMBERS), 0.1)
    # 200 expected; five standard deviations of sqrt(2000 * 0.1 * 0.9) = 13.4.
    assert 133 <= len(places) <= 267
    assert places == sorted(set(places))


def test_a_row_keeps_its_set_when_rows_are_added():
    rows = rows_of(NUMBERS)
    before = texts_of(rows[:1500], splits.dev_places(rows[:1500], 0.2))
    after = texts_of(rows, splits.dev_places(rows, 0.2))
    assert after & {*NUMBERS[:1500]} == before
    # Nor does the order of the rows matter.
    back = rows[::-1]
    assert texts_of(back, splits.dev_places(back, 0.2)) == after


def test_rows_of_a_text_are_drawn_together():
    # Each text three times, under different labels.
    rows = rows_of([f"text {number // 3}" for number in range(900)])
    drawn = Counter(rows[i][1] for i in splits.dev_places(rows, 0.2))
    assert drawn and {*drawn.values()} == {3}


@pytest.mark.parametrize("share", [0.3, 0.5, 0.99])
def test_a_row_of_each_label_stays_to_be_learned(share):
    rows = [*rows_of(NUMBERS[:50]), (("rare",), "only"), (("c", "a"), "two")]
    places = splits.dev_places(rows, share)
    assert {
        name
        for place, (names, _) in enumerate(rows)
        for name in names
        if place not in places
    } == {"a", "b", "c", "rare"}


def test_rows_without_labels_are_drawn():
    rows = [((), text) for text in NUMBERS[:100]]
    assert 0 < len(splits.dev_places(rows, 0.3)) < 100


@pytest.mark.parametrize(
    "rows", [[], [((), "one")], [(("a",), "x"), (("b",), "y")]]
)
def test_too_few_rows_are_refused(rows):
    with pytest.raises(ValueError, match=f"{len(rows)} training rows") as error:
        splits.dev_places(rows, 0.5)
    assert "a dev file" in str(error.value)
