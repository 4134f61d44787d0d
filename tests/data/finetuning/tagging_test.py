import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.finetuning import tagging

WORD = st.lists(st.integers(5, 99), min_size=1, max_size=6)
WORDS = st.lists(WORD, min_size=1, max_size=30)


def places_of(words):
    return np.cumsum([0, *map(len, words)]).tolist()


def cut(words, room):
    return tagging.cut_sentence(places_of(words), 0, len(words), room)


@given(WORDS, st.integers(6, 20))
def test_a_cut_sentence_loses_nothing_and_every_part_fits(words, room):
    cuts = cut(words, room)
    assert cuts[0][0] == 0 and cuts[-1][1] == len(words)
    assert all(
        end == start
        for (_, end), (start, _) in zip(cuts, cuts[1:], strict=False)
    )
    for start, end in cuts:
        assert 0 < sum(map(len, words[start:end])) <= room


def test_parts_are_as_full_as_they_go():
    words = [[1] * 7, [2] * 2, [3] * 3]
    assert cut(words, 9) == [(0, 2), (2, 3)]
    assert cut(words, 12) == [(0, 3)]
    # A sentence within a document.
    assert tagging.cut_sentence([0, 7, 9, 12, 13], 1, 3, 4) == [(1, 2), (2, 3)]
    assert tagging.cut_sentence([0, 7, 9, 12, 13], 1, 3, 9) == [(1, 3)]


@given(WORDS, st.integers(6, 20), st.data())
def test_whole_words_are_around_and_no_more_would_fit(words, room, data):
    start, end = data.draw(st.sampled_from(cut(words, room)))
    left, right = tagging.surroundings(places_of(words), start, end, room)
    assert 0 <= left <= start < end <= right <= len(words)
    free = room - sum(map(len, words[left:right]))
    assert free >= 0
    assert left == 0 or len(words[left - 1]) > free
    assert right == len(words) or len(words[right]) > free


def test_both_sides_get_half_and_what_the_other_leaves():
    def shown(start, room):
        return tagging.surroundings(range(11), start, start + 2, room)

    assert shown(4, 6) == (2, 8)
    assert shown(0, 6) == (0, 6)
    assert shown(8, 6) == (4, 10)
    assert shown(4, 20) == (0, 10)


def test_words_of_split_sentences_are_joined_again():
    values = np.array([[0, 1, 0, 2], [0, 3, 4, 0], [5, 0, 0, 0]])
    mask = np.array([[0, 1, 0, 1], [0, 1, 1, 0], [1, 0, 0, 0]])
    words = tagging.words_of_rows(values, mask, [3, 2])
    assert [one.tolist() for one in words] == [[1, 2, 3], [4, 5]]
    scores = tagging.words_of_rows(np.eye(6)[values], mask, [3, 2])
    assert [one.shape for one in scores] == [(3, 6), (2, 6)]


def test_rows_of_other_sentences_are_refused():
    with pytest.raises(ValueError, match="hold 1 words, .* 2; give all"):
        tagging.words_of_rows(np.array([[1]]), np.array([[1]]), [2])
