"""Sentences in rows: no word is lost, and what is around is shown."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.finetuning import tagging

WORDS = st.lists(
    st.lists(st.integers(5, 99), min_size=1, max_size=6),
    min_size=1,
    max_size=30,
)


@given(WORDS, st.integers(6, 20))
def test_a_cut_sentence_loses_nothing_and_every_part_fits(words, room):
    cuts = tagging.cut_sentence(words, room)
    assert cuts[0][0] == 0 and cuts[-1][1] == len(words)
    assert all(
        end == start
        for (_, end), (start, _) in zip(cuts, cuts[1:], strict=False)
    )
    for start, end in cuts:
        assert 0 < sum(map(len, words[start:end])) <= room


def test_parts_are_as_full_as_they_go():
    words = [[1] * 7, [2] * 2, [3] * 3]
    assert tagging.cut_sentence(words, 9) == [(0, 2), (2, 3)]
    assert tagging.cut_sentence(words, 12) == [(0, 3)]


@given(WORDS, st.integers(6, 20), st.data())
def test_only_own_words_are_labelled_among_neighbours(words, room, data):
    start, end = data.draw(st.sampled_from(tagging.cut_sentence(words, room)))
    labels = [*range(1, end - start + 1)]
    ids, label_ids, mask = tagging.tagged_part(words, labels, start, room)
    own = [i for i, one in enumerate(mask) if one]
    assert [label_ids[i] for i in own] == labels
    assert sum(label_ids) == sum(labels)
    assert [ids[i] for i in own] == [w[0] for w in words[start:end]]
    # Whole words of the document, one after the other, and no room for more.
    flat = [piece for word in words for piece in word]
    begin = sum(map(len, words[:start])) - own[0]
    assert flat[begin : begin + len(ids)] == ids
    assert len(ids) <= room
    ends = np.cumsum([0, *map(len, words)]).tolist()
    left, right = ends.index(begin), ends.index(begin + len(ids))
    free = room - len(ids)
    assert left == 0 or len(words[left - 1]) > free
    assert right == len(words) or len(words[right]) > free


def test_both_sides_get_half_and_what_the_other_leaves():
    words = [[i] for i in range(1, 11)]

    def shown(start, room):
        return tagging.tagged_part(words, [9, 9], start, room)[0]

    assert shown(4, 6) == [3, 4, 5, 6, 7, 8]
    assert shown(0, 6) == [1, 2, 3, 4, 5, 6]
    assert shown(8, 6) == [5, 6, 7, 8, 9, 10]
    assert shown(4, 20) == [*range(1, 11)]


def test_only_the_first_piece_has_the_label():
    part = tagging.tagged_part([[7], [8, 9], [6]], [3], 1, 4)
    assert part == ([7, 8, 9, 6], [0, 3, 0, 0], [0, 1, 0, 0])


def test_words_of_split_sentences_are_joined_again():
    values = np.array([[0, 1, 0, 2], [0, 3, 4, 0], [5, 0, 0, 0]])
    mask = np.array([[0, 1, 0, 1], [0, 1, 1, 0], [1, 0, 0, 0]])
    words = tagging.words_of_rows(values, mask, [3, 2])
    assert [one.tolist() for one in words] == [[1, 2, 3], [4, 5]]
    scores = tagging.words_of_rows(np.eye(6)[values], mask, [3, 2])
    assert [one.shape for one in scores] == [(3, 6), (2, 6)]


def test_rows_of_other_sentences_are_refused():
    with pytest.raises(
        ValueError, match="the rows hold 1 words, but the sentences 2; give all"
    ):
        tagging.words_of_rows(np.array([[1]]), np.array([[1]]), [2])
