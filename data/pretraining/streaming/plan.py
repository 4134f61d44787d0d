"""Assigns the blocks of a corpus to shards.

    files --scan--> blocks --seeded order--> shards

The plan, and so the output, depends only on the text, the flags, the seed and
the number of shards.
"""

import dataclasses
import hashlib
import heapq
import itertools
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from absl import logging

from data.pretraining.recipe import Recipe
from data.pretraining.streaming.corpus import Block, FileScan, scan_file
from data.pretraining.streaming.shards import ShardTask
from data.storage import files

# Part of the manifest: increase it when the same input gives other records.
_FORMAT = 3
_MAX_BLOCK_BYTES = 1 << 20
_BLOCKS_PER_SHARD = 16
# More than a group needs, because some are its own documents and the groups of
# a shard should get different ones.
_MAX_SPARE_BLOCKS = 256

# The built-in `map`, or one that uses several processes.
Map = Callable[[Callable[..., Any], Iterable[Any]], Iterable[Any]]


@dataclasses.dataclass(frozen=True)
class Plan:
    """The shards to write: a task for each output file, in their order.

    `facts` are all that the output depends on, for the manifest: seed, flags,
    checksums of vocabulary and text.
    """

    tasks: tuple[ShardTask, ...]
    facts: dict[str, Any]

    @property
    def outputs(self) -> list[str]:
        """Paths of the shards when all are finished."""
        return [task.output for task in self.tasks]


def make_plan(
    input_files: Sequence[str],
    output_files: Sequence[str],
    recipe: Recipe,
    map_: Map = map,
) -> Plan:
    """Reads and checks all text once and assigns it to shards.

    A shard is written beside its output file. Its temporary name contains a
    checksum of `facts`. Raises ValueError if there is no text, a line is not
    UTF-8 or too long, there are fewer documents than shards, or only one
    document for sentence pairs.
    """
    num_shards = len(output_files)
    num_bytes = sum(map(files.size, input_files))
    block_bytes = num_bytes // (_BLOCKS_PER_SHARD * num_shards)
    block_bytes = min(block_bytes, _MAX_BLOCK_BYTES)
    scans = list(map_(scan_file, input_files, itertools.repeat(block_bytes)))
    _check_documents(input_files, scans, num_shards, recipe)
    if sum(len(found.blocks) for found in scans) < num_shards:
        # A few large and many small documents: a block for each document.
        scans = list(map_(scan_file, input_files, itertools.repeat(0)))
    blocks, before = [], 0  # documents
    for scan in scans:
        blocks += [b._replace(number=b.number + before) for b in scan.blocks]
        before += scan.facts["documents"]
    rng = np.random.default_rng(recipe.options.numpy_seed)
    blocks = [blocks[i] for i in rng.permutation(len(blocks))]
    facts = {
        "format": _FORMAT,
        "num_shards": num_shards,
        **recipe.facts(),
        "corpus": [scan.facts for scan in scans],
    }
    text = json.dumps(facts, sort_keys=True)
    mark = hashlib.sha256(text.encode()).hexdigest()[:12]
    tasks = []
    for index, numbers in enumerate(_deal(blocks, num_shards)):
        output = output_files[index]
        path = files.incomplete(output, mark)
        own = tuple(blocks[i] for i in numbers)
        spare = _spare_blocks(blocks, numbers[0] + 1)
        tasks.append(ShardTask(recipe, index, path, own, spare, output))
    return Plan(tuple(tasks), facts)


def _check_documents(
    input_files: Sequence[str],
    scans: Sequence[FileScan],
    num_shards: int,
    recipe: Recipe,
) -> None:
    num_documents = sum(scan.facts["documents"] for scan in scans)
    names = ", ".join(input_files[:3])
    if not num_documents:
        raise ValueError(
            f"--input_file: no text in {names}; expected one sentence on each "
            "line and a blank line between documents."
        )
    num_bytes = sum(scan.facts["bytes"] for scan in scans)
    logging.info(
        f"{num_documents:,} documents, {num_bytes:,} bytes, {len(scans)} files"
    )
    if num_documents == 1 and recipe.options.next_sentence_prediction:
        raise ValueError(
            f"--input_file: {names} is a single document, but random next "
            "sentences come from other documents; put a blank line between "
            "documents, or pass --next_sentence_prediction=false."
        )
    num_parts = sum(len(scan.blocks) for scan in scans)
    if max(num_documents, num_parts) < num_shards:
        raise ValueError(
            f"--output_file names {num_shards} files, but the text has only "
            f"{num_documents} documents (between blank lines); name no more."
        )


def _deal(blocks: Sequence[Block], num_shards: int) -> list[list[int]]:
    """Assigns each block to the shard with the least text so far."""
    dealt: list[list[int]] = [[] for _ in range(num_shards)]
    heap = [(0, index) for index in range(num_shards)]
    for number, block in enumerate(blocks):
        num_bytes, index = heap[0]
        dealt[index].append(number)
        num_bytes += block.end - block.start
        heapq.heapreplace(heap, (num_bytes, index))
    return dealt


def _spare_blocks(blocks: Sequence[Block], first: int) -> tuple[Block, ...]:
    """Returns blocks of different documents, from `first` on and around.

    There are enough for each document to find others, up to a limit.
    """
    spare, numbers = [], set()
    for block in itertools.chain(blocks[first:], blocks[:first]):
        if block.number not in numbers or block.num_documents > 1:
            spare.append(block)
            numbers.add(block.number)
        if len(spare) == _MAX_SPARE_BLOCKS:
            break
    return tuple(spare)
