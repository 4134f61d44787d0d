"""A model of questions as functions of ids, records or plain texts.

Axes: B batch, S wordpieces, N windows, M spans.
"""

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from data.in_graph import answers, packing
from data.in_graph import windows as windows_in_graph
from data.in_graph.tokenization import InGraphTokenizer
from data.squad.candidates import LARGE_SCORE
from data.squad.windows import feature_specs
from data.text.vocabulary import load_vocab
from modeling import SpanModel, checkpoints
from training.export.signature_rows import (
    INPUTS,
    as_function,
    checked_rows,
    named_rows,
    row_samples,
    row_signatures,
    strings,
    trim_rows,
)
from training.model_files.description import SpanDescription

# Windows computed at once: a long text costs time, not memory.
_WINDOWS_AT_ONCE = 32
_QUESTION = "Where did the man go?"
_CONTEXT = "The man went to the store. He bought some milk there."


class SpanServing:
    """A model of questions with the functions that a client may call.

    | signature | takes | returns |
    | --- | --- | --- |
    | serving_default | see `TaskServing` | `start_logits`, `end_logits` |
    | serve_ids | | float32 [B, S] |
    | serve_examples | | |
    | serve_text | `question` and `context`, | `answer` string [B], the |
    | | string [B] each | characters `start` to before `end` of the |
    | | | context, int32 [B]; `probability` float32 [B] among the |
    | | | n best; with `version_2_with_negative` also |
    | | | `null_score_diff` float32 [B] |

    Where no answer is given, `answer` is "", and `start` and `end` are 0.
    Padding is never an answer, also of a model trained with --score_padding.

    Args:
      model: with its weights.
      description: of its task.
      vocab_file: path of its vocabulary.

    Attributes:
      description: as given.
      weights: name -> variable.
      signatures: see `TaskServing`.
    """

    def __init__(
        self, model: SpanModel, description: SpanDescription, vocab_file: str
    ):
        self._model = model
        self.description = description
        self.weights = checkpoints.variables_by_name(model.layers)
        self._tokenizer = InGraphTokenizer(
            vocab_file, description.do_lower_case
        )
        vocab = load_vocab(vocab_file)
        self._special = {"cls_id": vocab["[CLS]"], "sep_id": vocab["[SEP]"]}
        self._specs = [
            spec
            for spec in feature_specs(description.max_seq_length, False)
            if spec.name in INPUTS
        ]
        self._ids = tf.TensorSpec([None, None], tf.int32)
        # One for all signatures, which so share one model in the graph.
        self._logits = as_function([self._ids] * 3)(self._logits_of_rows)
        self.signatures = self._make_signatures()

    def samples(self) -> dict[str, dict[str, list]]:
        """One example for each signature, as a client gives it."""
        ids = self.random_ids(np.random.default_rng(0), 1)
        return row_samples(ids, self._specs) | {
            "serve_text": {"question": [_QUESTION], "context": [_CONTEXT]},
        }

    def random_ids(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """See `TaskServing.random_ids`."""
        shape = [count, self.description.max_seq_length]
        return rng.integers(1, self._model.config.vocab_size, shape, np.int32)

    def _make_signatures(self) -> dict[str, Callable]:
        @as_function([strings(None), strings(None)])
        def serve_text(question, context):
            return self._answer(question, context)

        def score(*rows):
            return self._named(self._logits(*rows))

        rows = row_signatures(
            score, self._ids, self._specs, self._special["sep_id"]
        )
        return rows | {"serve_text": serve_text}

    def _logits_of_rows(
        self,
        input_ids: tf.Tensor,
        input_mask: tf.Tensor,
        segment_ids: tf.Tensor,
    ) -> tf.Tensor:
        """Scores of rows, [B, S, 2]; 0 behind the longest of them."""
        rows = named_rows(input_ids, input_mask, segment_ids)
        size = tf.shape(input_ids)[1]
        rows = checked_rows(trim_rows(rows), self._model.config)
        logits = self._model.predict(rows)
        missing = size - tf.shape(logits)[1]
        return tf.pad(logits, [[0, 0], [0, missing], [0, 0]])

    def _named(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"start_logits": logits[:, :, 0], "end_logits": logits[:, :, 1]}

    def _answer(
        self, question: tf.Tensor, context: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Answers texts; see the class."""
        options = self.description.answers
        ids, starts, ends = self._tokenizer.tokenize_with_offsets(context)
        windows = windows_in_graph.make_windows(
            self._tokenizer.tokenize(question),
            ids,
            self.description.windows,
            **self._special,
        )
        spans = answers.best_spans(
            self._in_parts(windows.batch()), windows, options
        )
        exists = spans.score > float("-inf")
        first, last = (
            x + ids.row_starts()[:, tf.newaxis]
            for x in (spans.first, spans.last)
        )
        start, end = (
            tf.where(exists, _at(x.values, places, exists), 0)
            for x, places in ((starts, first), (ends, last))
        )
        texts = packing.substrings(context, start, end)
        probability, of_null = answers.probabilities(spans, texts, options)
        found = {
            "answer": texts[:, 0],
            "start": start[:, 0],
            "end": end[:, 0],
            "probability": probability,
        }
        if not options.version_2_with_negative:
            return found
        difference = tf.where(
            exists[:, 0], spans.null - spans.score[:, 0], LARGE_SCORE
        )
        is_null = difference > options.null_score_diff_threshold
        return {
            "answer": tf.where(is_null, "", found["answer"]),
            "start": tf.where(is_null, 0, found["start"]),
            "end": tf.where(is_null, 0, found["end"]),
            "probability": tf.where(is_null, of_null, probability),
            "null_score_diff": tf.cast(difference, tf.float32),
        }

    def _in_parts(self, rows: dict[str, tf.Tensor]) -> tf.Tensor:
        """Scores of any number of windows, [N, S, 2]."""
        count, size = tf.unstack(tf.shape(rows["input_ids"]))

        def score_some(first, logits):
            part = slice(first, first + _WINDOWS_AT_ONCE)
            some = self._logits(**{name: x[part] for name, x in rows.items()})
            return first + _WINDOWS_AT_ONCE, tf.concat([logits, some], axis=0)

        _, logits = tf.while_loop(
            lambda first, _: first < count,
            score_some,
            (0, tf.zeros([0, size, 2])),
            shape_invariants=(
                tf.TensorShape([]),
                tf.TensorShape([None, None, 2]),
            ),
            parallel_iterations=1,
        )
        return logits


def _at(values: tf.Tensor, places: tf.Tensor, exists: tf.Tensor) -> tf.Tensor:
    """Picks values; the first one where there is nothing to pick."""
    # A batch of empty texts has no value at all.
    values = tf.concat([values, [0]], axis=0)
    return tf.gather(values, tf.where(exists, places, 0))
