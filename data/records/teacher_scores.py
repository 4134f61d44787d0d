"""Adds a teacher's scores to the records of a train set, once for both.

Axes: N examples, S sequence, L scores.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from data.records import reuse, tfrecord
from data.records.feature_spec import FeatureSpec, encode_examples
from data.records.input_pipeline import RecordFiles, open_records

_LABELED = FeatureSpec("is_labeled", 1)  # 0 = the labels do not count


def add_scores(
    path: str,
    facts: Mapping[str, Any],
    spec: FeatureSpec,
    compute: Callable[[RecordFiles], np.ndarray],
    *parts: RecordFiles,
) -> RecordFiles:
    """Writes records with a teacher's scores, unless an earlier run did so.

    `parts` are files of the train set with the same features; only labels of
    the first one count. `compute` returns the scores (`spec`) of a part's
    records in their order, float32 [N, L], or of their wordpieces, [N, up to S,
    L]; `facts` are what they depend on beside the records of the first part.
    Returns the new file: the records of all parts, with the scores and
    `is_labeled`.
    """
    specs = spec, _LABELED

    def write() -> tuple[reuse.RowsReport, str]:
        with tfrecord.open_whole(path) as writer:
            for part in parts:
                scores = compute(part)
                if scores.ndim == 3:  # shorter than S if batches are trimmed
                    missing = spec.length // scores.shape[2] - scores.shape[1]
                    scores = np.pad(scores, [(0, 0), (0, missing), (0, 0)])
                rows = scores.reshape(len(scores), -1)
                labeled = np.full([len(rows), 1], int(part is parts[0]))
                columns = {spec.name: rows, _LABELED.name: labeled}
                records = tfrecord.read_records(part.paths[0])
                added = encode_examples(specs, columns)
                for record, more in zip(records, added, strict=True):
                    # Protocol buffers that follow each other are merged.
                    writer.write(record + more)
        return reuse.RowsReport(writer.num_records), writer.sha256

    made_from = {**reuse.made_from(parts[0].paths[0]), **facts}
    reuse.make_once(path, made_from, reuse.RowsReport, write)
    limits = {spec.name: spec.limit for spec in parts[0].specs}
    return open_records([path], (*parts[0].specs, *specs), limits=limits)
