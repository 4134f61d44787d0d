"""Rows cut to half their length, against a row by row form in Python."""

import numpy as np
import pytest

from data.pretraining import short_rows

CLS, SEP = 2, 3


def row(first, second, length):
    """A record: [CLS] first [SEP] second [SEP]; second None = no pair."""
    ids = [CLS, *first, SEP]
    segments = [0] * len(ids)
    if second is not None:
        ids += [*second, SEP]
        segments += [1] * (len(second) + 1)
    padding = [0] * (length - len(ids))
    mask = [1] * len(ids) + padding
    return ids + padding, segments + padding, mask


def cut(first, second, length):
    """What is kept of both segments, so that they fit into a row."""
    if second is None:
        return first[: length - 2], None
    room = length - 3
    for_second = min(len(second), max(room // 2, room - len(first)))
    kept = min(len(first), room - for_second)
    return first[len(first) - kept :], second[:for_second]


@pytest.mark.parametrize("length", [12, 64])
def test_a_pair_keeps_its_seam_and_a_single_segment_its_beginning(length):
    rng = np.random.default_rng(0)
    cases = []
    for _ in range(200):
        total = rng.integers(2, length - 2)  # wordpieces of both
        size = rng.integers(1, total)
        words = rng.integers(10, 99, total).tolist()
        single = rng.random() < 0.3
        cases.append((words, None) if single else (words[:size], words[size:]))
    names = "input_ids", "segment_ids", "input_mask"
    columns = zip(*(row(*case, length) for case in cases), strict=True)
    batch = {
        name: np.array(column, np.int32)
        for name, column in zip(names, columns, strict=True)
    }
    labels = np.arange(len(cases))[:, None]
    found = short_rows.halved(batch | {"next_sentence_labels": labels})
    half = length // 2
    wanted = [row(*cut(*case, half), half) for case in cases]
    for name, column in zip(names, zip(*wanted, strict=True), strict=True):
        np.testing.assert_array_equal(found[name], np.array(column))
    np.testing.assert_array_equal(found["next_sentence_labels"], labels)
