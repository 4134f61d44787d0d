"""Averages the answer files of several runs."""

import collections
import dataclasses
import itertools
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from absl import logging

from data.settings import Settings, setting
from data.squad.articles import SquadData
from data.squad.examples import (
    ExampleOptions,
    Paragraph,
    SquadExample,
    read_examples,
)
from data.squad.prediction_files import PredictionWriter, remove_unwritten
from data.squad.predictions import Answer, Prediction
from data.squad.scoring import Scorer, find_best_thresholds
from data.storage import files, outputs
from data.storage.json_files import read_json, write_json

_NBEST, _ODDS = "nbest_predictions.json", "null_odds.json"
_RESULTS = ("predictions.json", _NBEST, _ODDS, "metrics.json")
_NUMBERS = ("probability", "start_logit", "end_logit")
# The expected content for a question, for error messages.
_FORMS = {
    _NBEST: "a list of answers, each with text, probability, start_logit and "
    "end_logit",
    _ODDS: "a number",
}
_REMEDY = "give folders that run_squad.py wrote"


@dataclasses.dataclass(frozen=True, kw_only=True)
class EnsembleOptions(Settings):
    """Which runs are averaged, and how answers are chosen."""

    runs: list[str] = setting(help="Folders of the runs.")
    output_dir: str = setting(help="Folder of the results.")
    predict_file: str = setting(
        "", "SQuAD's JSON that the runs answered, to score by."
    )
    version_2_with_negative: bool = setting(
        False, "Whether questions may have no answer, as in SQuAD 2.0."
    )
    null_score_diff_threshold: float | None = setting(
        None,
        "Answer nothing if the average score of no answer minus the best "
        "answer's is above this.",
    )
    find_null_threshold: bool = setting(
        False, "Use the threshold that is best for F1 on --predict_file."
    )

    def _check(self) -> None:
        threshold = self.null_score_diff_threshold
        if self.find_null_threshold:
            if not (self.version_2_with_negative and self.predict_file):
                raise ValueError(
                    "--find_null_threshold needs --version_2_with_negative and "
                    "--predict_file."
                )
            if threshold is not None:
                raise ValueError(
                    "--find_null_threshold and --null_score_diff_threshold="
                    f"{threshold} exclude each other; give one of them."
                )
        if threshold is not None and not self.version_2_with_negative:
            raise ValueError(
                f"--null_score_diff_threshold={threshold} needs "
                "--version_2_with_negative."
            )


def average_runs(options: EnsembleOptions) -> dict[str, Any]:
    """Averages the answers of several runs to the same questions.

    The probability of a text is the mean over all runs; it is 0 in a run that
    does not list the text. The scores are means over the runs that list it.
    Ties keep the order of the runs. The paper does not describe how its
    ensemble averages.

    Writes the files of a prediction by run_squad.py, and metrics.json if there
    is a --predict_file. Removes other files of an earlier prediction.

    Returns:
      The scores; {} without --predict_file.

    Raises:
      FileNotFoundError: a file of a run is missing.
      ValueError: a folder is given twice, a file was not written by
        run_squad.py, the questions of files or runs differ, or the questions
        have no known answers.

    Source: the paper's section 4.2 (an ensemble of 7 runs).
    """
    _check_files(options)
    scored = _read_scored(options) if options.predict_file else {}
    predictions = _predict(options)
    if unknown := scored.keys() - predictions.keys():
        raise ValueError(
            f"{options.predict_file}: the runs have no answer to "
            f"{len(unknown)} questions, such as {min(unknown)!r}; give the "
            "file that they answered."
        )
    has_null, found = options.version_2_with_negative, {}
    if options.find_null_threshold:
        known = [predictions[qas_id] for qas_id in scored]
        found = find_best_thresholds(
            [prediction.score_diff for prediction in known],
            [prediction.best_text for prediction in known],
            list(scored.values()),
        )
    threshold = options.null_score_diff_threshold or 0.0
    threshold = found.get("best_f1_thresh", threshold)
    with PredictionWriter(options.output_dir, has_null) as writer:
        for prediction in predictions.values():
            prediction.text = prediction.text_at(threshold)
            writer.write(prediction)
        remove_unwritten(
            options.output_dir, metrics=bool(scored), odds=has_null, page=False
        )
    logging.info("Wrote predictions.json and more to %s", options.output_dir)
    if not scored:
        return {}
    if has_null:
        found["null_score_diff_threshold"] = threshold
    scorer = Scorer(has_null)
    for qas_id, answers in scored.items():
        scorer.add(predictions[qas_id].text, answers)
    results = scorer.results() | found
    facts = {"runs": options.runs, "file": options.predict_file}
    path = os.path.join(options.output_dir, "metrics.json")
    write_json(path, facts | results)
    return results


def _paths(folders: Iterable[str], names: Iterable[str]) -> list[str]:
    return [os.path.join(*x) for x in itertools.product(folders, names)]


def _check_files(options: EnsembleOptions) -> None:
    """Refuses folders that do not fit the flags or would be overwritten."""
    places = {os.path.realpath(folder) for folder in options.runs}
    if len(places) < max(2, len(options.runs)):
        raise ValueError(
            f"--runs={','.join(options.runs)}: give two folders or more, each "
            "once."
        )
    odds = list(filter(files.exists, _paths(options.runs, [_ODDS])))
    if odds and not options.version_2_with_negative:
        raise ValueError(
            f"{odds[0]}: the questions of this run may have no answer; pass "
            "--version_2_with_negative."
        )
    outputs.check(
        {
            "runs": _paths(options.runs, [_NBEST]) + odds,
            "predict_file": list(filter(None, [options.predict_file])),
        },
        {"output_dir": _paths([options.output_dir], _RESULTS)},
    )


def _read_scored(options: EnsembleOptions) -> dict[str, tuple[str, ...]]:
    """Returns id -> answers of the questions that can be scored."""
    data = SquadData(options.predict_file).read()
    scored = {
        example.qas_id: example.answers
        for example in read_examples(data, ExampleOptions(is_training=False))
        if example.answers
        or (options.version_2_with_negative and example.answers == ())
    }
    if not scored:
        raise ValueError(
            f"{data.name} has no answers to score by; leave it out."
        )
    return scored


def _predict(options: EnsembleOptions) -> dict[str, Prediction]:
    """Returns id -> averaged answers; the text is that for SQuAD 1.1."""
    nbests, odds = _read_runs(options.runs, _NBEST), []
    if options.version_2_with_negative:
        odds = _read_runs(options.runs, _ODDS, nbests[0])
    predictions = {}
    for qas_id in nbests[0]:
        answers = _average([run[qas_id] for run in nbests])
        predictions[qas_id] = Prediction(
            SquadExample(qas_id, "", Paragraph("", "", [], [])),
            answers[0].text,
            answers,
            sum(run[qas_id] for run in odds) / len(odds) if odds else None,
            next((answer.text for answer in answers if answer.text), ""),
        )
    return predictions


def _read_runs(
    folders: Sequence[str], name: str, questions: Iterable[str] | None = None
) -> list[dict[str, Any]]:
    """Reads id -> value of each run; all must have the same questions."""
    contents = []
    for path in _paths(folders, [name]):
        files.require_file(path, "prediction")
        content = read_json(path, remedy=_REMEDY)
        for qas_id, value in content.items():
            if not _is_valid(value, name):
                raise ValueError(
                    f"{path}, question {qas_id!r}: {json.dumps(value):.60} is "
                    f"not {_FORMS[name]}; {_REMEDY}."
                )
        questions = content if questions is None else questions
        if other := content.keys() ^ questions:
            raise ValueError(
                f"{path} and {_NBEST} of {folders[0]} differ in {len(other)} "
                f"questions, such as {min(other)!r}; give runs on the same "
                "file, or predict again with run_squad.py."
            )
        contents.append(content)
    return contents


def _is_valid(value: Any, name: str) -> bool:
    """Whether a file's value for a question has the form of `_FORMS`."""
    if name == _ODDS:
        return type(value) in (int, float) and math.isfinite(value)
    if not isinstance(value, list):
        return False
    return value != [] and all(
        isinstance(answer, dict)
        and isinstance(answer.get("text"), str)
        and all(_is_valid(answer.get(number), _ODDS) for number in _NUMBERS)
        for answer in value
    )


def _average(nbests: Sequence[Sequence[Mapping[str, Any]]]) -> list[Answer]:
    """Averages the answers to a question; see `average_runs`."""
    by_text = collections.defaultdict(list)
    for answer in itertools.chain(*nbests):
        by_text[answer["text"]].append(answer)
    answers = []
    for text, found in by_text.items():
        probability, *scores = (
            sum(answer[name] for answer in found) for name in _NUMBERS
        )
        scores = [score / len(found) for score in scores]
        answers.append(Answer(text, probability / len(nbests), *scores))
    return sorted(answers, key=lambda one: one.probability, reverse=True)
