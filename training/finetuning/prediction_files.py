"""The predictions of a task as files."""

import itertools
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from data.finetuning.error_page import Judged, write_page
from data.progress import Progress
from data.storage import files
from data.tables import text_of, tsv
from data.tasks import ChoiceExample, Task
from data.tasks.examples import Example
from training.finetuning.explaining import Explainer
from training.finetuning.predictions import ExampleScores
from training.finetuning.task_scorer import answers_of

_MOST_SHOWN = 5000  # examples of a page


def write_predictions(
    task: Task,
    set_name: str,
    scores: ExampleScores,
    output_dir: str,
    is_first: bool,
    with_texts: bool = False,
) -> None:
    """Writes test_results.tsv, predictions.tsv and the file for GLUE's server.

    `is_first` is False for a further test set; its files have its name.
    `with_texts` adds the texts to predictions.tsv, as in dev_predictions.tsv.
    """
    suffix = "" if is_first else f"_{set_name}"
    answers = answers_of(task, set_name, scores)
    path = os.path.join(output_dir, f"predictions{suffix}.tsv")
    if task.kind == "tagging":
        _write_table(path, _tagged_rows(task, set_name, answers))
        logging.info("Wrote %s", path)
        return
    if is_first:
        write_test_results(output_dir, scores.predictions)
    texts = _label_texts(task, answers)
    columns = _text_columns(task, set_name) if with_texts else []
    header = ["id", *columns, "prediction", *(task.labels or ["score"])]
    score = _cell if task.kind == "regression" else float
    rows = []
    for example, text, row in zip(
        task.examples(set_name), texts, scores.predictions, strict=True
    ):
        cells = []
        if with_texts:
            cells = _cells(_texts_of(example), _choices_of(example))
        rows.append([example.guid, *cells, _cell(text), *map(score, row)])
    _write_table(path, [header, *rows])
    if name := task.submission_files.get(set_name):
        place = os.path.join(output_dir, name)
        files.write_text(place, task.submission(set_name, texts))
        logging.info("Wrote %s", place)
    logging.info("Wrote %s", path)


def write_dev_predictions(
    task: Task,
    set_name: str,
    scores: ExampleScores,
    output_dir: str,
    *,
    is_first: bool,
    step: int,
    answers_above: Sequence[Mapping[str, Any]] = (),
    explainer: Explainer | None = None,
) -> None:
    """Writes dev_predictions.tsv and errors.html, the highest loss first.

    Nothing is written for tagging. `is_first` is False for a further dev set;
    its files have its name. For `answers_above` see `calibration.figures`. The
    `explainer` shades the words of the page's first examples.
    """
    if task.kind == "tagging":
        return
    suffix = "" if is_first else f"_{set_name}"
    judged = _judged(task, set_name, scores)
    path = os.path.join(output_dir, f"dev_predictions{suffix}.tsv")
    columns = _text_columns(task, set_name)
    header = ["id", *columns, "gold", "prediction", "loss", *task.labels]
    rows = [
        [
            *(one.id, *_cells(one.texts, one.choices)),
            *(one.gold, one.prediction, one.loss, *dict(one.scores).values()),
        ]
        for one in judged
    ]
    _write_table(path, [header, *rows])
    page = os.path.join(output_dir, f"errors{suffix}.html")
    shown = judged[:_MOST_SHOWN]
    title = f"{task.name}, {set_name}, step {step}"
    if len(shown) < len(judged):
        title += f", {len(shown)} of {len(judged)} examples"
    if explainer:
        some = shown[: explainer.num_examples]
        with Progress("shading", total=len(some), unit="examples") as progress:
            for number, one in enumerate(some):
                shown[number] = _shaded(one, explainer, task.labels)
                progress.advance()
    write_page(page, title, shown, answers_above)
    logging.info("Wrote %s and %s", path, page)


def _judged(task: Task, set_name: str, scores: ExampleScores) -> list[Judged]:
    """Every prediction with the right answer, the highest loss first."""
    columns = (
        task.examples(set_name),
        _label_texts(task, task.gold(set_name)),
        _label_texts(task, answers_of(task, set_name, scores)),
        scores.predictions,
        scores.loss,
    )
    found = [
        Judged(
            id=example.guid,
            texts=_texts_of(example),
            choices=_choices_of(example),
            gold=text_of(_cell(gold)),
            prediction=text_of(_cell(answer)),
            right=gold == answer if task.labels else None,
            loss=float(loss),
            scores=list(zip(task.labels, map(float, row), strict=False)),
        )
        for example, gold, answer, row, loss in zip(*columns, strict=True)
    ]
    return sorted(found, key=lambda one: -one.loss)


def _shaded(one: Judged, explainer: Explainer, labels: Sequence[str]) -> Judged:
    """A prediction with the words that speak for its label."""
    scores = dict(one.scores)
    label = one.prediction
    if label not in scores:  # several labels, or none
        label = max(scores, key=scores.get)
    try:
        found = explainer.explain(one.texts, [*labels].index(label))
    except ValueError as error:
        logging.warning("%s is not shaded: %s", one.id, error)
        return one
    shaded = []
    for number, text in enumerate(one.texts):
        parts, at = [], 0
        for place, start, end, value in found.words:
            if place == number:
                start = max(start, at)  # a character may be in two words
                parts += [(text[at:start], 0.0), (text[start:end], value)]
                at = end
        parts.append((text[at:], 0.0))
        shaded.append([part for part in parts if part[0]])
    return one._replace(shaded=shaded, explained=label)


def _text_columns(task: Task, set_name: str) -> list[str]:
    """Names of the columns of `_cells`."""
    first = next(task.examples(set_name))
    columns = ["text_a", "text_b"] if len(_texts_of(first)) > 1 else ["text"]
    return [*columns, *["choices"] * (task.kind == "choice")]


def _cells(texts: Sequence[str], choices: Sequence[str]) -> list[str]:
    """The texts of an example, and its choices as a JSON list."""
    told = [json.dumps(choices, ensure_ascii=False)] if choices else []
    return [*texts, *told]


def _cell(answer: str | float) -> str:
    """A label, or the shortest text that reads as the same number."""
    if isinstance(answer, str):
        return answer
    return np.format_float_positional(answer, trim="-")


def _texts_of(example: Example) -> list[str]:
    """The texts of an example, without the choices."""
    if isinstance(example, ChoiceExample):
        texts = example.contexts[:1]
    else:
        texts = [example.text_a, example.text_b]
    return [text for text in texts if text is not None]


def _choices_of(example: Example) -> list[str]:
    return [*getattr(example, "choices", ())]


def _write_table(path: str, rows: Sequence[Sequence[Any]]) -> None:
    """Writes rows; "?" is half a pair of surrogates, which JSON can hold."""
    text = tsv(rows).encode("utf-8", "replace")
    files.write_text(path, text.decode("utf-8"))


def write_test_results(output_dir: str, predictions: np.ndarray) -> None:
    """Writes `test_results.tsv` from predictions, float32 [N, L].

    It has a line for each example and a column for each label.

    Source: `run_classifier.main`.
    """
    path = os.path.join(output_dir, "test_results.tsv")
    lines = ["\t".join(map(str, row)) + "\n" for row in predictions]
    files.write_text(path, "".join(lines))


def _label_texts(task: Task, answers: Any) -> list[str | float]:
    """The label or the number of each example."""
    if task.kind == "regression":
        return list(answers)
    if task.kind == "multilabel":
        join = task.label_separator.join
        return [join(itertools.compress(task.labels, row)) for row in answers]
    return [task.labels[answer] for answer in answers]


def _tagged_rows(
    task: Task, set_name: str, answers: Sequence[Sequence[str]]
) -> list[tuple[str, ...]]:
    """A row for each word and its label, an empty one after each sentence."""
    rows = []
    for example, labels in zip(task.examples(set_name), answers, strict=True):
        rows += zip(example.words, labels, strict=True)
        rows.append(())
    return rows
