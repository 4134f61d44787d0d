"""Turns the outputs of a SQuAD model into answers, writes and scores them."""

import contextlib
import dataclasses
import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from absl import logging

from data.progress import Progress
from data.squad.answers import predict
from data.squad.articles import SquadArticles
from data.squad.examples import ExampleOptions, SquadExample, read_examples
from data.squad.options import AnswerOptions, WindowOptions
from data.squad.page import PageWriter
from data.squad.prediction_files import PredictionWriter, remove_unwritten
from data.squad.predictions import Prediction
from data.squad.scoring import QuestionScore, Scorer, find_best_thresholds
from data.storage import files
from data.text.tokenization import FullTokenizer
from training.loop import events

# The score of a padding token: it is never among the n best.
_LOWEST = -1e9
_THRESHOLD_FILE = "null_threshold.json"


@dataclasses.dataclass(frozen=True)
class QuestionCounts:
    """How many questions of a file can be answered and scored.

    Attributes:
      num_questions: all questions.
      num_scored: questions with known answers; in version 1.1, unanswerable
        questions are not scored.
      num_unanswerable: questions without an answer.
    """

    num_questions: int
    num_scored: int
    num_unanswerable: int


def count_questions(
    data: SquadArticles, version_2_with_negative: bool
) -> QuestionCounts:
    """Counts the questions of a file, before the work begins.

    Args:
      data: the articles with the questions.
      version_2_with_negative: questions may have no answer.

    Returns:
      Their numbers.

    Raises:
      ValueError: see `read_examples`.
    """
    counts = [0, 0, 0]
    for example in read_examples(data, ExampleOptions(is_training=False)):
        counts[0] += 1
        counts[1] += _is_scored(example, version_2_with_negative)
        counts[2] += example.answers == ()
    return QuestionCounts(*counts)


def _is_scored(example: SquadExample, version_2_with_negative: bool) -> bool:
    """Whether it is known how a question is to be answered."""
    return bool(example.answers) or (
        version_2_with_negative and example.answers is not None
    )


class QuestionScorer:
    """Turns outputs into answers to the questions of a file, and scores them.

    Args:
      data: the articles with the questions.
      counts: of the questions.
      tokenizer: as for the records.
      windows: as for the records.
      options: how answers are chosen; a threshold of None is the one saved in
        output_dir, or 0.
      find_null_threshold: find the best one on these questions, and save it.
      score_padding: see `SpanModel`.
      output_dir: folder of the results.

    Attributes:
      step: of the weights that metrics.json is about; None = not written.
    """

    def __init__(
        self,
        data: SquadArticles,
        counts: QuestionCounts,
        *,
        tokenizer: FullTokenizer,
        windows: WindowOptions,
        options: AnswerOptions,
        find_null_threshold: bool,
        score_padding: bool,
        output_dir: str,
    ):
        self._data = data
        self._counts = counts
        self._tokenizer = tokenizer
        self._windows = windows
        self._options = options
        self._find_threshold = find_null_threshold
        self._score_padding = score_padding
        self._output_dir = output_dir
        self.step: int | None = None

    @property
    def metric_names(self) -> list[str]:
        """Metrics of `evaluate`; [] if there are no answers to score."""
        exact = "exact_match"
        if self._options.version_2_with_negative:
            exact = "exact"
        return [exact, "f1"] if self._counts.num_scored else []

    def evaluate(
        self, outputs: Mapping[str, np.ndarray], step: int
    ) -> dict[str, float]:
        """Scores the answers; writes metrics.json and a TensorBoard point.

        Args:
          outputs: of all windows, see `SpanModel.score_examples`.
          step: of the model.

        Returns:
          The scores, see `Scorer.results`.
        """
        threshold = self._known_threshold(step)
        scorer = self._new_scorer()
        for prediction in self._predictions(outputs, threshold):
            self._score(scorer, prediction)
        self._write_metrics(scorer, threshold, step)
        return scorer.results()

    def write(
        self,
        outputs: Mapping[str, np.ndarray],
        step: int,
        write_html: bool = False,
    ) -> float:
        """Writes all files of a prediction, and metrics.json if it is scored.

        Other files of an earlier prediction are removed.

        Args:
          outputs: of all windows, see `SpanModel.score_examples`.
          step: of the model.
          write_html: write predictions.html, too.

        Returns:
          The null_score_diff_threshold of the answers.

        Raises:
          OSError: a file cannot be written.
        """
        found = {}
        if self._find_threshold:
            found = self._find(outputs, step)
            threshold = found["best_f1_thresh"]
        else:
            threshold = self._known_threshold(step)
        scorer = self._new_scorer()
        page = contextlib.nullcontext()
        if write_html:
            page = PageWriter(
                os.path.join(self._output_dir, "predictions.html"),
                f"{os.path.basename(self._data.name)}, step {step}",
            )
        with (
            PredictionWriter(
                self._output_dir, self._options.version_2_with_negative
            ) as writer,
            page,
        ):
            for prediction in self._predictions(outputs, threshold):
                writer.write(prediction)
                score = self._score(scorer, prediction)
                if write_html:
                    page.add(prediction, score)
            # Until now, the files of an earlier prediction are complete.
            remove_unwritten(
                self._output_dir,
                metrics=bool(self._counts.num_scored),
                odds=self._options.version_2_with_negative,
                page=write_html,
            )
        logging.info("Wrote predictions.json and more to %s", self._output_dir)
        if self._counts.num_scored:
            self._write_metrics(scorer, threshold, step, found)
        return threshold

    def _predictions(
        self, outputs: Mapping[str, np.ndarray], threshold: float
    ) -> Iterator[Prediction]:
        """Streams the answers in the order of the file."""
        scores = self._scores(outputs)
        predictions = predict(
            read_examples(self._data, ExampleOptions(is_training=False)),
            scores[..., 0],
            scores[..., 1],
            tokenizer=self._tokenizer,
            window_options=self._windows,
            options=dataclasses.replace(
                self._options, null_score_diff_threshold=threshold
            ),
        )
        with Progress(
            "answering", total=self._counts.num_questions, unit="questions"
        ) as progress:
            for prediction in predictions:
                yield prediction
                progress.advance()

    def _scores(self, outputs: Mapping[str, np.ndarray]) -> np.ndarray:
        """Start and end scores of whole windows: float32 [N, S, 2]."""
        given = outputs["predictions"]
        if self._score_padding:
            return given
        # Differs from the original: a place of padding is never among the n
        # best starts or ends, because a batch cut to its longest example has
        # no scores for it. No answer begins or ends there in either.
        size = (len(given), self._windows.max_seq_length, 2)
        scores = np.full(size, _LOWEST, np.float32)
        is_text = np.arange(given.shape[1]) < outputs["num_tokens"][:, None]
        np.copyto(scores[:, : given.shape[1]], given, where=is_text[..., None])
        return scores

    def _new_scorer(self) -> Scorer:
        return Scorer(self._options.version_2_with_negative)

    def _score(
        self, scorer: Scorer, prediction: Prediction
    ) -> QuestionScore | None:
        """Adds a prediction to the scores; None if it has none."""
        example = prediction.example
        if _is_scored(example, self._options.version_2_with_negative):
            return scorer.add(prediction.text, example.answers)
        return None

    def _find(
        self, outputs: Mapping[str, np.ndarray], step: int
    ) -> dict[str, float]:
        """Finds and saves the best threshold."""
        score_diffs, texts, answers = [], [], []
        at_zero = self._new_scorer()
        for prediction in self._predictions(outputs, 0.0):
            if self._score(at_zero, prediction):
                score_diffs.append(prediction.score_diff)
                texts.append(prediction.best_text)
                answers.append(prediction.example.answers)
        found = find_best_thresholds(score_diffs, texts, answers)
        threshold = found["best_f1_thresh"]
        saved = {
            "null_score_diff_threshold": threshold,
            "f1": found["best_f1"],
            "global_step": step,
            "file": self._data.name,
        }
        path = os.path.join(self._output_dir, _THRESHOLD_FILE)
        files.write_text(path, json.dumps(saved, indent=1) + "\n")
        results = at_zero.results()
        logging.info(
            "%s: the best null_score_diff_threshold is %.4f: F1 %.2f, with 0 "
            "%.2f.",
            path,
            threshold,
            found["best_f1"],
            results["f1"],
        )
        return found | {
            f"{name}_at_threshold_0": results[name] for name in ("exact", "f1")
        }

    def _known_threshold(self, step: int) -> float:
        """The threshold given, or saved, or 0."""
        if self._options.null_score_diff_threshold is not None:
            return self._options.null_score_diff_threshold
        if not self._options.version_2_with_negative:
            return 0.0
        return saved_threshold(self._output_dir, step)

    def _write_metrics(
        self,
        scorer: Scorer,
        threshold: float,
        step: int,
        found: Mapping[str, float] | None = None,
    ) -> None:
        """Writes metrics.json and a TensorBoard point; logs the figures."""
        results = scorer.results()
        events.write_scalars(
            os.path.join(self._output_dir, "eval"), results, step
        )
        if self._options.version_2_with_negative:
            results["null_score_diff_threshold"] = threshold
        results.update(found or {})
        facts = {"global_step": step, "file": self._data.name}
        path = os.path.join(self._output_dir, "metrics.json")
        files.write_text(path, json.dumps(facts | results, indent=1) + "\n")
        self.step = step
        logging.info(
            "***** Results at step %d *****\n  %s",
            step,
            "\n  ".join(f"{name} = {x:.6g}" for name, x in results.items()),
        )


def read_threshold(output_dir: str) -> dict[str, Any]:
    """The file that --find_null_threshold wrote to a folder.

    Args:
      output_dir: the folder.

    Returns:
      `null_score_diff_threshold`, and how it was found; {} if there is none.

    Raises:
      ValueError: the file has no threshold.
    """
    path = os.path.join(output_dir, _THRESHOLD_FILE)
    if not files.exists(path):
        return {}
    with files.open_read(path) as file:
        try:
            saved = json.loads(file.read())
            threshold = float(saved["null_score_diff_threshold"])
        except (ValueError, KeyError, TypeError):
            raise ValueError(
                f"{path} holds no null_score_diff_threshold; remove it, or "
                "pass --null_score_diff_threshold."
            ) from None
    return saved | {"null_score_diff_threshold": threshold}


def saved_threshold(output_dir: str, step: int) -> float:
    """The threshold that --find_null_threshold saved in a folder.

    Args:
      output_dir: the folder.
      step: of the model; a threshold of other weights is a warning.

    Returns:
      The null_score_diff_threshold; 0 if there is none.

    Raises:
      ValueError: see `read_threshold`.
    """
    saved = read_threshold(output_dir)
    if not saved:
        return 0.0
    path = os.path.join(output_dir, _THRESHOLD_FILE)
    threshold = saved["null_score_diff_threshold"]
    found_at = saved.get("global_step")
    text = (
        f"{path}: --null_score_diff_threshold={threshold:.4f}, found on "
        f"{saved.get('file')} at step {found_at}"
    )
    if found_at == step:
        logging.info("%s.", text)
    else:
        logging.warning(
            "%s, but this is step %d, of other weights; give "
            "--find_null_threshold or --null_score_diff_threshold.",
            text,
            step,
        )
    return threshold
