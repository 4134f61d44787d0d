"""Writes texts to record files: each text of an example is a row of its own.

Axes: N examples, C texts of an example, S wordpieces, H numbers of a vector.
"""

import dataclasses
import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from data.progress import Progress
from data.records import reuse, tfrecord
from data.records.feature_spec import FeatureSpec, encode_examples
from data.storage import files
from data.text import packing
from data.text.tokenization import FullTokenizer
from data.vectors.text_sets import TextExample

SCORE, TEACHER = "score", "teacher_vector"
_FORMAT = 1  # part of the manifest
_BLOCK = 1024  # examples encoded at once


@dataclasses.dataclass
class TextsReport(reuse.RowsReport):
    """Counts of a record file; `num_shortened` counts texts that were cut."""

    num_texts: int = 0
    num_shortened: int = 0

    def counts(self) -> list[str]:
        """See `RowsReport.counts`."""
        share = self.num_shortened / max(self.num_texts, 1)
        return [
            f"{self.num_examples:,} examples",
            f"{self.num_texts:,} texts",
            f"{self.num_shortened:,} shortened to --max_seq_length "
            f"({share:.1%})",
        ]


def text_specs(
    max_seq_length: int,
    num_texts: int = 1,
    *,
    scored: bool = False,
    vector_size: int = 0,
) -> tuple[FeatureSpec, ...]:
    """The features of records of C texts.

    `input_ids`, `input_mask` (1 = real) and `segment_ids` (0) are [C * S], one
    text after the other; `score` float32 [1] if `scored`, and `teacher_vector`
    float32 [H] if there is a `vector_size`.
    """
    specs = [
        FeatureSpec(name, num_texts * max_seq_length, flag="max_seq_length")
        for name in ("input_ids", "input_mask", "segment_ids")
    ]
    specs += [FeatureSpec(SCORE, 1, "float32")] * scored
    specs += [FeatureSpec(TEACHER, vector_size, "float32")] * bool(vector_size)
    return tuple(specs)


def make_records(
    read: Callable[[], Iterable[TextExample]],
    path: str,
    tokenizer: FullTokenizer,
    specs: Sequence[FeatureSpec],
    *,
    max_seq_length: int,
    vectors: Sequence[np.ndarray] = (),
    check: Callable[[Mapping[str, Any]], None] | None = None,
) -> TextsReport:
    """Writes the records of a set, unless an earlier run did so.

    Args:
      read: yields the examples.
      path: path of the record file.
      tokenizer: has [CLS] and [SEP].
      specs: what `text_specs` returns.
      max_seq_length: S.
      vectors: `teacher_vector` of each example, if the specs have it.
      check: see `reuse.make_once`.

    Raises:
      ValueError: an example is wrong.
    """
    checksum = hashlib.sha256()
    for example in read():
        checksum.update(f"{example!r}\n".encode())
    for vector in vectors:
        checksum.update(np.asarray(vector, np.float32).tobytes())
    facts = {
        "format": _FORMAT,
        "kind": "vectors",
        "features": [[spec.name, spec.length] for spec in specs],
        "max_seq_length": max_seq_length,
        **reuse.tokenizer_facts(tokenizer),
        "examples_sha256": checksum.hexdigest(),
    }
    writer = _Writer(tokenizer, specs, max_seq_length)
    return reuse.make_once(
        path,
        facts,
        TextsReport,
        lambda: writer.write(read(), vectors, path),
        check,
    )


class _Writer:
    """Converts examples to records, and counts them."""

    def __init__(self, tokenizer, specs, max_seq_length):
        self._encode = tokenizer.encode
        self._special = {
            "cls_id": tokenizer.vocab["[CLS]"],
            "sep_id": tokenizer.vocab["[SEP]"],
        }
        self._specs = specs
        self._length = max_seq_length
        self._report = TextsReport()

    def write(
        self,
        examples: Iterable[TextExample],
        vectors: Sequence[np.ndarray],
        path: str,
    ) -> tuple[TextsReport, str]:
        """Writes a record file; returns counts and SHA-256."""
        vectors = vectors if len(vectors) else itertools.repeat(())
        rows = map(self._row, examples, vectors)
        with (
            Progress(f"writing {path}", unit="records") as progress,
            files.whole_files([path]) as (temporary,),
            tfrecord.RecordWriter(temporary) as writer,
        ):
            while block := list(itertools.islice(rows, _BLOCK)):
                columns = {
                    s.name: np.array([row[s.name] for row in block], s.dtype)
                    for s in self._specs
                }
                for record in encode_examples(self._specs, columns):
                    writer.write(record)
                progress.advance(len(block))
        return self._report, writer.sha256

    def _row(self, example: TextExample, vector: np.ndarray) -> dict[str, Any]:
        report, row = self._report, {SCORE: [example.score], TEACHER: vector}
        if not report.num_examples:
            logging.info("*** Example ***\n%s", example)
        report.num_examples += 1
        parts = list(self._texts(example.texts))
        for name in parts[0]:
            row[name] = list(itertools.chain(*(part[name] for part in parts)))
        report.num_tokens += sum(row["input_mask"])
        report.num_places += len(row["input_mask"])
        return row

    def _texts(self, texts: Sequence[str]) -> Iterator[dict[str, list[int]]]:
        for text in texts:
            ids = self._encode(text)
            self._report.num_texts += 1
            self._report.num_shortened += len(ids) > self._length - 2
            ids, segments = packing.add_special_tokens(
                ids[: self._length - 2], [], **self._special
            )
            yield {
                "input_ids": packing.pad(ids, self._length),
                "input_mask": packing.pad([1] * len(ids), self._length),
                "segment_ids": packing.pad(segments, self._length),
            }
