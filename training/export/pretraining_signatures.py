"""A pretrained model as functions of ids, records or plain texts.

Axes: B batch, S wordpieces, P [MASK]s of a row, V vocabulary.
"""

import os
from typing import Any

import numpy as np
import tensorflow as tf

from data.storage import files
from data.text import vocabulary
from data.text.tokenization import FullTokenizer
from modeling import objectives
from modeling.checkpoints import model_folder
from modeling.config import BertConfig
from modeling.objectives.pretraining import PretrainingModel
from training.export.functions import Tensors
from training.export.serving import Serving, Signatures
from training.loop.checkpointing import CheckpointManager
from training.start import description, setup

_MASK = "[MASK]"


def check(output_dir: str, objective: str) -> None:
    """Refuses a model that does not fill masks; its run may say what it is."""
    found = description.find(output_dir)
    description.require_kind(output_dir, found, ["pretraining"])
    made_from = CheckpointManager(output_dir).made_from()
    objective = made_from.get("objective", objective)
    if not objectives.get(objective).answers_queries:
        raise ValueError(
            "--do_export writes a model that fills in masked words, which "
            f"--objective={objective} does not predict; leave --do_export out."
        )


def describe(
    output_dir: str,
    *,
    bert_config_file: str,
    vocab_file: str,
    init_checkpoint: str | None = None,
    **said: Any,
) -> None:
    """Writes into a finished output_dir what an export needs to know.

    `said` are the other fields of its description. `init_checkpoint` has the
    weights if the folder has no checkpoint. Raises ValueError if there are no
    weights, or the vocabulary does not fit.
    """
    manager = CheckpointManager(output_dir)
    step = manager.latest_step()
    weights = init_checkpoint if step is None else manager.prefix(step)
    setup.require_weights(output_dir, weights)
    config = BertConfig.from_json_file(bert_config_file)
    setup.check_length(said["max_seq_length"], config, bert_config_file)
    if said["top_k"] > config.vocab_size:
        raise ValueError(
            f"--predict_top_k={said['top_k']}, but the model has "
            f"{config.vocab_size} wordpieces; give fewer."
        )
    path = os.path.join(output_dir, model_folder.CONFIG)
    if step is None or not files.exists(path):
        files.write_text(path, config.to_json_string())
    else:
        setup.check_same_model(output_dir, config)
    case, whole = said["do_lower_case"], said.get("never_split", ())
    vocab = FullTokenizer(vocab_file, case, whole).vocab
    tokens, size = ["[CLS]", "[SEP]", _MASK], config.vocab_size
    vocabulary.require_tokens(vocab, tokens, vocab_file)
    vocabulary.require_size(vocab, vocab_file, size, bert_config_file)
    described = description.PretrainingDescription(
        task_name="pretraining",
        kind="pretraining",
        weights=description.place_of_weights(weights, output_dir),
        **said,
    )
    described.write(output_dir, vocab_file)


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
        is_mask = rows["input_ids"] == self._vocab[_MASK]
        is_mask &= rows["input_mask"] > 0
        shape = tf.shape(is_mask)
        places = tf.ones_like(rows["input_ids"]) * tf.range(shape[1])
        positions = tf.ragged.boolean_mask(places, is_mask).to_tensor(-1)
        asked = {"masked_lm_positions": tf.maximum(positions, 0)}
        logits, next_sentence = self._model.logits(rows | asked)
        top_k = self.description.top_k
        found, ids = tf.math.top_k(tf.nn.softmax(logits), top_k)
        shape = [shape[0], tf.shape(positions)[1], top_k]
        exists = positions[:, :, tf.newaxis] >= 0
        tokens = tf.gather(tf.constant(self._tokens), tf.reshape(ids, shape))
        answers = {
            "positions": positions,
            "tokens": tf.where(exists, tokens, ""),
            "probabilities": tf.where(exists, tf.reshape(found, shape), 0.0),
        }
        if self._answers_pairs:
            answers["is_next_probability"] = tf.nn.softmax(next_sentence)[:, 0]
        return answers
