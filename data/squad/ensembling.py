"""Averages the answer files of several runs."""

import itertools
import json
import math
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from absl import logging

from data.settings import Settings, optional, setting, switch
from data.squad.articles import SquadData
from data.squad.examples import Paragraph, SquadExample, read_examples
from data.squad.predictions import Answer, Prediction, write_files
from data.squad.scoring import Scorer, find_best_thresholds
from data.squad.window_options import THRESHOLD_FILE, check_null_threshold
from data.storage import files, outputs
from data.storage.json_files import read_json, write_json

_NBEST, _ODDS = "nbest_predictions.json", "null_odds.json"
_NUMBERS = ("probability", "start_logit", "end_logit")
_REMEDY = "give folders that run_squad.py wrote"
_NO_TEXT = Paragraph("", "", [], [])  # the averaged files have none


class EnsembleOptions(Settings):
    """Which runs are averaged, and how answers are chosen."""

    runs: list[str] = setting(help="Folders of the runs.")
    output_dir: str = setting(help="Folder of the results.")
    predict_file: str = setting("", "SQuAD's JSON to score the answers by.")
    version_2_with_negative: bool = switch(
        "Whether questions may have no answer, as in SQuAD 2.0."
    )
    null_score_diff_threshold: float | None = optional(
        "Answer nothing if the average score of no answer minus the best "
        "answer's is above this."
    )
    find_null_threshold: bool = switch(
        "Use the threshold that is best for F1 on --predict_file."
    )

    def _check(self) -> None:
        check_null_threshold(self, "version_2_with_negative", "predict_file")
        threshold = self.null_score_diff_threshold
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
    ensemble averages (section 4.2: 7 runs).

    Writes the files of a prediction by run_squad.py, and metrics.json if there
    is a --predict_file. Removes other files of an earlier prediction. Returns
    the scores; {} without --predict_file.

    Raises ValueError or FileNotFoundError if a folder is given twice, a file is
    missing or was not written by run_squad.py, the questions of files or runs
    differ, or the questions have no known answers.
    """
    _check_files(options)
    has_null, folder = options.version_2_with_negative, options.output_dir
    predictions = _averaged(options)
    scored = _scored(options, predictions) if options.predict_file else []
    threshold, found = options.null_score_diff_threshold, {}
    if options.find_null_threshold:
        found = find_best_thresholds(scored)
        threshold = found["best_f1_thresh"]
    elif threshold is None:
        threshold = 0.0
        own = filter(files.exists, _paths(options.runs, THRESHOLD_FILE))
        if has_null and (path := next(own, None)):
            logging.warning(
                "%s: the run has a threshold of its own, but the ensemble's is "
                "0; give --null_score_diff_threshold or --find_null_threshold.",
                path,
            )
    for prediction in predictions.values():
        prediction.text = prediction.text_at(threshold)
    others = ["metrics.json"] if scored else []
    write_files(folder, predictions.values(), has_null, others)
    logging.info("Wrote predictions.json and more to %s", folder)
    if not scored:
        return {}
    scorer = Scorer(has_null)
    for prediction in scored:
        scorer.add(prediction.text, prediction.example.answers)
    results = scorer.results() | found
    if has_null:
        results["null_score_diff_threshold"] = threshold
    facts = {"runs": options.runs, "file": options.predict_file}
    write_json(os.path.join(folder, "metrics.json"), facts | results)
    return results


def _averaged(options: EnsembleOptions) -> dict[str, Prediction]:
    """Returns id -> averaged answers, before a threshold is applied."""
    runs = _read_runs(options.runs, _NBEST)
    predictions = {}
    for qas_id in runs[0]:
        answers = _average([run[qas_id] for run in runs])
        example = SquadExample(qas_id, "", _NO_TEXT)
        predictions[qas_id] = Prediction(example, answers[0].text, answers)
    if options.version_2_with_negative:
        odds = _read_runs(options.runs, _ODDS, predictions)
        for qas_id, prediction in predictions.items():
            prediction.score_diff = sum(run[qas_id] for run in odds) / len(odds)
    return predictions


def _paths(folders: Iterable[str], *names: str) -> list[str]:
    return [os.path.join(*pair) for pair in itertools.product(folders, names)]


def _check_files(options: EnsembleOptions) -> None:
    """Refuses folders that do not fit the flags or would be overwritten."""
    places = {os.path.realpath(folder) for folder in options.runs}
    if len(places) < max(2, len(options.runs)):
        runs = ",".join(options.runs)
        raise ValueError(f"--runs={runs}: give two folders or more, each once.")
    folder = [options.output_dir]
    if any(map(files.exists, _paths(folder, "task.json", "checkpoint"))):
        raise ValueError(
            f"--output_dir={options.output_dir} holds a run to keep; give "
            "another folder."
        )
    all_odds = _paths(options.runs, _ODDS)
    odds = list(filter(files.exists, all_odds))
    missing = [path for path in all_odds if path not in odds]
    if missing and (odds or options.version_2_with_negative):
        raise FileNotFoundError(
            f"There is no {missing[0]}: predict again there with "
            "--version_2_with_negative, or leave "
            f"{'that run' if odds else 'the flag'} out."
        )
    if odds and not options.version_2_with_negative:
        raise ValueError(f"{odds[0]}: pass --version_2_with_negative.")
    inputs = {"runs": _paths(options.runs, _NBEST) + odds}
    inputs["predict_file"] = list(filter(None, [options.predict_file]))
    names = ("predictions.json", _NBEST, _ODDS, "metrics.json")
    outputs.check(inputs, {"output_dir": _paths(folder, *names)})


def _scored(
    options: EnsembleOptions, predictions: Mapping[str, Prediction]
) -> list[Prediction]:
    """Returns the predictions whose right answers are known, with these."""
    data = SquadData(options.predict_file).read()
    examples = list(read_examples(data))
    if others := predictions.keys() ^ {x.qas_id for x in examples}:
        raise ValueError(
            f"{data.name} and the runs differ in {len(others)} questions, such "
            f"as {min(others)!r}; give the file they answered."
        )
    has_null = options.version_2_with_negative
    examples = [x for x in examples if x.is_scored(has_null)]
    if not examples:
        raise ValueError(f"{data.name} has no answers to score by; omit it.")
    for example in examples:
        predictions[example.qas_id].example = example
    return [predictions[example.qas_id] for example in examples]


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _is_nbest(value: Any) -> bool:
    """Whether a value is the list of a question's answers."""
    return isinstance(value, list) and all(
        isinstance(answer, dict)
        and isinstance(answer.get("text"), str)
        and all(_is_number(answer.get(name)) for name in _NUMBERS)
        for answer in value or [None]
    )


# File -> what the value of a question is, and its name.
_FORMS = {
    _NBEST: (_is_nbest, "a list of answers"),
    _ODDS: (_is_number, "a number"),
}


def _read_runs(
    folders: Sequence[str], name: str, questions: Iterable[str] | None = None
) -> list[dict[str, Any]]:
    """Reads id -> value of each run; all must have the same questions."""
    contents, (is_valid, form) = [], _FORMS[name]
    for path in _paths(folders, name):
        files.require_file(path, "prediction")
        content = read_json(path, remedy=_REMEDY)
        if not content:
            raise ValueError(f"{path} has no question; {_REMEDY}.")
        for qas_id, value in content.items():
            if not is_valid(value):
                raise ValueError(
                    f"{path}, question {qas_id!r}: {json.dumps(value):.60} is "
                    f"not {form}; {_REMEDY}."
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


def _average(nbests: Sequence[Sequence[Mapping]]) -> list[Answer]:
    by_text = defaultdict(list)
    for answer in itertools.chain(*nbests):
        by_text[answer["text"]].append(answer)
    answers = []
    for text, found in by_text.items():
        probability, *logits = (sum(x[n] for x in found) for n in _NUMBERS)
        logits = [logit / len(found) for logit in logits]
        # A run that does not list the text gives it no probability.
        answers.append(Answer(text, probability / len(nbests), *logits))
    return sorted(answers, key=lambda one: one.probability, reverse=True)
