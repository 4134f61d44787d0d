"""Which blocks of a corpus go into which shard.

    files --scan--> blocks --seeded order--> dealt to the shards

The plan, and with it the output, is a function of the text, the flags, the
seed and the number of shards. Who carries it out changes nothing.
"""

import dataclasses
import hashlib
import heapq
import json
import os
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from absl import logging

from data.pretraining.streaming.corpus import Block, FileScan, scan_file
from data.pretraining.streaming.shards import ShardRecipe, ShardTask
from data.storage import files

# Part of the fingerprint: raise it when the same input gives other records.
_FORMAT = 2
_FORMAT_WITHOUT_PAIRS = 3
_MAX_BLOCK_BYTES = 1 << 20
_BLOCKS_PER_SHARD = 16
# More than a group may need: some hold what it has, and groups of a shard
# shall not all get the same.
_MAX_SPARE_BLOCKS = 256
_SHARD_SUFFIX = re.compile(r"-\d{5}-of-\d{5}$")

# Does what the built-in map does, perhaps on several processes.
Map = Callable[[Callable[..., Any], Iterable[Any]], Iterable[Any]]


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is to be written, and what makes it what it is.

    Attributes:
      tasks: one for each output file, in their order.
      output_files: where the finished shards will lie.
      facts: what the output depends on, for the manifest: seed, flags,
        checksums of vocabulary and text.
    """

    tasks: tuple[ShardTask, ...]
    output_files: tuple[str, ...]
    facts: dict[str, Any]

    @property
    def manifest_path(self) -> str:
        """Where the data set is described."""
        return data_set_name(self.output_files) + files.MANIFEST_SUFFIX


def data_set_name(output_files: Sequence[str]) -> str:
    """The path `out` of `out-00000-of-00064`, or of the first of others."""
    return _SHARD_SUFFIX.sub("", output_files[0])


def make_plan(
    input_files: Sequence[str],
    output_files: Sequence[str],
    recipe: ShardRecipe,
    map_: Map = map,
) -> Plan:
    """Reads all text once, checks it, and deals it out.

    Args:
      input_files: UTF-8 text, blank lines between documents.
      output_files: one for each shard.
      recipe: common to all shards.
      map_: maps a function over the files.

    Returns:
      The plan. Each shard is written beside its output file, under a name
      that tells this plan from others.

    Raises:
      ValueError: there is no text, or a line is not UTF-8 or too long; there
        are fewer documents than shards; or only one, where pairs are to be
        made.
    """
    num_shards = len(output_files)
    num_bytes = sum(map(files.size, input_files))
    block_bytes = min(
        num_bytes // (_BLOCKS_PER_SHARD * num_shards), _MAX_BLOCK_BYTES
    )
    scans = _scan(input_files, block_bytes, map_)
    _check_documents(scans, num_shards, recipe)
    if sum(len(scan.blocks) for scan in scans) < num_shards:
        # Few large documents among many small ones: each a block of its own.
        scans = _scan(input_files, 0, map_)
    blocks = _number_documents(scans)
    order = np.random.default_rng(recipe.options.numpy_seed).permutation(
        len(blocks)
    )
    blocks = [blocks[i] for i in order]
    facts = _facts(scans, num_shards, recipe)
    text = json.dumps(facts, sort_keys=True)
    mark = hashlib.sha256(text.encode()).hexdigest()[:12]
    tasks = []
    for index, (path, numbers) in enumerate(
        zip(output_files, _deal(blocks, num_shards), strict=True)
    ):
        task = ShardTask(
            recipe,
            index,
            files.incomplete(path, mark),
            tuple(blocks[i] for i in numbers),
            _spare_blocks(blocks, numbers[0] + 1),
        )
        tasks.append(task)
    return Plan(tuple(tasks), tuple(output_files), facts)


def _scan(
    input_files: Sequence[str], block_bytes: int, map_: Map
) -> list[FileScan]:
    return list(map_(scan_file, input_files, [block_bytes] * len(input_files)))


def _check_documents(
    scans: Sequence[FileScan], num_shards: int, recipe: ShardRecipe
) -> None:
    """Refuses a corpus that the shards cannot be made of."""
    num_documents = sum(scan.num_documents for scan in scans)
    names = ", ".join(scan.path for scan in scans[:3])
    if not num_documents:
        raise ValueError(
            f"--input_file: no text in {names}; expected one sentence a line "
            "and a blank line between documents."
        )
    logging.info(
        "%s documents, %s bytes in %d files",
        f"{num_documents:,}",
        f"{sum(scan.num_bytes for scan in scans):,}",
        len(scans),
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
            f"{num_documents} documents (parted by blank lines) and each file "
            f"needs one; name {num_documents} files or fewer."
        )


def _number_documents(scans: Sequence[FileScan]) -> list[Block]:
    """All blocks, their documents counted in the corpus, not in the file."""
    blocks: list[Block] = []
    before = 0
    for scan in scans:
        blocks += [b._replace(number=b.number + before) for b in scan.blocks]
        before += scan.num_documents
    return blocks


def _deal(blocks: Sequence[Block], num_shards: int) -> list[list[int]]:
    """Gives each block to the shard that has the least text so far."""
    dealt: list[list[int]] = [[] for _ in range(num_shards)]
    heap = [(0, index) for index in range(num_shards)]
    for number, block in enumerate(blocks):
        num_bytes, index = heap[0]
        dealt[index].append(number)
        num_bytes += block.end - block.start
        heapq.heapreplace(heap, (num_bytes, index))
    return dealt


def _spare_blocks(blocks: Sequence[Block], first: int) -> tuple[Block, ...]:
    """Blocks from `first` on, around the end, each with another document.

    Enough that each document finds as many others as there are, up to a limit.
    """
    spare, numbers = [], set()
    for i in range(len(blocks)):
        block = blocks[(first + i) % len(blocks)]
        if block.number not in numbers or block.num_documents > 1:
            spare.append(block)
            numbers.add(block.number)
        if len(spare) == _MAX_SPARE_BLOCKS:
            break
    return tuple(spare)


def _facts(
    scans: Sequence[FileScan], num_shards: int, recipe: ShardRecipe
) -> dict[str, Any]:
    """All that the output depends on, for fingerprint and manifest."""
    return {
        "format": _FORMAT
        if recipe.options.next_sentence_prediction
        else _FORMAT_WITHOUT_PAIRS,
        "num_shards": num_shards,
        **dataclasses.asdict(recipe.options),
        "do_lower_case": recipe.do_lower_case,
        "split_sentences": recipe.split_sentences,
        "compression": recipe.compression,
        "vocab_sha256": files.sha256(recipe.vocab_file),
        "corpus": [
            {
                "name": os.path.basename(scan.path),
                "bytes": scan.num_bytes,
                "documents": scan.num_documents,
                "crc32c": f"{scan.crc32c:08x}",
            }
            for scan in scans
        ],
    }
