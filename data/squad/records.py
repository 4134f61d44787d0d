"""Record files of windows, written once for the same questions.

Several processes can convert the articles. Windows to predict are written in
the order of the file, windows to train on in a random order.

Axes: N windows, S sequence.
"""

import dataclasses
import functools
import itertools
import json
import os
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from absl import logging

from data.processes import Workers
from data.progress import Progress, tracked
from data.records import reuse, tfrecord
from data.records.feature_spec import encode_examples
from data.squad import examples
from data.squad.articles import Article, SquadArticles
from data.squad.window_options import WindowOptions
from data.squad.windows import (
    Question,
    Questions,
    Row,
    columns,
    convert_examples,
    feature_specs,
)
from data.storage import files
from data.text.tokenization import FullTokenizer

# Lists the questions that training leaves out; it is beside the records.
NOT_FOUND_FILE = "answers_not_found.jsonl"

# unique_id of the first window, as in the original.
_FIRST_UNIQUE_ID = 1_000_000_000
# Part of the manifest: increase it when the same file gives other records.
_FORMAT = 2
# As in the original, training questions are shuffled once, with one seed.
_SHUFFLE_SEED = 12345
# One process converts this much while others start, which takes 2 s.
_SMALL_BYTES = 8 << 20
_ARTICLES_AT_ONCE = 16  # for each process
_BLOCK = 512  # questions encoded at once
_NUM_LOGGED = 3

# Each process makes a tokenizer once.
_tokenizer = functools.lru_cache(maxsize=2)(FullTokenizer)


class Recipe(NamedTuple):
    """What records are made with, sent to each process.

    Attributes:
      vocab_file: see `FullTokenizer`, also for the next and `never_split`; it
        has [CLS], [SEP] and [UNK].
      do_lower_case: whether the vocabulary is uncased.
      example_options: what to read.
      window_options: lengths.
      never_split: see `FullTokenizer`.
    """

    vocab_file: str
    do_lower_case: bool
    example_options: examples.ExampleOptions
    window_options: WindowOptions
    never_split: tuple[str, ...] = ()

    @property
    def is_training(self) -> bool:
        """Whether the records are to train on."""
        return self.example_options.is_training

    @property
    def tokenizer(self) -> FullTokenizer:
        """Splits texts into wordpieces."""
        return _tokenizer(self.vocab_file, self.do_lower_case, self.never_split)


def make_records(
    data: SquadArticles,
    path: str,
    recipe: Recipe,
    *,
    num_processes: int = 1,
    check: Callable[[Mapping[str, Any]], None] | None = None,
    questions: Questions | None = None,
) -> examples.SquadReport:
    """Writes the windows of all questions, unless an earlier run did so.

    The file is used again if data, vocabulary and options are the same (see
    `reuse.make_once`).

    Training questions are shuffled, as by the original. Those whose answer is
    not found are listed beside the records, in `answers_not_found.jsonl`.

    Args:
      data: the articles.
      path: the TFRecord file; see `windows.feature_specs`.
      recipe: what the records are made with.
      num_processes: processes for a large file, which write the same bytes.
      check: see `reuse.make_once`.
      questions: those of `data`, whose windows are needed later, too; None =
        they are converted here.

    Raises:
      ValueError: see `read_examples`; or there is no question at all.
      OSError: the file cannot be written.
    """
    facts = {
        "format": _FORMAT,
        **recipe.example_options._asdict(),
        **dataclasses.asdict(recipe.window_options),
        **reuse.tokenizer_facts(recipe.tokenizer),
        "data_sha256": data.sha256,
    }
    report = reuse.make_once(
        path,
        facts,
        examples.SquadReport,
        lambda: _write(data, path, recipe, num_processes, questions),
        check,
    )
    if recipe.is_training:
        _list_not_found(report, os.path.dirname(path))
    return report


def _list_not_found(report: examples.SquadReport, folder: str) -> None:
    """Lists the questions left out, or removes the list of an earlier run."""
    path = os.path.join(folder, NOT_FOUND_FILE)
    if not report.not_found:
        if files.exists(path):
            files.remove(path)
        return
    lines = [json.dumps(x, ensure_ascii=False) for x in report.not_found]
    text = "".join(f"{line}\n" for line in lines)
    with files.open_whole(path) as file:
        # Half a surrogate pair is legal in JSON but not in UTF-8, so it is
        # written as an escape such as \ud800.
        file.write(text.encode("utf-8", "backslashreplace"))
    logging.warning(
        "%d questions are left out because the text at answer_start does "
        "not contain the answer; they are listed in %s.",
        *(report.num_not_found, path),
    )


def _write(
    data: SquadArticles,
    path: str,
    recipe: Recipe,
    num_processes: int,
    given: Questions | None,
) -> tuple[examples.SquadReport, str]:
    """Writes the records; returns the report and the file's SHA-256."""
    report = examples.SquadReport()
    if given or data.num_bytes < _SMALL_BYTES:
        num_processes = 1
    with (
        Workers(num_processes) as workers,
        files.whole_files([path]) as (temporary,),
        tfrecord.RecordWriter(temporary) as writer,
    ):
        if given:
            questions = map(_question_rows, given.converted)
            report.add(given.report)
        else:
            questions = _convert_all(
                data, recipe, workers, num_processes, report
            )
        if recipe.is_training:
            questions = list(questions)
            random.Random(_SHUFFLE_SEED).shuffle(questions)
            questions = tracked(questions, f"writing {path}", "questions")
        while block := list(itertools.islice(questions, _BLOCK)):
            rows = list(itertools.chain.from_iterable(block))
            if rows:
                _write_rows(rows, recipe, writer, report)
        if not report.num_examples:
            purpose = " to train on" if recipe.is_training else ""
            lost = report.num_not_found
            raise ValueError(
                f"{data.name} has no question{purpose}"
                f"{lost and f'; {lost} answers are not at answer_start' or ''}."
            )
    return report, writer.sha256


def _question_rows(question: Question) -> list[Row]:
    return [window.row() for window in question[1]]


def _convert_all(
    data: SquadArticles,
    recipe: Recipe,
    workers: Workers,
    num_processes: int,
    report: examples.SquadReport,
) -> Iterator[list[Row]]:
    """Yields the rows of each question, in the order of the file."""
    seen: set[str] = set()
    convert = functools.partial(_convert, recipe)
    step = _ARTICLES_AT_ONCE * num_processes
    with Progress(f"reading {data.name}", unit="questions") as progress:
        for start in range(0, len(data.articles), step):
            some = data.articles[start : start + step]
            for questions, of_article in workers.map(convert, some):
                for qas_id, rows in questions:
                    examples.note_id(qas_id, seen, data.name)
                    yield rows
                report.add(of_article)
                progress.advance(len(questions))


def _convert(
    recipe: Recipe, article: Article
) -> tuple[list[tuple[str, list[Row]]], examples.SquadReport]:
    """Converts an article to ids and rows of its questions, in any process."""
    report = examples.SquadReport()
    converted = convert_examples(
        examples.article_examples(article, recipe.example_options, report),
        recipe.tokenizer,
        recipe.window_options,
        recipe.is_training,
        report,
    )
    questions = [(x[0].qas_id, _question_rows(x)) for x in converted]
    return questions, report


def _write_rows(
    rows: list[Row],
    recipe: Recipe,
    writer: tfrecord.RecordWriter,
    report: examples.SquadReport,
) -> None:
    """Numbers and writes rows; logs the first ones."""
    if not writer.num_records:
        for row in rows[:_NUM_LOGGED]:
            _log(row, recipe)
    length = recipe.window_options.max_seq_length
    features = columns(rows, length)
    first = _FIRST_UNIQUE_ID + writer.num_records
    features["unique_ids"] = np.arange(first, first + len(rows))[:, None]
    specs = feature_specs(length, recipe.is_training)
    for record in encode_examples(specs, features):
        writer.write(record)
    report.num_tokens += sum(len(row.tokens) for row in rows)
    report.num_places += length * len(rows)


def _log(row: Row, recipe: Recipe) -> None:
    """Logs a window, which shows a wrong file or casing."""
    tokens = recipe.tokenizer.convert_ids_to_tokens(row.tokens.tolist())
    answer = ""
    if recipe.is_training:
        start, end, _ = row.labels
        answer = " ".join(tokens[start : end + 1])
        answer = f"\nanswer: {start} to {end}, {answer}"
    logging.info("*** Example ***\ntokens: %s%s", " ".join(tokens), answer)
