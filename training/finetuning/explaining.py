"""Which words of a text speak for a label: integrated gradients.

The path goes from the row with the vector of [PAD] in place of each wordpiece
of the text to the row itself. [CLS], [SEP], segments and positions stay.

Source: Sundararajan et al., 2017, https://arxiv.org/abs/1703.01365.

Axes: S wordpieces of a row, A points of the path, E width of the embeddings.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from absl import logging

from data.calibration import KINDS
from data.in_graph import tagging
from data.tasks import Task
from data.text.in_graph import packing
from data.text.in_graph.tokenization import InGraphTokenizer
from data.text.tokenization import FullTokenizer
from training.config.finetuning_options import ClassifierOptions

_STEPS = 20
_MOST_STEPS = 320
_AT_ONCE = 32  # points of the path
# How far the sum may be from the difference of the scores: a share, and the
# least distance, which is that of rounding.
_TOLERANCE, _LEAST = 0.02, 1e-3


class Explanation(NamedTuple):
    """What the words of a text add to the score of a label.

    Attributes:
      words: place of the text (1 = the second of a pair), start and end of the
        word in its characters, and what it adds to the score; [CLS] and [SEP]
        and what is cut off are left out.
      score: the log-odds of the label, log(p / (1 - p)), before calibration.
      baseline: the same of the text in which all wordpieces are [PAD].
    """

    words: list[tuple[int, int, int, float]]
    score: float
    baseline: float


class Explainer:
    """Explains the labels of a classifier.

    Args:
      model: a `TaskModel` for one label or several labels of a text.
      tokenizer: the model's.
      max_seq_length: most wordpieces of a row.
      cut: see `FeatureOptions`.
      stride: see `FeatureOptions`.

    Attributes:
      num_examples: how many examples of a page are explained.

    Raises:
      ValueError: the model is of another kind, or its encoder is frozen.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: FullTokenizer,
        max_seq_length: int,
        cut: str = "longest",
        stride: int = 0,
    ):
        check(model.kind, model.feature_based)
        self._model, vocab = model, tokenizer.vocab
        self._stride, self.num_examples = stride, 0
        self._tokenizer = InGraphTokenizer(
            vocab,
            tokenizer.basic_tokenizer.do_lower_case,
            tokenizer.never_split,
        )
        continuing = {i for t, i in vocab.items() if t.startswith("##")}
        size = max(vocab.values()) + 1
        self._continues = [i in continuing for i in range(size)]
        self._pad = vocab.get("[PAD]", 0)
        self._packing = {
            "max_seq_length": max_seq_length,
            "cut": cut,
            "cls_id": vocab["[CLS]"],
            "sep_id": vocab["[SEP]"],
        }

    def explain(self, texts: Sequence[str], label: int) -> Explanation:
        """Explains the label of this number, given one text or a pair.

        The words add up to the difference of `score` and `baseline`, with an
        error of 2 % at most: the number of steps is doubled until it is so.
        Raises ValueError for a text of several windows.
        """
        rows, words = self._row(texts)
        num_steps = _STEPS
        while True:
            values, score, baseline = self._integrate(rows, label, num_steps)
            error = abs(values.sum() - (score - baseline))
            if error <= max(_TOLERANCE * abs(score - baseline), _LEAST):
                break
            if num_steps >= _MOST_STEPS:
                logging.warning(
                    "%r: after %d steps the words add up to %.4f instead of "
                    "%.4f.",
                    *(texts[0][:60], num_steps),
                    *(values.sum(), score - baseline),
                )
                break
            num_steps *= 2
        found = [
            (*place, float(values[first:last].sum()))
            for *place, first, last in words
        ]
        return Explanation(found, score, baseline)

    def _row(self, texts: Sequence[str]) -> tuple[dict, list]:
        """A row, and of each word text, start, end, first and last piece."""
        encoded = [text.encode("utf-8", "replace") for text in texts]
        columns = self._tokenizer.tokenize_with_offsets(tf.constant(encoded))
        ids = [columns[0][i : i + 1] for i in range(len(texts))]
        rows = packing.pack(*ids, *[None] * (2 - len(ids)), **self._packing)
        room = self._packing["max_seq_length"] - 2
        if self._stride and columns[0].row_lengths()[0] > room:
            raise ValueError(
                f"{texts[0]!r:.60} is read in several windows, and only one "
                "row can be explained; give a shorter text."
            )
        kept = np.bincount(rows["segment_ids"][0], minlength=2)[:2]
        kept -= [2, 1]  # [CLS] and [SEP]
        words, found = tagging.words_of_pieces(*columns, self._continues), []
        firsts = 1, kept[0] + 2
        for number in range(len(texts)):
            place, end = firsts[number], firsts[number] + kept[number]
            lengths = words.pieces[number].row_lengths().numpy()
            spans = zip(words.starts[number], words.ends[number], strict=True)
            for length, (start, stop) in zip(lengths, spans, strict=True):
                last = min(place + length, end)
                if place < last:
                    found.append((number, int(start), int(stop), place, last))
                place += length
        return rows, found

    def _integrate(
        self, rows: dict[str, tf.Tensor], label: int, num_steps: int
    ) -> tuple[np.ndarray, float, float]:
        """What each wordpiece adds, [S]; the score of the row and baseline."""
        # Gauss and Legendre's points, and both ends, which have no weight.
        points, weights = np.polynomial.legendre.leggauss(num_steps)
        points = np.concatenate([[0.0, 1.0], (points + 1) / 2])
        weights = np.concatenate([[0.0, 0.0], weights / 2])
        total, scores = 0.0, []
        for start in range(0, len(points), _AT_ONCE):
            some = slice(start, start + _AT_ONCE)
            score, values = self._at(rows, label, points[some])
            total += np.tensordot(weights[some], values, 1)
            scores.append(score)
        baseline, score = np.concatenate(scores)[:2]
        return total, float(score), float(baseline)

    def _at(
        self, rows: dict[str, tf.Tensor], label: int, points: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Scores [A], and gradients times differences [A, S], at points."""
        ids = rows["input_ids"]
        stays = (ids == self._packing["cls_id"]) | (
            ids == self._packing["sep_id"]
        )
        base_ids = tf.where(stays, ids, self._pad)
        batch = {name: tf.repeat(x, len(points), 0) for name, x in rows.items()}
        embeddings = self._model.bert.embeddings
        table = tf.convert_to_tensor(embeddings.word_embeddings)
        base = tf.gather(table, base_ids)
        difference = tf.gather(table, ids) - base
        shares = tf.constant(points, tf.float32)[:, tf.newaxis, tf.newaxis]
        vectors = base + shares * difference
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(vectors)
            with embeddings.given(vectors):
                logits = tf.cast(self._model.logits(batch), tf.float32)
            score = self._log_odds(logits, label)
        gradients = tape.gradient(score, vectors)
        values = tf.reduce_sum(gradients * difference, axis=-1)
        return score.numpy(), values.numpy()

    def _log_odds(self, logits: tf.Tensor, label: int) -> tf.Tensor:
        """The log-odds of a label, [A]."""
        if self._model.kind == "multilabel":
            return logits[:, label]
        others = [i for i in range(self._model.num_labels) if i != label]
        rest = tf.gather(logits, others, axis=1)
        return logits[:, label] - tf.reduce_logsumexp(rest, axis=1)


def of_run(
    options: ClassifierOptions, task: Task, tokenizer: FullTokenizer, model: Any
) -> Explainer | None:
    """The explainer of a run's answers; None = nothing is to be explained."""
    if not options.explain_errors:
        return None
    length = options.finetuning.max_seq_length
    stride = options.long_text.stride_of(length)
    found = Explainer(model, tokenizer, length, task.cut, stride)
    found.num_examples = options.explain_errors
    return found


def check(kind: str, feature_based: str, num_explained: int = 1) -> None:
    """Refuses models whose answers cannot be explained."""
    if not num_explained:
        return
    if kind not in KINDS:
        raise ValueError(
            f"explanations (--explain_errors) are for one label or several "
            f"labels of a text, but this model is of the kind {kind}."
        )
    if feature_based:
        raise ValueError(
            "the encoder is frozen (--feature_based), so that no gradient "
            "reaches the words; train without it to get explanations."
        )
