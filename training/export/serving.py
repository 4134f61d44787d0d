"""What all exported models share: weights, vocabulary, signatures of rows.

Axes: B batch, C choices, S wordpieces.
"""

import abc
import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf

from data.calibration import Calibration
from data.records import feature_spec, reading
from data.text.in_graph import packing, tokenization
from data.text.packing import INPUTS
from modeling import checkpoints
from training.config.run_options import ServingOptions
from training.export.functions import Tensors, as_function, checked, of_texts
from training.export.requests import Inputs
from training.start.description import Description
from training.start.setup import limits_of

DEFAULT = "serving_default"
# Name of the signature of ids, mask and segments if it is not the default.
ROWS = "serve_rows"
# Name -> a `tf.function`, and an input of one example.
Signatures = dict[str, tuple[Callable, Inputs]]


class Serving(abc.ABC):
    """A trained model with the functions that a client can call.

    Every model has these signatures. A subclass adds those that take texts. In
    ids, a [CLS] after the first position is padding, which TF Serving's
    batching adds; for a model with [CLS] in `never_split` it is a word.

    | signature | takes |
    | --- | --- |
    | serving_default | `input_ids`, `input_mask` (1 = real), `segment_ids`, |
    | | int32 [B, S] each, for choice [B, C, S] |
    | serve_ids | `input_ids` alone; 0 is padding, [SEP] ends a segment |
    | serve_examples | `examples` string [B], records as the programs write |

    `loaded_model.serving_of` chooses a subclass by its `kinds`.

    `vocab` is token -> id, `calibration` what is done with the probabilities.

    Attributes:
      kinds: values of `Description.kind` that the class serves.
      text: a text in the examples of calls.
      never_split: tokens, beside those in the description, that are one
        wordpiece wherever a text has them.
      compared: outputs that measure the error of a lower precision; the first
        one that the model has is taken.
      config: the model's sizes.
      form: a `VectorForm`; None = the model has other outputs.
      weights: name -> variable.
      signatures: name -> `tf.function` from and to tensors by name.
      exported: the same, with an input of one example for each.
    """

    kinds: ClassVar[tuple[str, ...]]
    text: ClassVar[str] = "The man went to the store."
    never_split: ClassVar[tuple[str, ...]] = ()
    compared: ClassVar[tuple[str, ...]] = ("probabilities",)

    def __init__(
        self,
        model: Any,
        description: Description,
        vocab: Mapping[str, int],
        calibration: Calibration | None = None,
    ):
        self.description = description
        self.calibration = calibration or Calibration()
        self.weights = checkpoints.variables_by_name(model.layers)
        self._model, self.config = model, model.config
        self.form = getattr(model, "form", None)
        self._vocab = vocab
        self._special = {"cls_id": vocab["[CLS]"], "sep_id": vocab["[SEP]"]}
        length = description.max_seq_length
        self._layout = self._special | {"max_seq_length": length}
        whole = dict.fromkeys([*self.never_split, *description.never_split])
        lower = description.do_lower_case
        self._tokenizer = tokenization.InGraphTokenizer(vocab, lower, whole)
        choices = [model.num_labels] if description.kind == "choice" else []
        self._shape = [*choices, length]
        # Labels are not parsed.
        self._specs = feature_spec.input_features(math.prod(self._shape))
        of_ids = tf.TensorSpec([None, *choices, None], tf.int32)
        # All signatures call this function, so that the SavedModel contains
        # the graph of the model once.
        of_rows = dict.fromkeys(INPUTS, of_ids)
        self._answer = as_function(self._answer_rows, of_rows)
        ids = self.random_ids(np.random.default_rng(0), 1)
        sample = _named(ids, np.ones_like(ids), np.zeros_like(ids))
        records = self._records(sample)
        ids_alone = as_function(self._serve_ids, of_ids)
        self.exported: Signatures = {
            DEFAULT: (as_function(self._serve_rows, *of_rows.values()), sample),
            "serve_ids": (ids_alone, {"input_ids": ids}),
            "serve_examples": of_texts(self._serve_examples, examples=records),
            **self._text_signatures(),
        }
        self.signatures = {name: f for name, (f, _) in self.exported.items()}

    @abc.abstractmethod
    def in_words(self) -> str:
        """Returns what the model does, as Markdown."""

    @abc.abstractmethod
    def _outputs(self, rows: Tensors, input_mask: tf.Tensor) -> Tensors:
        """Computes the outputs for checked `INPUTS` without shared padding.

        `input_mask` is the whole mask, int32 [B, S]; outputs per token are
        padded to its length.
        """

    def scores(self, rows: Tensors) -> tf.Tensor:
        """Computes the logits of `INPUTS`, or vectors."""
        return self._model.logits(rows)

    def is_real(self, inputs: tf.Tensor, outputs: Tensors) -> np.ndarray:
        """Returns a bool array: which outputs do not belong to padding.

        It has the first axes of the output that `compared` names. `inputs` are
        what `serve_examples` takes, or `random_ids`, which have no padding.
        """
        has_tokens = self.description.kind in ("tagging", "span")
        if not has_tokens or inputs.dtype != tf.string:
            return np.ones(len(inputs), bool)
        mask = reading.parse_batch(self._specs, inputs)["input_mask"]
        return mask.numpy() > 0

    def random_ids(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Draws int32 [count, S], for choice [count, C, S], for `serve_ids`."""
        size, shape = self.config.vocab_size, [count, *self._shape]
        ids = rng.integers(1, size, shape, np.int32)
        ids[ids == self._special["cls_id"]] = self._special["sep_id"]
        ids[..., 0] = self._special["cls_id"]
        return ids

    def _serve_rows(self, input_ids, input_mask, segment_ids) -> Tensors:
        """Answers rows of a client, which are checked."""
        rows = _named(input_ids, input_mask, segment_ids)
        shape = tf.shape(input_ids)
        # A shorter mask would cut the ids, and a mask of one row would be used
        # for all rows.
        checks = []
        for name in INPUTS[1:]:
            is_same = tf.reduce_all(tf.shape(rows[name]) == shape)
            must = f"{name} must have the shape of input_ids,"
            checks.append((is_same, must, shape))
        rows = checked(rows, checks)
        rows["input_mask"] *= self._is_row(input_ids)
        return self._answer(rows)

    def _serve_ids(self, input_ids: tf.Tensor) -> Tensors:
        """Answers ids, whose mask and segments follow from them."""
        ids = input_ids * self._is_row(input_ids)
        rows = packing.mask_and_segments(ids, self._special["sep_id"])
        return self._answer(_named(input_ids, *rows))

    def _serve_examples(self, examples: tf.Tensor) -> Tensors:
        """Answers serialized records [B]."""
        rows = reading.parse_batch(self._specs, examples)
        shape = [-1, *self._shape]
        return self._answer({n: tf.reshape(x, shape) for n, x in rows.items()})

    def _records(self, sample: Inputs) -> list[bytes]:
        """Makes the input of `serve_examples` from that of rows."""
        columns = {n: x.reshape(1, -1) for n, x in sample.items()}
        # An export like the original's returns it with an answer.
        columns["unique_ids"] = np.zeros([1, 1], np.int64)
        specs = [*self._specs, feature_spec.FeatureSpec("unique_ids", 1)]
        return feature_spec.encode_examples(specs, columns)

    def _is_row(self, input_ids: tf.Tensor) -> tf.Tensor:
        """Returns 1 for ids of a client, and 0 for those that a server adds."""
        if "[CLS]" in self.description.never_split:
            return tf.ones_like(input_ids)
        # Differs from the original: its export computes this padding, too,
        # because it knows only of padding that the client has added.
        return packing.before_later_cls(input_ids, self._special["cls_id"])

    def _text_signatures(self) -> Signatures:
        """Returns the signatures of texts; one of them is `serve_text`."""
        return {"serve_text": of_texts(self._serve_text, text=[self.text])}

    def _of_pair(self) -> tuple[Callable, Inputs]:
        """Returns the signature of pairs of texts."""
        text = [self.text]
        return of_texts(self._serve_pair, text_a=text, text_b=text)

    def _serve_text(self, text: tf.Tensor) -> Tensors:
        """Answers texts [B]."""
        return self._answer(self._pack(text))

    def _serve_pair(self, text_a: tf.Tensor, text_b: tf.Tensor) -> Tensors:
        """Answers pairs of texts [B]."""
        return self._answer(self._pack(text_a, text_b))

    def _pack(self, *texts: tf.Tensor) -> Tensors:
        """Tokenizes texts or pairs, and makes rows of them."""
        # At once: the tokenizer is half of the graph.
        pieces = self._tokenizer.tokenize(tf.concat(texts, 0))
        size = tf.size(texts[0])
        parts = [pieces[:size], pieces[size:]] if len(texts) > 1 else [pieces]
        cut = getattr(self.description, "cut", "longest")
        return packing.pack(*parts, cut=cut, **self._layout)

    def _answer_rows(self, rows: Tensors) -> Tensors:
        """Answers rows, without computing the padding that all share.

        The graph refuses rows and ids that the embedding tables do not have.
        """
        needed, most = trimmed(rows), self.config.max_position_embeddings
        long = f"input_ids has rows of over {most} wordpieces; shorten them."
        checks = [(tf.shape(needed["input_ids"])[-1] <= most, long)]
        for name, limit in limits_of(self.config).items():
            ids = needed[name]
            is_good = tf.reduce_all((ids >= 0) & (ids < limit))
            must = f"{name} must be 0 to {limit - 1}, as the model has them."
            checks.append((is_good, must))
        return self._outputs(checked(needed, checks), rows["input_mask"])


def _named(*rows: Any) -> dict[str, Any]:
    """Names ids, mask and segments."""
    return dict(zip(INPUTS, rows, strict=True))


def trimmed(rows: Tensors) -> Tensors:
    """Removes the padding that all rows share; one place remains."""
    size = tf.shape(rows["input_mask"])[-1]
    needed = tf.reduce_max(rows["input_mask"] * tf.range(1, size + 1))
    length = tf.minimum(tf.maximum(needed, 1), size)
    return {name: x[..., :length] for name, x in rows.items()}


def choose(serving: Serving, options: ServingOptions) -> Signatures:
    """Chooses the signatures of an export; by the default options all."""
    names = {"ids": [DEFAULT, "serve_ids"], "examples": ["serve_examples"]}
    rows = sum(names.values(), [])
    names["text"] = [name for name in serving.exported if name not in rows]
    wanted = sum((names[form] for form in options.signatures), [])
    chosen = {name: serving.exported[name] for name in wanted}
    if wanted[0] != DEFAULT and DEFAULT in chosen:
        chosen[ROWS] = chosen[DEFAULT]
    chosen[DEFAULT] = chosen[wanted[0]]
    if options.like_original:
        chosen[DEFAULT] = _like_original(serving, *chosen[DEFAULT])
    return chosen


def _like_original(
    serving: Serving, function: Callable, sample: Inputs
) -> tuple[Callable, Inputs]:
    """Gives a function the inputs and outputs of the original's model.

    Source: input_fn's features and model_fn_builder's predictions, in
      run_classifier.py and run_squad.py.
    """
    traced = function.get_concrete_function()
    specs = tf.nest.flatten(traced.structured_input_signature)
    is_span = serving.description.kind == "span"
    if takes_ids := len(specs) > 1:
        # Labels of any shape: one for a row, or one for each wordpiece.
        name, shape = ("unique_ids", [None]) if is_span else ("label_ids", None)
        specs.append(tf.TensorSpec(shape, tf.int32, name))
        sample = {**sample, name: np.zeros(1, np.int32)}

    def served(*inputs):  # the names are those of the specs
        outputs = function(*inputs[:3])
        if not is_span:
            name = next(name for name in serving.compared if name in outputs)
            return {name: outputs[name]}
        if takes_ids:
            return {"unique_ids": inputs[3]} | outputs
        one = {"unique_ids": tf.io.FixedLenFeature([], tf.int64)}
        return tf.io.parse_example(inputs[0], one) | outputs

    return as_function(served, *specs), sample
