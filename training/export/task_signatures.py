"""A fine-tuned model as functions of ids, records or plain texts.

Axes: B batch, S wordpieces, C choices, L labels, W words.
"""

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from data.finetuning.features import feature_specs
from data.in_graph import packing, tagging
from data.in_graph.tokenization import InGraphTokenizer
from data.text.vocabulary import load_vocab
from modeling import TaskModel, checkpoints
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
from training.model_files.description import TaskDescription

_TEXT = "The man went to the store."


class TaskServing:
    """A task's model with the functions that a client may call.

    | signature | takes |
    | --- | --- |
    | serving_default | `input_ids`, `input_mask` (1 = real), `segment_ids`, |
    | | int32 [B, S] each, of choice [B, C, S] |
    | serve_ids | `input_ids` alone; 0 is padding, [SEP] ends a segment |
    | serve_examples | `examples` string [B], records as the programs write |
    | serve_text | `text` string [B]; of pairs `text_a` and `text_b`; of |
    | | choice `context` [B] and `choices` [B, C] |
    | serve_words | of tagging alone: `words` string [B, W], "" = padding |

    | output | of | is |
    | --- | --- | --- |
    | probabilities | all but regression | float32 [B, L], of tagging |
    | | | [B, S or W, L] |
    | labels | likewise | string [B, L], whose they are |
    | label | likewise | string [B] ([B, S or W]), the best; of multilabel |
    | | | all above 0.5, with the task's separator between |
    | score | all but multilabel | float32 [B] ([B, S or W]), its |
    | | | probability; of regression the number |
    | choice | choice | int32 [B], place of the best, from 0 |
    | num_words | serve_text and serve_words of tagging | int32 [B] |
    | words, starts, ends | serve_text of tagging | [B, W]; characters of |
    | | | the text from `starts` to before `ends` |

    Args:
      model: with its weights.
      description: of its task.
      vocab_file: path of its vocabulary.

    Attributes:
      description: as given.
      weights: name -> variable.
      signatures: name -> `tf.function`, which takes and returns tensors by
        name.
    """

    def __init__(
        self, model: TaskModel, description: TaskDescription, vocab_file: str
    ):
        self._model = model
        self.description = description
        self.weights = checkpoints.variables_by_name(model.layers)
        self._tokenizer = InGraphTokenizer(
            vocab_file, description.do_lower_case
        )
        vocab = load_vocab(vocab_file)
        self._packing = {
            "cls_id": vocab["[CLS]"],
            "sep_id": vocab["[SEP]"],
            "max_seq_length": description.max_seq_length,
        }
        self._unknown_id = vocab["[UNK]"]
        continuing = {i for token, i in vocab.items() if token.startswith("##")}
        self._continues = [
            i in continuing for i in range(max(vocab.values()) + 1)
        ]
        self._specs = [
            spec
            for spec in feature_specs(
                description.kind, description.max_seq_length, model.num_labels
            )
            if spec.name in INPUTS
        ]
        shape = [None, model.num_labels, None]
        self._ids = tf.TensorSpec(
            shape if description.kind == "choice" else [None, None], tf.int32
        )
        # One for all signatures, which so share one model in the graph.
        self._answer = as_function([self._ids] * 3)(self._answer_rows)
        self.signatures = row_signatures(
            self._answer, self._ids, self._specs, vocab["[SEP]"]
        )
        self.signatures |= {
            "choice": self._signatures_of_choices,
            "tagging": self._signatures_of_words,
        }.get(description.kind, self._signatures_of_texts)()

    def samples(self) -> dict[str, dict[str, list]]:
        """One example for each signature, as a client gives it."""
        texts = {"text": [_TEXT]}
        if self.description.is_pair:
            texts = {"text_a": [_TEXT], "text_b": [_TEXT]}
        if self.description.kind == "choice":
            choices = [_TEXT] * self._model.num_labels
            texts = {"context": [_TEXT], "choices": [choices]}
        ids = self.random_ids(np.random.default_rng(0), 1)
        found = row_samples(ids, self._specs) | {"serve_text": texts}
        if self.description.kind == "tagging":
            found["serve_words"] = {"words": [_TEXT.split()]}
        return found

    def random_ids(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Random rows for `serve_ids`, as long as they may be.

        Args:
          rng: draws them.
          count: how many.
        """
        shape = [count, self.description.max_seq_length]
        if self.description.kind == "choice":
            shape.insert(1, self._model.num_labels)
        vocab_size = self._model.config.vocab_size
        return rng.integers(1, vocab_size, shape, np.int32)

    def _signatures_of_texts(self) -> dict[str, Callable]:
        @as_function([strings(None)])
        def serve_text(text):
            return self._answer(**self._pack(text))

        @as_function([strings(None), strings(None)])
        def serve_pair(text_a, text_b):
            return self._answer(**self._pack(text_a, text_b))

        is_pair = self.description.is_pair
        return {"serve_text": serve_pair if is_pair else serve_text}

    def _signatures_of_choices(self) -> dict[str, Callable]:
        num_choices = self._model.num_labels

        @as_function([strings(None), strings(None, num_choices)])
        def serve_text(context, choices):
            rows = self._pack(
                tf.repeat(context, num_choices), tf.reshape(choices, [-1])
            )
            shape = [tf.shape(context)[0], num_choices, -1]
            return self._answer(
                **{name: tf.reshape(x, shape) for name, x in rows.items()}
            )

        return {"serve_text": serve_text}

    def _signatures_of_words(self) -> dict[str, Callable]:
        words = tf.RaggedTensorSpec([None] * 3, tf.int32, ragged_rank=2)
        answer = as_function([words])(self._answer_words)

        @as_function([strings(None)])
        def serve_text(text):
            words = tagging.words_of_pieces(
                *self._tokenizer.tokenize_with_offsets(text),
                self._continues,
            )
            starts, ends = words.starts.to_tensor(), words.ends.to_tensor()
            return answer(words.pieces) | {
                "words": packing.substrings(text, starts, ends),
                "starts": starts,
                "ends": ends,
            }

        @as_function([strings(None, None)])
        def serve_words(words):
            words = tf.RaggedTensor.from_tensor(words, padding="")
            pieces = self._tokenizer.tokenize(words.values)
            return answer(words.with_values(pieces))

        return {"serve_text": serve_text, "serve_words": serve_words}

    def _pack(
        self, text_a: tf.Tensor, text_b: tf.Tensor | None = None
    ) -> dict[str, tf.Tensor]:
        """The rows of texts or pairs."""
        ids_b = None if text_b is None else self._tokenizer.tokenize(text_b)
        return packing.pack(
            self._tokenizer.tokenize(text_a),
            ids_b,
            cut=self.description.cut,
            **self._packing,
        )

    def _answer_rows(
        self,
        input_ids: tf.Tensor,
        input_mask: tf.Tensor,
        segment_ids: tf.Tensor,
    ) -> dict[str, tf.Tensor]:
        """Answers rows, [B, S] or [B, C, S]; what all lack is not computed."""
        rows = named_rows(input_ids, input_mask, segment_ids)
        rows = checked_rows(trim_rows(rows), self._model.config)
        size, length = (tf.shape(x)[-1] for x in (input_ids, rows["input_ids"]))
        if self.description.kind == "choice":
            shape = [-1, self._model.num_labels * length]
            rows = {name: tf.reshape(x, shape) for name, x in rows.items()}
        predictions = self._model.predict(rows)
        if self.description.kind == "tagging":
            predictions = (
                tf.pad(predictions, [[0, 0], [0, size - length], [0, 0]])
                * tf.cast(input_mask, tf.float32)[:, :, tf.newaxis]
            )
        return self._named(predictions)

    def _answer_words(self, pieces: tf.RaggedTensor) -> dict[str, tf.Tensor]:
        """Answers sentences, [B, (words), (wordpieces)]."""
        rows = tagging.tagged_rows(
            pieces, unknown_id=self._unknown_id, **self._packing
        )
        predictions = tf.boolean_mask(
            self._model.predict(rows.batch), rows.label_mask
        )
        sentences = pieces.with_values(predictions)
        return self._named(sentences.to_tensor()) | {
            "num_words": tf.cast(sentences.row_lengths(), tf.int32)
        }

    def _named(self, predictions: tf.Tensor) -> dict[str, tf.Tensor]:
        """The outputs of a model's predictions."""
        kind = self.description.kind
        if kind == "regression":
            return {"score": predictions[:, 0]}
        labels = tf.constant(self.description.labels)
        named = {
            "probabilities": predictions,
            # In every row: a server's JSON has rows alone.
            "labels": tf.tile(
                labels[tf.newaxis], [tf.shape(predictions)[0], 1]
            ),
        }
        if kind == "multilabel":
            chosen = tf.ragged.boolean_mask(named["labels"], predictions > 0.5)
            label = tf.strings.reduce_join(
                chosen, axis=1, separator=self.description.label_separator
            )
            return named | {"label": label}
        best = tf.argmax(predictions, axis=-1, output_type=tf.int32)
        named |= {
            "label": tf.gather(labels, best),
            "score": tf.reduce_max(predictions, axis=-1),
        }
        return named | ({"choice": best} if kind == "choice" else {})
