"""Converts the outputs of a SQuAD model to answers; writes and scores them."""

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from absl import logging

from data.progress import tracked
from data.settings import names_of
from data.squad import window_options
from data.squad.answers import predict
from data.squad.page import write_page
from data.squad.predictions import Prediction, write_files
from data.squad.scoring import QuestionScore, Scorer, find_best_thresholds
from data.squad.windows import Questions
from data.storage import manifests
from data.storage.json_files import find_json, write_json
from training.config.squad_options import SquadOptions
from training.loop import events
from training.start import description

# Flags by which a model answers, beside the threshold.
RULES = {
    *("do_lower_case", "never_split"),
    *names_of(window_options.WindowOptions),
    *names_of(window_options.AnswerOptions),
} - {"null_score_diff_threshold"}
# The score of padding, which is never among the n best.
_LOWEST = -1e9
Outputs = Mapping[str, np.ndarray]  # of all windows, by name


class QuestionScorer:
    """Converts outputs to answers to the questions of a file and scores them.

    A threshold of None in `options` is the one saved in output_dir, or 0; with
    `find_null_threshold` the best one for these questions is found and saved,
    unless `changed` names flags by which the model of output_dir answers
    otherwise.

    Attributes:
      questions: those of the records that the model reads.
      has_answers: whether the right answers of any questions are known.
      step: step of the weights in metrics.json; None = not written.
    """

    def __init__(
        self, questions: Questions, options: SquadOptions, changed: list[str]
    ):
        self.questions, self._changed = questions, changed
        self._options = options
        self._has_null = options.answers.version_2_with_negative
        self._output_dir = options.output_dir
        self.has_answers = any(
            example.is_scored(self._has_null) for example in questions.examples
        )
        self.step: int | None = None

    @property
    def metric_names(self) -> list[str]:
        """Names of the metrics of `evaluate`."""
        return ["exact" if self._has_null else "exact_match", "f1"]

    def evaluate(self, outputs: Outputs, step: int) -> dict[str, float]:
        """Scores the answers; writes metrics.json and a TensorBoard event.

        `outputs` are what `SpanModel.score_examples` returns for all windows.
        Returns the scores by name.
        """
        threshold = known_threshold(self._options, step)
        scorer = Scorer(self._has_null)
        for prediction in self._predictions(outputs):
            self._score(scorer, prediction, threshold)
        self._write_metrics(scorer, threshold, step)
        return scorer.results()

    def write(self, outputs: Outputs, step: int) -> float:
        """Writes the files of a prediction, and metrics.json if it is scored.

        `outputs` are what `SpanModel.score_examples` returns for all windows.
        Other files of an earlier prediction are removed. Returns the
        null_score_diff_threshold that was used.
        """
        found, predictions = {}, list(self._predictions(outputs))
        threshold = known_threshold(self._options, step)
        if self._options.find_null_threshold:
            found = self._find(predictions, step)
            threshold = found["best_f1_thresh"]
        scorer = Scorer(self._has_null)
        scored = [(x, self._score(scorer, x, threshold)) for x in predictions]
        others = ["metrics.json"] * self.has_answers
        others += ["predictions.html"] * self._options.write_html
        write_files(self._output_dir, predictions, self._has_null, others)
        if self._options.write_html:
            path = os.path.join(self._output_dir, "predictions.html")
            name = os.path.basename(self.questions.data.name)
            write_page(path, f"{name}, step {step}", scored)
        logging.info("Wrote predictions.json and more to %s", self._output_dir)
        if self.has_answers:
            self._write_metrics(scorer, threshold, step, **found)
        return threshold

    def _predictions(self, outputs: Outputs) -> Iterator[Prediction]:
        """Yields predictions in the order of the file, for a threshold of 0."""
        scores, asked = self._scores(outputs), self.questions.converted
        at_zero = self._options.answers.replace(null_score_diff_threshold=0.0)
        predictions = predict(asked, scores, at_zero)
        return tracked(predictions, "answering", "questions", len(asked))

    def _scores(self, outputs: Outputs) -> np.ndarray:
        """Returns start and end scores of whole windows: float32 [N, S, 2]."""
        given = outputs["predictions"]
        if self._options.score_padding:
            return given
        # Differs from the original: padding is never among the n best starts or
        # ends, because a trimmed batch has no scores for it. The original's
        # answers never begin or end there either.
        size = (len(given), self.questions.options.max_seq_length, 2)
        scores = np.full(size, _LOWEST, np.float32)
        is_text = np.arange(given.shape[1]) < outputs["num_tokens"][:, None]
        np.copyto(scores[:, : given.shape[1]], given, where=is_text[..., None])
        return scores

    def _score(
        self, scorer: Scorer, prediction: Prediction, threshold: float
    ) -> QuestionScore | None:
        """Chooses the answer, and adds it to the scores; None = unscored."""
        prediction.text = prediction.text_at(threshold)
        if prediction.example.is_scored(self._has_null):
            return scorer.add(prediction.text, prediction.example.answers)
        return None

    def _find(
        self, predictions: Iterable[Prediction], step: int
    ) -> dict[str, float]:
        """Finds and saves the threshold with the best F1."""
        at_zero = Scorer(self._has_null)
        scored = [x for x in predictions if self._score(at_zero, x, 0.0)]
        found, results = find_best_thresholds(scored), at_zero.results()
        threshold = found["best_f1_thresh"]
        path = os.path.join(self._output_dir, window_options.THRESHOLD_FILE)
        if self._changed:
            logging.warning(
                "%s does not keep this threshold, because --%s differs from "
                "the model's.",
                *(path, " and --".join(self._changed)),
            )
        else:
            saved = {"null_score_diff_threshold": threshold}
            saved |= {"f1": found["best_f1"], **_facts(self._options, step)}
            write_json(path, saved | {"file": self.questions.data.name})
        logging.info(
            "The best null_score_diff_threshold is %.4f: F1 %.2f, with 0 %.2f.",
            *(threshold, found["best_f1"], results["f1"]),
        )
        at_0 = {f"{n}_at_threshold_0": results[n] for n in ("exact", "f1")}
        return found | at_0

    def _write_metrics(
        self, scorer: Scorer, threshold: float, step: int, **found: float
    ) -> None:
        """Writes metrics.json and a TensorBoard event; logs the scores."""
        results, folder = scorer.results(), self._output_dir
        events.write_scalars(os.path.join(folder, "eval"), results, step)
        if self._has_null:
            results["null_score_diff_threshold"] = threshold
        results |= found
        facts = _facts(self._options, step) | {"file": self.questions.data.name}
        write_json(os.path.join(folder, "metrics.json"), facts | results)
        self.step = step
        lines = [f"\n  {name} = {x:.6g}" for name, x in results.items()]
        logging.info("***** Results at step %d *****%s", step, "".join(lines))


def read_threshold(output_dir: str) -> dict[str, Any]:
    """Reads `null_score_diff_threshold` and the facts about it from a folder.

    --find_null_threshold wrote them; {} = no file. Raises ValueError if the
    file is damaged or has no threshold.
    """
    path = os.path.join(output_dir, window_options.THRESHOLD_FILE)
    name = "null_score_diff_threshold"
    remedy = f"remove it, or pass --{name}"
    saved = find_json(path, (name,), remedy)
    try:
        return saved and saved | {name: float(saved[name])}
    except (ValueError, TypeError):
        raise ValueError(
            f"{path} is damaged: {name} is {saved[name]!r}, expected a number; "
            f"{remedy}."
        ) from None


def known_threshold(options: SquadOptions, step: int) -> float:
    """Returns the flag's threshold, else the saved one, else the run's, else 0.

    --find_null_threshold saves one in output_dir. A warning is logged if that
    one was found at another step than `step`, or with other flags. Until a
    command finds one, and without version_2_with_negative, it is 0.
    """
    given, output_dir = options.answers, options.output_dir
    if given.null_score_diff_threshold is not None:
        return given.null_score_diff_threshold
    # Not a saved one: scores before and after it are compared.
    if options.find_null_threshold or not given.version_2_with_negative:
        return 0.0
    if not (saved := read_threshold(output_dir)):
        found = description.find(output_dir)
        return found.null_score_diff_threshold if found else 0.0
    path = os.path.join(output_dir, window_options.THRESHOLD_FILE)
    best, file = saved["null_score_diff_threshold"], saved.get("file")
    text = f"{path}: --null_score_diff_threshold={best:.4f}, found on {file}"
    now = _facts(options, step)
    before = {name: saved.get(name, value) for name, value in now.items()}
    if changed := "; ".join(manifests.changes(before, now)):
        logging.warning(
            "%s with other weights or flags (%s); give --find_null_threshold "
            "or --null_score_diff_threshold.",
            *(text, changed),
        )
    else:
        logging.info("%s.", text)
    return best


def _facts(options: SquadOptions, step: int) -> dict[str, Any]:
    """What answers depend on, as JSON has it: the weights' step, and flags."""
    rules = {name: options.find(name) for name in sorted(RULES)}
    rules["never_split"] = [*options.never_split]
    return {"global_step": step} | rules
