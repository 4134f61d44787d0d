"""Writes one shard: blocks of text to one shuffled record file.

The contents of a shard depend on its task alone, not on the process that
writes it or on the number of processes. Memory holds one group of documents
and one bucket of records, whatever the size of the shard:

    blocks --> groups of documents --> rows, masks, records    (dupe_factor x)
                                         | each to a random bucket on disk
                                         v
                          bucket by bucket, shuffled --> the shard
"""

import collections
import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from data.pretraining.groups import DocumentGroup
from data.pretraining.masking import Masker
from data.pretraining.recipe import Recipe, make_tools
from data.pretraining.report import describe_rows
from data.pretraining.sentences import split_sentences
from data.pretraining.streaming.corpus import Block, read_block
from data.pretraining.streaming.disk_shuffle import DiskShuffle
from data.pretraining.streaming.pairs import Rows, draw_rows
from data.records import feature_spec, tfrecord
from data.storage import files, manifests
from data.storage.json_files import write_json

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
    sentences of groups with few documents.
    """

    recipe: Recipe
    index: int
    path: str
    blocks: tuple[Block, ...]
    spare_blocks: tuple[Block, ...]

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
    task: ShardTask, advance: Callable[[int, int], None] = lambda *_: None
) -> dict[str, Any]:
    """Writes a shard, unless it is finished, and its report beside it.

    `advance` is called with the bytes of text read and the examples made since
    the last call. Raises ValueError if the text cannot be used.

    Returns:
      `counts`: `examples`, their `tokens` (without padding), `masked` tokens
      and `label_1` (next_sentence_labels of 1); the text's `documents`,
      `sentences`, `wordpieces` and `unknown` wordpieces; the file's `bytes`.
      `sha256`, the file's checksum; `samples`, the first rows of shard 0.
    """
    if report := load_report(task.path):
        return report
    recipe = task.recipe
    rng = np.random.default_rng([recipe.options.numpy_seed, task.index])
    counts: collections.Counter[str] = collections.Counter()
    with _shuffle(task, rng) as shuffle:
        samples = _make_records(task, rng, counts, shuffle, advance)
        if not counts["examples"]:
            raise ValueError(
                f"--output_file names too many files: number {task.index} "
                "is empty: its documents have no tokens; name fewer files."
            )
        with files.whole_files([task.path]) as (temporary,):
            with tfrecord.RecordWriter(temporary, recipe.compression) as writer:
                for framed_record in shuffle.shuffled():
                    if writer.num_records % _RECORDS_AT_ONCE == 0:
                        advance(0, 0)
                    writer.write_framed(framed_record)
    counts["bytes"] = files.size(task.path)
    report = {
        "counts": dict(counts),
        "sha256": writer.sha256,
        "samples": samples if task.index == 0 else [],
    }
    write_json(report_path(task.path), report)
    return report


def _make_records(
    task: ShardTask,
    rng: np.random.Generator,
    counts: collections.Counter[str],
    shuffle: DiskShuffle,
    advance: Callable[[int, int], None],
) -> list[str]:
    """Adds all records to `shuffle`; returns the first rows as text."""
    tools, options = tools_of(task.recipe), task.recipe.options
    masker = None
    if options.masking == "static":
        masker = Masker(tools.wordpieces, options)
    samples: list[str] = []
    for group, num_documents, num_bytes in _groups(task, rng, counts):
        for _ in range(options.dupe_factor):
            for rows in draw_rows(
                group, num_documents, tools.wordpieces, options, rng
            ):
                columns = _columns(rows, masker, rng)
                if not samples:
                    samples = describe_rows(columns, tools.tokens_by_id)
                _count(columns, counts)
                records = feature_spec.encode_examples(tools.specs, columns)
                framed = [tfrecord.frame(record) for record in records]
                shuffle.add(framed)
                advance(0, len(framed))
        advance(num_bytes, 0)
    return samples


def _shuffle(task: ShardTask, rng: np.random.Generator) -> DiskShuffle:
    """Creates the buckets on disk for the shard's records."""
    options = task.recipe.options
    # Many short documents give many rows, mostly padding, or are joined.
    num_documents = 0
    if not options.join_documents:
        num_documents = sum(block.num_documents for block in task.blocks)
    num_bytes = options.dupe_factor * (
        task.num_bytes * _RECORD_BYTES
        + num_documents * options.max_seq_length * _PLACE_BYTES
    )
    path = None if "://" in task.path else task.path
    return DiskShuffle(path, num_bytes, rng)


def _groups(
    task: ShardTask,
    rng: np.random.Generator,
    counts: collections.Counter[str],
) -> Iterator[tuple[DocumentGroup, int, int]]:
    """Yields groups, their number of own documents, and bytes of text."""
    tools, options = tools_of(task.recipe), task.recipe.options
    separator = tools.wordpieces.sep_id if options.join_documents else None
    waiting = collections.deque(task.blocks)
    while waiting:
        group = DocumentGroup(tools.wordpieces.typecode, separator)
        num_bytes = 0
        while waiting and num_bytes < _GROUP_BYTES:
            block = waiting.popleft()
            num_bytes += block.end - block.start
            for number, lines in read_block(block):
                group.add(number, _encode(lines, task.recipe))
        num_documents = len(group.documents)
        if not num_documents:
            continue
        counts.update(group.counts(tools.unknown_ids))
        if options.next_sentence_prediction:
            _lend_documents(group, num_bytes, task, rng)
        yield group, num_documents, num_bytes


def _lend_documents(
    group: DocumentGroup,
    num_bytes: int,
    task: ShardTask,
    rng: np.random.Generator,
) -> None:
    """Adds passages of other documents until there are `_MIN_DOCUMENTS`.

    Without them, in a shard of three long books a random next sentence would be
    recognizable by its book.
    """
    passage_size = max(_MIN_PASSAGE, num_bytes // (2 * _MIN_DOCUMENTS))
    for i in rng.permutation(len(task.spare_blocks)):
        numbers = set(group.numbers)
        if len(numbers) >= _MIN_DOCUMENTS:
            break
        block = task.spare_blocks[i]
        if others := [d for d in read_block(block) if d[0] not in numbers]:
            number, lines = others[rng.integers(len(others))]
            passage = _passage(lines, rng.integers(len(lines)), passage_size)
            group.add(number, _encode(passage, task.recipe))


def _passage(lines: list[str], start: int, size: int) -> list[str]:
    """Returns lines from `start` on until they have `size` characters."""
    ends = itertools.accumulate(len(line) for line in lines[start:])
    num_lines = sum(1 for _ in itertools.takewhile(size.__gt__, ends))
    return lines[start : start + num_lines + 1]


def _encode(lines: Iterable[str], recipe: Recipe) -> Iterator[list[int]]:
    """Tokenizes lines; splits them into sentences first if asked to."""
    if recipe.split_sentences:
        lines = itertools.chain.from_iterable(map(split_sentences, lines))
    return map(tools_of(recipe).encode, lines)


def _columns(
    rows: Rows, masker: Masker | None, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Returns the features of rows, masked if there is a masker."""
    is_token = np.arange(rows.input_ids.shape[1]) < rows.lengths[:, None]
    columns = {
        "input_ids": rows.input_ids,
        "input_mask": is_token.astype(np.int8),
        "segment_ids": rows.segment_ids,
        "next_sentence_labels": rows.next_sentence_labels[:, None],
    }
    if masker:
        # In this order, because the masker's input_ids say nothing of words.
        columns |= masker.mask(rows.input_ids, rows.lengths, rng)._asdict()
    return columns


def _count(
    columns: dict[str, np.ndarray], counts: collections.Counter[str]
) -> None:
    counts["examples"] += len(columns["input_ids"])
    counts["tokens"] += int(np.count_nonzero(columns["input_mask"]))
    counts["label_1"] += int(np.sum(columns["next_sentence_labels"] == 1))
    if "masked_lm_weights" in columns:
        counts["masked"] += int(np.count_nonzero(columns["masked_lm_weights"]))
