"""Record files of windows, written once for the same questions.

Windows to predict are written in the order of the file, windows to train on in
a random order.
"""

import dataclasses
import itertools
import json
import os
import random
from collections.abc import Callable

import numpy as np
from absl import logging

from data.records import reuse, tfrecord
from data.records.feature_spec import encode_examples
from data.squad.examples import SquadReport
from data.squad.windows import Questions, Window, columns, feature_specs
from data.storage import files

# Lists the questions that training leaves out; it is beside the records.
NOT_FOUND_FILE = "answers_not_found.jsonl"

# unique_id of the first window, as in the original.
_FIRST_UNIQUE_ID = 1_000_000_000
# Part of the manifest: increase it when the same file gives other records.
_FORMAT = 2
# As in the original, training questions are shuffled once, with one seed.
_SHUFFLE_SEED = 12345
_BLOCK = 1024  # windows encoded at once
_NUM_LOGGED = 3


def make_records(
    questions: Questions, path: str, check: Callable[..., None] | None = None
) -> SquadReport:
    """Writes the windows of all questions, unless an earlier run did so.

    The file at `path` is used again if data, vocabulary and options are the
    same (see `reuse.make_once`, also for `check`); its features are
    `windows.feature_specs`.

    Training questions are shuffled, as by the original. Those whose answer is
    not found are listed beside the records, in `answers_not_found.jsonl`.

    Raises ValueError as `read_examples` does, or if there is no question.
    """
    facts = {
        "format": _FORMAT,
        "is_training": questions.is_training,
        "version_2_with_negative": questions.version_2_with_negative,
        **dataclasses.asdict(questions.options),
        **reuse.tokenizer_facts(questions.tokenizer),
        "data_sha256": questions.data.sha256,
    }
    report = reuse.make_once(
        path, facts, SquadReport, lambda: _write(questions, path), check
    )
    if questions.is_training:
        _list_not_found(report, os.path.dirname(path))
    return report


def _list_not_found(report: SquadReport, folder: str) -> None:
    """Lists the questions left out, or removes the list of an earlier run."""
    path = os.path.join(folder, NOT_FOUND_FILE)
    if not report.not_found:
        files.remove(path)
        return
    lines = [json.dumps(x, ensure_ascii=False) for x in report.not_found]
    text = "".join(f"{line}\n" for line in lines)
    # Half a surrogate pair is legal in JSON but not in UTF-8, so it is written
    # as an escape such as \ud800.
    text = text.encode("utf-8", "backslashreplace").decode()
    files.write_text(path, text)
    logging.warning(
        "%d questions are left out: no answer is at answer_start; see %s.",
        *(len(report.not_found), path),
    )


def _write(questions: Questions, path: str) -> tuple[SquadReport, str]:
    """Writes the records; returns the report and the file's SHA-256."""
    is_training = questions.is_training
    found = [windows for _, windows in questions.converted]
    report = questions.report
    if not found:
        what = "question to train on" if is_training else "question"
        remedy = "give a file that has some"
        if lost := len(report.not_found):
            remedy = f"{lost} answers are not at answer_start; correct the file"
        raise ValueError(f"{questions.data.name} has no {what}; {remedy}.")
    if is_training:
        random.Random(_SHUFFLE_SEED).shuffle(found)
    windows = list(itertools.chain.from_iterable(found))
    length = questions.options.max_seq_length
    specs = feature_specs(length, is_training)
    for window in windows[:_NUM_LOGGED]:
        _log(window, is_training)
    with tfrecord.open_whole(path) as writer:
        for start in range(0, len(windows), _BLOCK):
            features = columns(windows[start : start + _BLOCK], length)
            ids = start + np.arange(len(features["input_ids"]))
            features["unique_ids"] = (_FIRST_UNIQUE_ID + ids)[:, None]
            for record in encode_examples(specs, features):
                writer.write(record)
            report.num_tokens += int(features["input_mask"].sum())
    report.num_places += length * len(windows)
    return report, writer.sha256


def _log(window: Window, is_training: bool) -> None:
    """Logs a window, which shows a wrong file or casing."""
    tokenizer, answer = window.paragraph.tokenizer, ""
    tokens = tokenizer.convert_ids_to_tokens(window.tokens.tolist())
    if is_training:
        start, end, _ = window.labels
        answer = " ".join(tokens[start : end + 1])
        answer = f"\nanswer: {start} to {end}, {answer}"
    logging.info("*** Example ***\ntokens: %s%s", " ".join(tokens), answer)
