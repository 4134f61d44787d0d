"""Attributes a label's score to the words of a text: integrated gradients.

The path goes from the row with the vector of [PAD] in place of each wordpiece
of the text to the row itself. [CLS], [SEP], segments and positions stay.

Source: Sundararajan et al., 2017, https://arxiv.org/abs/1703.01365.

Axes: W windows of a text, S wordpieces of a window, A points of the path, E
width of the embeddings, L labels.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from absl import logging

from data.calibration import KINDS, require_labels
from data.in_graph import tagging, windows
from data.text.in_graph import packing
from data.text.in_graph.tokenization import InGraphTokenizer
from data.text.tokenization import whole_characters
from training.config.finetuning_options import ClassifierOptions
from training.start.description import TaskDescription

_STEPS = (20, 40, 80, 160, 320)
_ROWS_AT_ONCE = 32
# Rows of a page unless a number is given; with MiniLM 10 take about 5 s.
_NUM_SHADED = 10
# How far the sum may be from the difference of the scores: a share, and the
# least distance, which is that of rounding.
_TOLERANCE, _LEAST = 0.02, 1e-3
_POOLS = {"mean": tf.reduce_logsumexp, "max": tf.reduce_max}


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

    The model is a `TaskModel` for one label or several labels of a text;
    `num_examples` of a page are explained. Raises ValueError if it is of
    another kind, or its encoder is frozen.
    """

    def __init__(
        self,
        model: Any,
        vocab: Mapping[str, int],
        described: TaskDescription,
        num_examples: int = 0,
    ):
        check(model.kind, model.feature_based)
        self.num_examples = num_examples
        self._model, self._vocab, self._described = model, vocab, described
        self._tokenizer = InGraphTokenizer(
            vocab, described.do_lower_case, described.never_split
        )

    def explain(self, texts: Sequence[str], label: int) -> Explanation:
        """Explains the label of this number, given one text or a pair.

        The words add up to the difference of `score` and `baseline`, with an
        error of 2 % at most: the number of steps is doubled until it is so.
        Raises ValueError for a text of more windows than fit into memory.
        """
        whole = [whole_characters(text) for text in texts]
        columns = self._tokenizer.tokenize_with_offsets(tf.constant(whole))
        ids = columns[0]
        special = [self._vocab[token] for token in ("[CLS]", "[SEP]")]
        rows = self._lay_out(ids, *special)
        num_windows, most = len(rows["input_ids"]), _ROWS_AT_ONCE
        if num_windows > most:
            raise ValueError(
                f"{texts[0]!r:.60} is read in {num_windows} windows, and at "
                f"most {most} can be explained; give a shorter text."
            )
        # The number of each place's wordpiece from 1; 0 = [CLS], [SEP], padding
        numbers = ids.with_values(tf.range(1, tf.size(ids) + 1))
        pieces = self._lay_out(numbers, 0, 0)["input_ids"]
        path, at_once = self._path(rows, pieces, label), most // num_windows
        for num_steps in _STEPS:
            values, score, baseline = _integrate(path, num_steps, at_once)
            error = abs(values.sum() - (score - baseline))
            if error <= max(_TOLERANCE * abs(score - baseline), _LEAST):
                break
        else:
            logging.warning(
                "%r: after %d steps the words add up to %.4f instead of %.4f.",
                *(texts[0][:60], num_steps, values.sum(), score - baseline),
            )
        pieces, values = np.ravel(pieces), np.ravel(values)
        of_pieces = np.bincount(pieces, values, minlength=1 + tf.size(ids))
        words = self._words(columns, of_pieces, pieces)
        return Explanation(words, score, baseline)

    def _lay_out(
        self, ids: tf.RaggedTensor, cls_id: int, sep_id: int
    ) -> dict[str, tf.Tensor]:
        """One text or a pair as the model reads it, [W, S]."""
        said, how = self._described, {"cls_id": cls_id, "sep_id": sep_id}
        how["max_seq_length"] = said.max_seq_length
        if said.stride:
            return windows.text_windows(ids, said.stride, **how)[0]
        second = ids[1:] if ids.nrows() > 1 else None
        return packing.pack(ids[:1], second, cut=said.cut, **how)

    def _words(
        self, columns: tuple, of_pieces: np.ndarray, shown: np.ndarray
    ) -> list[tuple[int, int, int, float]]:
        """Joins wordpieces, numbered from 1, to `Explanation.words`."""
        pieces, starts, ends = tagging.words_of_pieces(*columns, self._vocab)
        first = 1 + pieces.values.row_starts().numpy()
        values = np.add.reduceat(of_pieces, first)
        found = pieces.value_rowids(), starts.values, ends.values, values
        is_shown = np.isin(first, shown)
        kept = (np.array(column)[is_shown].tolist() for column in found)
        return [*zip(*kept, strict=True)]

    def _path(
        self, rows: dict[str, tf.Tensor], pieces: tf.Tensor, label: int
    ) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]:
        """Returns a function of points of the path to a text.

        It returns scores [A], and gradients times differences [A, W, S].
        """
        ids, model = rows["input_ids"], self._model
        base_ids = tf.where(pieces > 0, self._vocab.get("[PAD]", 0), ids)
        embeddings = model.bert.embeddings
        table = tf.convert_to_tensor(embeddings.word_embeddings)
        base = tf.gather(table, base_ids)
        difference = tf.gather(table, ids) - base

        def at(points):
            shares = np.reshape(points.astype(np.float32), [-1, 1, 1, 1])
            vectors = base + shares * difference
            batch = {n: tf.tile(x, [len(points), 1]) for n, x in rows.items()}
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(vectors)
                flat = tf.reshape(vectors, [-1, *vectors.shape[2:]])
                with embeddings.given(flat):
                    logits = tf.cast(model.logits(batch), tf.float32)
                shape = [len(points), len(ids), model.num_labels]
                score = self._log_odds(tf.reshape(logits, shape), label)
            gradients = tape.gradient(score, vectors)
            values = tf.reduce_sum(gradients * difference, axis=-1)
            return score.numpy(), values.numpy()

        return at

    def _log_odds(self, logits: tf.Tensor, label: int) -> tf.Tensor:
        """The log-odds [A] of a label's pooled probability, [A, W, L]."""
        if self._model.kind == "multilabel":
            logits = logits[..., label : label + 1]
            if self._described.pooling == "max":
                logits = tf.reduce_max(logits, axis=1, keepdims=True)
            logits = tf.concat([tf.zeros_like(logits), logits], axis=-1)
            label = 1
        pool = _POOLS[self._described.pooling]
        pooled = pool(tf.nn.log_softmax(logits), axis=1)
        others = [i for i in range(pooled.shape[-1]) if i != label]
        rest = tf.gather(pooled, others, axis=1)
        return pooled[:, label] - tf.reduce_logsumexp(rest, axis=1)


def _integrate(
    path: Callable, num_steps: int, at_once: int
) -> tuple[np.ndarray, float, float]:
    """What each place adds, [W, S]; the score of the text and baseline."""
    # Gauss and Legendre's points, and both ends, which have no weight.
    points, weights = np.polynomial.legendre.leggauss(num_steps)
    points = np.concatenate([[0.0, 1.0], (points + 1) / 2])
    weights = np.concatenate([[0.0, 0.0], weights / 2])
    total, scores = 0.0, []
    for start in range(0, len(points), at_once):
        some = slice(start, start + at_once)
        score, values = path(points[some])
        total += np.tensordot(weights[some], values, 1)
        scores.append(score)
    baseline, score = np.concatenate(scores)[:2]
    return total, float(score), float(baseline)


def number_of(options: ClassifierOptions, model: Any) -> int:
    """How many examples a run's page explains."""
    if options.explain_errors is not None:
        return options.explain_errors
    can = model.kind in KINDS and not model.feature_based
    # In 16 bits the words add up to the scores too seldom, and a TPU compiles
    # each of the many shapes.
    is_exact = model.bert.compute_dtype == "float32"
    is_quick = not options.finetuning.device.on_tpu
    return _NUM_SHADED * (can and is_exact and is_quick)


def check(kind: str, feature_based: str) -> None:
    """Refuses models whose answers cannot be explained."""
    require_labels(kind, "an explanation (--explain_errors)")
    if feature_based:
        raise ValueError(
            "the encoder is frozen (--feature_based), so that no gradient "
            "reaches the words; train without it to get explanations."
        )
