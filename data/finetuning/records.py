"""Writes a task's examples to record files, once for the same examples."""

import dataclasses
import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from absl import logging

from data.finetuning.features import Converter, FeatureOptions, RecordsReport
from data.progress import tracked
from data.records import reuse, tfrecord
from data.records.feature_spec import encode_examples
from data.tasks.examples import Example
from data.tasks.task import Task
from data.text.tokenization import FullTokenizer

# Part of the manifest: increase it when the same examples give other records.
_FORMAT = 1
_BLOCK = 1024  # rows encoded at once
_NUM_LOGGED = 3


def write_records(
    examples: Iterable[Example],
    path: str,
    tokenizer: FullTokenizer,
    options: FeatureOptions,
) -> tuple[RecordsReport, str]:
    """Writes examples to a record file; returns counts and SHA-256.

    Source: file_based_convert_examples_to_features in run_classifier.py.
    """
    converter, specs = Converter(tokenizer, options), options.specs
    rows = converter.rows(_logged(examples, tokenizer))
    rows = tracked(rows, f"writing {path}", "records")
    with tfrecord.open_whole(path) as writer:
        while block := list(itertools.islice(rows, _BLOCK)):
            columns = {x.name: [row[x.name] for row in block] for x in specs}
            for record in encode_examples(specs, columns):
                writer.write(record)
    return converter.report, writer.sha256


def _logged(
    examples: Iterable[Example], tokenizer: FullTokenizer
) -> Iterator[Example]:
    """Logs the first examples, where a wrong column or casing is visible."""
    for number, example in enumerate(examples):
        if number < _NUM_LOGGED:
            pieces = map(tokenizer.tokenize, example.texts)
            tokens = " | ".join(map(" ".join, pieces))
            logging.info("*** Example ***\n%s\ntokens: %s", example, tokens)
        yield example


def make_records(
    task: Task,
    set_name: str,
    path: str,
    tokenizer: FullTokenizer,
    options: FeatureOptions,
    check: Callable[[Mapping[str, Any]], None] | None = None,
) -> RecordsReport:
    """Writes the records of a set, unless an earlier run did so.

    The file is used again if examples, options and vocabulary are the same (see
    `reuse.make_once`, also for `check`).
    """
    # Of the examples and not of files, because a user's own code may read them
    # from anywhere.
    checksum = hashlib.sha256()
    for example in task.examples(set_name):
        checksum.update(f"{example!r}\n".encode())
    facts = {
        "format": _FORMAT,
        **dataclasses.asdict(options),
        "labels": list(options.labels),
        **reuse.tokenizer_facts(tokenizer),
        "examples_sha256": checksum.hexdigest(),
    }

    def write() -> tuple[RecordsReport, str]:
        return write_records(task.examples(set_name), path, tokenizer, options)

    return reuse.make_once(path, facts, RecordsReport, write, check)
