"""Converts text files to pretraining records in memory.

A random next sentence may come from any document, and all instances are
shuffled together. A token needs two bytes (four if the vocabulary has more than
65,536 tokens), an instance of 128 tokens about 650 bytes. For larger corpora
see `data.pretraining.streaming.all_shards`.
"""

import collections
import contextlib
import itertools
import os
import random
import time
from array import array
from collections.abc import Iterator, Sequence

import numpy as np
from absl import logging

from data import progress
from data.pretraining import report
from data.pretraining.exact import examples
from data.pretraining.groups import DocumentGroup
from data.pretraining.recipe import Recipe, Tools, make_tools
from data.records import feature_spec, tfrecord
from data.storage import files, manifests, outputs
from data.storage.json_files import write_json

_AT_ONCE = 4096


def write_pretraining_data(
    input_files: Sequence[str], output_files: Sequence[str], recipe: Recipe
) -> dict[str, int]:
    """Converts text to masked examples; returns counts, which are also logged.

    The text is UTF-8, one sentence on each line, a blank line between
    documents, which may continue in the next file. Records are written to the
    TFRecord files in turn. Raises ValueError if an input is also an output, has
    no text or is not UTF-8, or the vocabulary lacks special tokens.

    Source: main in create_pretraining_data.py.
    """
    start_s = time.monotonic()
    options = recipe.options
    outputs.check(
        {"input_file": input_files, "vocab_file": [recipe.vocab_file]},
        {"output_file": output_files},
    )
    report.warn_of_few_predictions(options)
    tools = make_tools(recipe)
    group = read_documents(input_files, tools)
    rng = random.Random(options.random_seed)
    instances = examples.create_training_instances(
        group, tools.wordpieces, options, rng
    )
    columns = _columns(instances, tools, options.next_sentence_prediction)
    with files.whole_files(output_files) as paths:
        _write_shuffled(columns, rng, tools, paths)
        manifests.remove(output_files)
    counts = group.counts(tools.unknown_ids) | {
        "examples": len(columns["input_ids"]),
        "tokens": int(columns["input_mask"].sum()),
        "masked": int(columns["masked_lm_weights"].sum()),
    }
    # Differs from the original: it writes records alone, so that nothing tells
    # which vocabulary they need.
    _write_manifests(input_files, output_files, recipe, counts)
    report.log_counts(counts, options, time.monotonic() - start_s)
    report.warn_of_other_shards(output_files)
    return counts


def _write_manifests(
    input_files: Sequence[str],
    output_files: Sequence[str],
    recipe: Recipe,
    counts: dict[str, int],
) -> None:
    """Says beside the records what they were made from."""
    corpus = [
        {"name": os.path.basename(path), "bytes": files.size(path)}
        for path in input_files
    ]
    shards = collections.defaultdict(list)
    for index, path in enumerate(output_files):
        if files.is_stream(path):  # nothing stands beside a pipe
            continue
        number = len(range(index, counts["examples"], len(output_files)))
        numbers = {"examples": number, "bytes": files.size(path)}
        shard = {"file": os.path.basename(path), "counts": numbers}
        shards[manifests.path_of([path])].append(shard)
    for path, found in shards.items():
        manifest = {
            "counts": counts,
            "vocab_size": recipe.num_ids,
            "made_from": recipe.facts() | {"corpus": corpus},
            "shards": found,
        }
        write_json(path, manifest)


def read_documents(input_files: Sequence[str], tools: Tools) -> DocumentGroup:
    """Reads and tokenizes the documents that are not empty.

    Only blank lines separate documents.

    Source: create_training_instances in create_pretraining_data.py.
    """
    group = DocumentGroup(tools.wordpieces.typecode)
    lines = itertools.chain.from_iterable(map(_lines, input_files))
    for has_text, document in itertools.groupby(lines, key=bool):
        if has_text:
            group.add(len(group.documents), map(tools.encode, document))
    if not group.documents:
        raise ValueError(
            f"--input_file: no text in {', '.join(input_files[:3])}; expected "
            "one sentence on each line and a blank line between documents."
        )
    logging.info("%d documents", len(group.documents))
    return group


def _lines(path: str) -> Iterator[str]:
    logging.info("Reading %s", path)
    lines = progress.tracked(files.read_lines(path), "reading", "lines")
    return map(str.strip, lines)


def _columns(
    instances: Iterator[examples.TrainingInstance],
    tools: Tools,
    has_pairs: bool,
) -> dict[str, np.ndarray]:
    """Pads instances to the columns of `feature_spec.pretraining_features`.

    Source: write_instance_to_example_files in create_pretraining_data.py.
    """
    wide = tools.wordpieces.typecode
    types = {"input_ids": wide, "masked_lm_ids": wide}
    types |= {"masked_lm_positions": "i", "next_sentence_labels": "b"}
    columns = {s.name: array(types.get(s.name, "B")) for s in tools.specs}
    for instance in instances:
        label = instance.is_random_next if has_pairs else feature_spec.NO_PAIR
        row = {
            "input_ids": instance.tokens,
            "input_mask": b"\1" * len(instance.tokens),
            "segment_ids": bytes(instance.segment_ids),
            "masked_lm_positions": instance.masked_lm_positions,
            "masked_lm_ids": instance.masked_lm_labels,
            "masked_lm_weights": b"\1" * len(instance.masked_lm_labels),
            "next_sentence_labels": [label],
        }
        for spec in tools.specs:
            column, values = columns[spec.name], row[spec.name]
            column.extend(array(column.typecode, values))
            padding = column.itemsize * (spec.length - len(values))
            column.frombytes(bytes(padding))
    return {
        spec.name: np.reshape(columns[spec.name], (-1, spec.length))
        for spec in tools.specs
    }


def _write_shuffled(
    columns: dict[str, np.ndarray],
    rng: random.Random,
    tools: Tools,
    paths: Sequence[str],
) -> None:
    """Writes rows to the files in turn and logs the first three."""
    total = len(columns["input_ids"])
    # Differs from the original: it writes empty files, which look damaged.
    if total < len(paths):
        raise ValueError(
            f"--output_file names {len(paths)} files, but the text gives only "
            f"{total} examples; name fewer files."
        )
    order = list(range(total))
    examples.shuffle(order, rng)
    with (
        progress.Progress("writing", total=total, unit="examples") as shown,
        contextlib.ExitStack() as stack,
    ):
        writers = map(tfrecord.RecordWriter, paths)
        turns = itertools.cycle(tuple(map(stack.enter_context, writers)))
        for start in range(0, total, _AT_ONCE):
            some = order[start : start + _AT_ONCE]
            rows = {name: values[some] for name, values in columns.items()}
            if not start:
                for text in report.describe_rows(rows, tools.tokens_by_id):
                    logging.info("%s", text)
            for record in feature_spec.encode_examples(tools.specs, rows):
                next(turns).write(record)
            shown.advance(len(some))
