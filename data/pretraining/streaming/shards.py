"""Writes one shard: blocks of text to one shuffled record file.

The contents of a shard depend on its task alone, not on the process that
writes it or on the number of processes. Memory holds one group of documents
and one bucket of records, whatever the size of the shard:

    blocks --> groups of documents --> rows, masks, records    (dupe_factor x)
                                         | each to a random bucket on disk
                                         v
                          bucket by bucket, shuffled --> the shard
"""

import bisect
import collections
import contextlib
import dataclasses
import functools
import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from data.pretraining.groups import DocumentGroup
from data.pretraining.masking import Masker
from data.pretraining.recipe import Recipe, make_tools
from data.pretraining.report import describe_rows
from data.pretraining.sentences import split_sentences
from data.pretraining.streaming import disk_shuffle
from data.pretraining.streaming.corpus import Block, read_block
from data.pretraining.streaming.pairs import draw_rows
from data.processes import Advance
from data.records import feature_spec, tfrecord
from data.storage import files, manifests
from data.storage.json_files import write_json

# Differs from the original: it draws from the whole corpus in memory, because
# it has no streaming.
# Bytes of text in a group, whose documents give each other's random next
# sentences.
_GROUP_BYTES = 8 << 20
# A group draws random next sentences from at least this many documents, if the
# corpus has them. Missing ones are replaced by passages of other documents. All
# passages together have half as much text as the group, so that none of them
# appears much more often than the group's own text.
_MIN_DOCUMENTS = 64
_MIN_PASSAGE = 1 << 12  # characters
# Approximate bytes of records for each byte of text.
_RECORD_BYTES = 2
# Bytes of an empty row for each place: three numbers.
_PLACE_BYTES = 3
# Records written between two checks whether to stop.
_RECORDS_AT_ONCE = 4096

# A process keeps them between shards.
tools_of = functools.lru_cache(maxsize=1)(make_tools)


@dataclasses.dataclass(frozen=True)
class ShardTask:
    """The input and the path of one shard.

    `blocks` are its text in order, `spare_blocks` text for the random next
    sentences of groups with few documents. `output` is its path when all
    shards are finished.
    """

    recipe: Recipe
    index: int
    path: str
    blocks: tuple[Block, ...]
    spare_blocks: tuple[Block, ...]
    output: str

    @property
    def num_bytes(self) -> int:
        """Size of the text."""
        return sum(block.end - block.start for block in self.blocks)


def report_path(shard_path: str) -> str:
    """The path of a shard's report."""
    return f"{shard_path}.json"


def load_report(shard_path: str) -> dict[str, Any] | None:
    """Reads a shard's report; None if the shard is not finished."""
    report = manifests.read(report_path(shard_path))
    # It may be damaged, for example by a power failure.
    return report if {"counts", "sha256"} <= report.keys() else None


def write_shard(
    task: ShardTask, advance: Advance = lambda *_: None
) -> dict[str, Any]:
    """Writes a shard, unless it is finished, and its report beside it.

    `advance` is called with the bytes of text read and the examples made since
    the last call. Raises ValueError if the text cannot be used. Returns
    `counts`, of which `tokens` are without padding and `label_1` are
    next_sentence_labels of 1; `sha256`, the file's checksum; and `samples`, the
    first rows of shard 0.
    """
    if report := load_report(task.path):
        return report
    shard = _Shard(task)
    with (
        contextlib.closing(shard.records(advance)) as records,
        tfrecord.open_whole(task.path, task.recipe.compression) as writer,
    ):
        for record in records:
            if writer.num_records % _RECORDS_AT_ONCE == 0:
                advance(0, 0)
            writer.write(record)
        if not writer.num_records:
            raise ValueError(
                f"--output_file names too many files: number {task.index} "
                "is empty: its documents have no tokens; name fewer files."
            )
    report = {
        "counts": {**shard.counts, "bytes": files.size(task.path)},
        "sha256": writer.sha256,
        "samples": shard.samples if task.index == 0 else [],
    }
    write_json(report_path(task.path), report)
    return report


class _Shard:
    """A shard that is being written; counts its text and its examples."""

    def __init__(self, task: ShardTask):
        self._task = task
        self._options = task.recipe.options
        self._tools = tools_of(task.recipe)
        self._masker = Masker(self._tools.wordpieces, self._options)
        seed = self._options.numpy_seed, task.index
        self._rng = np.random.default_rng(seed)
        self.counts: collections.Counter[str] = collections.Counter()
        self.samples: list[str] = []

    def records(self, advance: Advance) -> Iterator[bytes]:
        """Yields all records in random order; see `disk_shuffle.shuffled`."""
        task, options = self._task, self._options
        # Many short documents give many rows, mostly padding, or are joined.
        num_documents = 0
        if not options.join_documents:
            num_documents = sum(block.num_documents for block in task.blocks)
        of_text = task.num_bytes * _RECORD_BYTES
        of_rows = num_documents * options.max_seq_length * _PLACE_BYTES
        num_bytes = options.dupe_factor * (of_text + of_rows)
        path = None if "://" in task.path else task.path
        blocks = self._blocks(advance)
        return disk_shuffle.shuffled(blocks, path, num_bytes, self._rng)

    def _blocks(self, advance: Advance) -> Iterator[list[bytes]]:
        """Yields all records; keeps the first rows as text."""
        options, tools, rng = self._options, self._tools, self._rng
        for group, num_bytes in self._groups():
            for _ in range(options.dupe_factor):
                for rows in draw_rows(group, tools.wordpieces, options, rng):
                    self._mask(rows)
                    if not self.samples:
                        self.samples = describe_rows(rows, tools.tokens_by_id)
                    yield feature_spec.encode_examples(tools.specs, rows)
                    advance(0, len(rows["input_ids"]))
            advance(num_bytes, 0)

    def _mask(self, rows: dict[str, np.ndarray]) -> None:
        """Counts rows and, if masks are static, masks them."""
        lengths = rows["input_mask"].sum(axis=1)
        is_1 = rows["next_sentence_labels"] == 1
        self.counts["examples"] += len(lengths)
        self.counts["tokens"] += int(lengths.sum())
        self.counts["label_1"] += int(is_1.sum())
        if self._options.masking == "static":
            masked = self._masker.mask(rows["input_ids"], lengths, self._rng)
            rows |= masked._asdict()
            num_masked = np.count_nonzero(masked.masked_lm_weights)
            self.counts["masked"] += int(num_masked)

    def _groups(self) -> Iterator[tuple[DocumentGroup, int]]:
        """Yields groups and their bytes of text."""
        options, wordpieces = self._options, self._tools.wordpieces
        separator = wordpieces.sep_id if options.join_documents else None
        waiting = collections.deque(self._task.blocks)
        while waiting:
            group = DocumentGroup(wordpieces.typecode, separator)
            num_bytes = 0
            while waiting and num_bytes < _GROUP_BYTES:
                block = waiting.popleft()
                num_bytes += block.end - block.start
                for number, lines in read_block(block):
                    group.add(number, self._encode(lines))
            if not group.documents:
                continue
            self.counts.update(group.counts(self._tools.unknown_ids))
            if options.next_sentence_prediction:
                self._lend_documents(group, num_bytes)
            yield group, num_bytes

    def _lend_documents(self, group: DocumentGroup, num_bytes: int) -> None:
        """Adds passages of other documents until there are `_MIN_DOCUMENTS`.

        Without them, in a shard of three long books a random next sentence
        would be recognizable by its book.
        """
        group.num_own = len(group.documents)
        passage_size = max(_MIN_PASSAGE, num_bytes // (2 * _MIN_DOCUMENTS))
        for i in self._rng.permutation(len(self._task.spare_blocks)):
            numbers = set(group.numbers)
            if len(numbers) >= _MIN_DOCUMENTS:
                break
            block = self._task.spare_blocks[i]
            if others := [d for d in read_block(block) if d[0] not in numbers]:
                number, lines = others[self._rng.integers(len(others))]
                lines = lines[self._rng.integers(len(lines)) :]
                # As many as have `passage_size` characters together.
                ends = list(itertools.accumulate(map(len, lines)))
                passage = lines[: bisect.bisect_left(ends, passage_size) + 1]
                group.add(number, self._encode(passage))

    def _encode(self, lines: Iterable[str]) -> Iterator[list[int]]:
        """Tokenizes lines; splits them into sentences first if asked to."""
        if self._task.recipe.split_sentences:
            lines = itertools.chain.from_iterable(map(split_sentences, lines))
        return map(self._tools.encode, lines)
