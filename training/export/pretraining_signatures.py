"""A pretrained model as functions of ids, records or plain texts.

Axes: B batch, S wordpieces, P [MASK]s of a row, V vocabulary.
"""

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from data.in_graph import packing
from data.in_graph.tokenization import InGraphTokenizer
from data.records.feature_spec import pretraining_features
from data.text.vocabulary import load_vocab, require_tokens
from modeling import BertConfig, PretrainingModel, checkpoints
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
from training.loop.checkpointing import CheckpointManager
from training.model_files import setup
from training.model_files.description import (
    PretrainingDescription,
    place_of_weights,
)

_MASK = "[MASK]"
_TEXT = "The man went to the [MASK]."


def describe(
    output_dir: str,
    *,
    bert_config_file: str,
    vocab_file: str,
    do_lower_case: bool,
    max_seq_length: int,
    top_k: int,
    init_checkpoint: str | None = None,
) -> None:
    """Leaves in a finished output_dir what an export needs to know.

    Args:
      output_dir: of run_pretraining.py.
      bert_config_file: JSON file with the model's sizes.
      vocab_file: the model's vocabulary, which records have no need of.
      do_lower_case: True for an uncased one.
      max_seq_length: most wordpieces of a row.
      top_k: words for each [MASK].
      init_checkpoint: weights, if the folder has no checkpoint.

    Raises:
      ValueError: there are no weights, or the vocabulary does not fit.
    """
    manager = CheckpointManager(output_dir)
    steps = manager.steps()
    if not (steps or init_checkpoint):
        raise ValueError(
            f"{output_dir} holds no checkpoint; train first, or give "
            "--init_checkpoint."
        )
    config = BertConfig.from_json_file(bert_config_file)
    setup.keep_config(output_dir, config, manager)
    vocab = load_vocab(vocab_file)
    require_tokens(vocab, ["[CLS]", "[SEP]", _MASK], vocab_file)
    setup.check_vocabulary(vocab, vocab_file, config)
    PretrainingDescription(
        task_name="pretraining",
        kind="pretraining",
        max_seq_length=max_seq_length,
        do_lower_case=do_lower_case,
        model={},
        weights=place_of_weights(
            manager.prefix(steps[-1]) if steps else init_checkpoint, output_dir
        ),
        top_k=top_k,
    ).write(output_dir, vocab_file)


class PretrainingServing:
    """A pretrained model with the functions that a client may call.

    | signature | takes |
    | --- | --- |
    | serving_default, serve_ids, serve_examples | see `TaskServing` |
    | serve_text | `text` string [B], in which `[MASK]` is one wordpiece |
    | serve_pair | `text_a` and `text_b`, likewise |

    | output | is |
    | --- | --- |
    | positions | int32 [B, P], places of the [MASK]s in the row; -1 = none |
    | tokens | string [B, P, top_k], the likeliest wordpieces there |
    | probabilities | float32 [B, P, top_k], theirs |
    | is_next_probability | float32 [B], that the second text follows |

    Args:
      model: with its weights.
      description: of it.
      vocab_file: path of its vocabulary.

    Attributes:
      description: as given.
      weights: name -> variable.
      signatures: see `TaskServing`.
    """

    def __init__(
        self,
        model: PretrainingModel,
        description: PretrainingDescription,
        vocab_file: str,
    ):
        self._model = model
        self.description = description
        self.weights = checkpoints.variables_by_name(model.layers)
        self._tokenizer = InGraphTokenizer(
            vocab_file, description.do_lower_case, never_split=[_MASK]
        )
        vocab = load_vocab(vocab_file)
        self._mask_id = vocab[_MASK]
        self._packing = {
            "cls_id": vocab["[CLS]"],
            "sep_id": vocab["[SEP]"],
            "max_seq_length": description.max_seq_length,
        }
        # Tables of embeddings may have a few rows more.
        self._tokens = [f"[id {i}]" for i in range(model.config.vocab_size)]
        for token, i in vocab.items():
            self._tokens[i] = token
        self._ids = tf.TensorSpec([None, None], tf.int32)
        self._specs = [
            spec
            for spec in pretraining_features(description.max_seq_length, 1)
            if spec.name in INPUTS
        ]
        # One for all signatures, which so share one model in the graph.
        self._answer = as_function([self._ids] * 3)(self._answer_rows)
        self.signatures = self._make_signatures()

    def samples(self) -> dict[str, dict[str, list]]:
        """One example for each signature, as a client gives it."""
        ids = self.random_ids(np.random.default_rng(0), 1)
        return row_samples(ids, self._specs) | {
            "serve_text": {"text": [_TEXT]},
            "serve_pair": {"text_a": [_TEXT], "text_b": [_TEXT]},
        }

    def random_ids(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """See `TaskServing.random_ids`; the second of a row is [MASK]."""
        shape = [count, self.description.max_seq_length]
        ids = rng.integers(1, self._model.config.vocab_size, shape, np.int32)
        ids[:, 1] = self._mask_id
        return ids

    def _make_signatures(self) -> dict[str, Callable]:
        @as_function([strings(None)])
        def serve_text(text):
            ids = self._tokenizer.tokenize(text)
            rows = packing.pack(ids, None, **self._packing)
            return self._answer(**rows)

        @as_function([strings(None), strings(None)])
        def serve_pair(text_a, text_b):
            ids = [self._tokenizer.tokenize(text) for text in (text_a, text_b)]
            return self._answer(**packing.pack(*ids, **self._packing))

        rows = row_signatures(
            self._answer, self._ids, self._specs, self._packing["sep_id"]
        )
        return rows | {"serve_text": serve_text, "serve_pair": serve_pair}

    def _answer_rows(
        self,
        input_ids: tf.Tensor,
        input_mask: tf.Tensor,
        segment_ids: tf.Tensor,
    ) -> dict[str, tf.Tensor]:
        """Answers rows; what all of them lack is not computed."""
        rows = trim_rows(named_rows(input_ids, input_mask, segment_ids))
        rows = checked_rows(rows, self._model.config)
        is_mask = (rows["input_ids"] == self._mask_id) & (
            rows["input_mask"] > 0
        )
        shape = tf.shape(is_mask)
        places = tf.ones_like(rows["input_ids"]) * tf.range(shape[1])
        positions = tf.ragged.boolean_mask(places, is_mask).to_tensor(-1)
        logits, next_sentence = self._model.logits(
            rows | {"masked_lm_positions": tf.maximum(positions, 0)}
        )
        found, ids = tf.math.top_k(
            tf.nn.softmax(logits), self.description.top_k
        )
        shape = [shape[0], tf.shape(positions)[1], self.description.top_k]
        exists = positions[:, :, tf.newaxis] >= 0
        tokens = tf.gather(tf.constant(self._tokens), tf.reshape(ids, shape))
        return {
            "positions": positions,
            "tokens": tf.where(exists, tokens, ""),
            "probabilities": tf.where(exists, tf.reshape(found, shape), 0.0),
            "is_next_probability": tf.nn.softmax(next_sentence)[:, 0],
        }
