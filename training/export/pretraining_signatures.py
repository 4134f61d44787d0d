"""A pretrained model as functions of ids, records or plain texts.

Axes: B batch, S wordpieces, P [MASK]s of a row, V vocabulary.
"""

from typing import Any

import numpy as np
import tensorflow as tf

from modeling.objectives.pretraining import PretrainingModel
from training.export.functions import Tensors
from training.export.serving import Serving, Signatures

_MASK = "[MASK]"


class PretrainingServing(Serving):
    """A pretrained model, which fills in masked words.

    | signature | takes |
    | --- | --- |
    | serve_text | `text` string [B], in which `[MASK]` is one wordpiece |
    | serve_pair | `text_a` and `text_b`, likewise; only if the head of |
    | | next sentences has been trained |

    | output | is |
    | --- | --- |
    | positions | int32 [B, P], places of the [MASK]s in the row; -1 = none |
    | tokens | string [B, P, top_k], the likeliest wordpieces there |
    | probabilities | float32 [B, P, top_k], theirs |
    | is_next_probability | float32 [B], that the second text follows; if |
    | | there is a serve_pair |

    Raises:
      ValueError: the head of masked words has not been trained.
    """

    kinds = ("pretraining",)
    text = "The man went to the [MASK]."
    never_split = (_MASK,)

    def __init__(self, model: PretrainingModel, *arguments: Any):
        trained = model.trained_heads()
        if "masked LM" not in trained:
            raise ValueError(
                "the head that fills in masked words has not been trained "
                "(cls/predictions/output_bias is 0 or missing): the answers "
                "would be random. Train it, or take the model's vectors alone."
            )
        self._answers_pairs = "next sentence" in trained
        super().__init__(model, *arguments)
        # Embedding tables may have a few rows more than the vocabulary.
        self._tokens = [f"[id {i}]" for i in range(model.config.vocab_size)]
        for token, i in self._vocab.items():
            self._tokens[i] = token

    def in_words(self) -> str:
        """Returns what the model does, as Markdown."""
        said = self.description
        pairs = ", and the probability that a second text follows the first"
        return (
            f"BERT, pretrained: it gives each `[MASK]` the {said.top_k} "
            f"likeliest wordpieces{pairs if self._answers_pairs else ''}. "
            f"Texts of more than {said.max_seq_length} wordpieces are cut."
        )

    def random_ids(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """See `Serving.random_ids`; the second wordpiece is [MASK]."""
        ids = super().random_ids(rng, count)
        ids[:, 1] = self._vocab[_MASK]
        return ids

    def is_real(self, inputs: tf.Tensor, outputs: Tensors) -> np.ndarray:
        """See `Serving.is_real`: bool [B, P]."""
        return outputs["positions"].numpy() >= 0

    def _text_signatures(self) -> Signatures:
        found = super()._text_signatures()
        if self._answers_pairs:
            found["serve_pair"] = self._of_pair()
        return found

    def _outputs(self, rows: Tensors, input_mask: tf.Tensor) -> Tensors:
        ids = rows["input_ids"]
        is_mask = (ids == self._vocab[_MASK]) & (rows["input_mask"] > 0)
        places = tf.ones_like(ids) * tf.range(tf.shape(ids)[1])
        positions = tf.ragged.boolean_mask(places, is_mask).to_tensor(-1)
        asked = {"masked_lm_positions": tf.maximum(positions, 0)}
        logits, next_sentence = self._model.logits(rows | asked)
        top_k = self.description.top_k
        found, best = tf.math.top_k(tf.nn.softmax(logits), top_k)
        shape = [tf.shape(ids)[0], tf.shape(positions)[1], top_k]
        exists = positions[:, :, tf.newaxis] >= 0
        tokens = tf.gather(tf.constant(self._tokens), tf.reshape(best, shape))
        answers = {
            "positions": positions,
            "tokens": tf.where(exists, tokens, ""),
            "probabilities": tf.where(exists, tf.reshape(found, shape), 0.0),
        }
        if self._answers_pairs:
            answers["is_next_probability"] = tf.nn.softmax(next_sentence)[:, 0]
        return answers
