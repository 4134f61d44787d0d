"""The predictions of a task as files."""

import itertools
import json
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from absl import logging

from data.finetuning.error_page import Judged, write_page
from data.progress import tracked
from data.storage import files
from data.tables import text_of, tsv
from data.tasks import ChoiceExample, Task
from data.tasks.examples import Example
from training.finetuning.explaining import Explainer
from training.finetuning.predictions import ExampleScores
from training.finetuning.task_scorer import TaskScorer, answers_of, suffix_of

_MOST_SHOWN = 5000  # examples of a page


def write_predictions(
    task: Task,
    set_name: str,
    scores: ExampleScores,
    output_dir: str,
    with_texts: bool = False,
) -> None:
    """Writes test_results.tsv, predictions.tsv and the file for GLUE's server.

    Tagging has a row for each word, and an empty one after each sentence. The
    files of a further test set have its name. `with_texts` adds the texts to
    predictions.tsv, as in dev_predictions.tsv.
    """
    suffix = suffix_of(task, set_name)
    answers = answers_of(task, set_name, scores)
    path = os.path.join(output_dir, f"predictions{suffix}.tsv")
    examples, rows = task.examples(set_name), []
    if task.kind == "tagging":
        for example, labels in zip(examples, answers, strict=True):
            rows += [*zip(example.words, labels, strict=True), ()]
        _write_table(path, rows)
        return
    if not suffix:
        # Source: `run_classifier.main`; a column for each label.
        results = os.path.join(output_dir, "test_results.tsv")
        _write_table(results, scores.predictions)
    texts = _label_texts(task, answers)
    score = _cell if task.kind == "regression" else float
    found = zip(examples, texts, scores.predictions, strict=True)
    for example, text, row in found:
        cells = _cells(*_parts_of(example)) if with_texts else {}
        if not rows:
            labels = task.labels or ["score"]
            rows.append(["id", *cells, "prediction", *labels])
        row = map(score, row)
        rows.append([example.guid, *cells.values(), _cell(text), *row])
    _write_table(path, rows)
    if name := task.submission_files.get(set_name):
        path = os.path.join(output_dir, name)
        files.write_text(path, task.submission(set_name, texts))
        logging.info("Wrote %s", path)


def write_dev_predictions(
    scorer: TaskScorer, set_name: str, explainer: Explainer | None = None
) -> None:
    """Writes dev_predictions.tsv and errors.html, the highest loss first.

    Nothing is written for tagging. The files of a further dev set have its
    name. The `explainer` shades the words of the page's first examples.
    """
    task, folder = scorer.task, scorer.output_dir
    if task.kind == "tagging":
        return
    suffix = suffix_of(task, set_name)
    judged = _judged(task, set_name, scorer.scores[set_name])
    columns = _cells(judged[0].texts, judged[0].choices)
    rows = [["id", *columns, "gold", "prediction", "loss", *task.labels]]
    for one in judged:
        cells = _cells(one.texts, one.choices).values()
        found = (score for _, score in one.scores)
        row = one.id, *cells, one.gold, one.prediction, one.loss, *found
        rows.append(row)
    path = os.path.join(folder, f"dev_predictions{suffix}.tsv")
    _write_table(path, rows)
    shown = judged[:_MOST_SHOWN]
    title = f"{task.name}, {set_name}, step {scorer.step}"
    if len(shown) < len(judged):
        title += f", {len(shown)} of {len(judged)} examples"
    if explainer:
        some = shown[: explainer.num_examples]
        for number, one in enumerate(tracked(some, "shading", "examples")):
            shown[number] = _shaded(one, explainer, task.labels)
    path = os.path.join(folder, f"errors{suffix}.html")
    write_page(path, title, shown, scorer.calibrated.get(set_name))
    logging.info("Wrote %s", path)


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
            example.guid,
            *_parts_of(example),
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
    """A prediction with the attributions of its words."""
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


def _parts_of(example: Example) -> tuple[list[str], list[str]]:
    """The texts of an example, and its choices."""
    if isinstance(example, ChoiceExample):
        return [example.contexts[0]], [*example.choices]
    return example.texts, []


def _cells(texts: Sequence[str], choices: Sequence[str]) -> dict[str, str]:
    """Column of a table -> text of an example; its choices are a JSON list."""
    names = ["text_a", "text_b"] if len(texts) > 1 else ["text"]
    cells = dict(zip(names, texts, strict=True))
    if choices:
        cells["choices"] = json.dumps(choices, ensure_ascii=False)
    return cells


def _cell(answer: str | float) -> str:
    """A label, or the shortest text that reads as the same number."""
    if isinstance(answer, str):
        return answer
    return np.format_float_positional(answer, trim="-")


def _write_table(path: str, rows: Sequence[Sequence[Any]]) -> None:
    """Writes rows; "?" is half a pair of surrogates, which JSON can hold."""
    files.write_text(path, tsv(rows).encode("utf-8", "replace").decode("utf-8"))
    logging.info("Wrote %s", path)


def _label_texts(task: Task, answers: Any) -> list[str | float]:
    """The label or the number of each example."""
    if task.kind == "regression":
        return list(answers)
    if task.kind == "multilabel":
        join = task.label_separator.join
        return [join(itertools.compress(task.labels, row)) for row in answers]
    return [task.labels[answer] for answer in answers]
