"""What all exported models share: weights, vocabulary, signatures of rows.

Axes: B batch, C choices, S wordpieces.
"""

import abc
import importlib
import math
import os
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf

from data.calibration import Calibration
from data.records import reading
from data.records.feature_spec import FeatureSpec, encode_examples
from data.text.in_graph import packing
from data.text.in_graph.tokenization import InGraphTokenizer
from data.text.vocabulary import load_vocab
from modeling import checkpoints
from modeling.config import BertConfig
from training.export.functions import (
    Tensors,
    as_function,
    checked,
    of_examples,
    strings,
)
from training.export.litert_model import INPUTS
from training.start.description import Description

DEFAULT = "serving_default"


class Serving(abc.ABC):
    """A trained model with the functions that a client can call.

    Every model has these signatures. A subclass adds those that take texts. In
    ids, [CLS] behind the first place is padding, because TF Serving's batching
    adds it; for a model with [CLS] in `never_split` it is a word.

    | signature | takes |
    | --- | --- |
    | serving_default | `input_ids`, `input_mask` (1 = real), `segment_ids`, |
    | | int32 [B, S] each, for choice [B, C, S] |
    | serve_ids | `input_ids` alone; 0 is padding, [SEP] ends a segment |
    | serve_examples | `examples` string [B], records as the programs write |

    A subclass is one file, `training/export/NAME_signatures.py`; `class_of`
    finds it by its `kinds`.

    Args:
      model: the model with its weights.
      description: the model's.
      vocab: path of its vocabulary, or token -> id.
      calibration: what is done with its probabilities.

    Attributes:
      kinds: values of `Description.kind` that the class serves.
      never_split: tokens, beside those in the description, that are one
        wordpiece wherever a text has them.
      compared: outputs that measure the error of a lower precision; the first
        one that the model has is taken.
      config: the model's sizes.
      form: a `VectorForm`; None = the model has other outputs.
      weights: name -> variable.
      signatures: name -> `tf.function`, which takes and returns tensors by
        name.
    """

    kinds: ClassVar[tuple[str, ...]]
    never_split: ClassVar[tuple[str, ...]] = ()
    compared: ClassVar[tuple[str, ...]] = ("probabilities",)

    def __init__(
        self,
        model: Any,
        description: Description,
        vocab: str | Mapping[str, int],
        calibration: Calibration | None = None,
    ):
        self.description = description
        self.calibration = calibration or Calibration()
        self.weights = checkpoints.variables_by_name(model.layers)
        self._model, self.config = model, model.config
        self.form = getattr(model, "form", None)
        self._vocab = load_vocab(vocab) if isinstance(vocab, str) else vocab
        cls_id, sep_id = self._vocab["[CLS]"], self._vocab["[SEP]"]
        self._special = {"cls_id": cls_id, "sep_id": sep_id}
        whole = dict.fromkeys([*self.never_split, *description.never_split])
        self._tokenizer = InGraphTokenizer(
            vocab, description.do_lower_case, never_split=list(whole)
        )
        self._specs = [s for s in self._record_specs() if s.name in INPUTS]
        is_choice = description.kind == "choice"
        self._choices = [model.num_labels] if is_choice else []
        self._ids = tf.TensorSpec([None, *self._choices, None], tf.int32)
        # All signatures call this function, so that the SavedModel contains
        # the graph of the model once.
        self._answer = as_function([self._ids] * 3)(self._answer_rows)
        self._texts = self._text_signatures()
        texts = {name: served for name, (served, _) in self._texts.items()}
        self.signatures = self._row_signatures() | texts

    @abc.abstractmethod
    def in_words(self) -> str:
        """Returns what the model does, as Markdown."""

    @abc.abstractmethod
    def _record_specs(self) -> Sequence[FeatureSpec]:
        """Returns the features of the records that the programs write."""

    @abc.abstractmethod
    def _text_signatures(self) -> dict[str, tuple[Callable, dict]]:
        """Returns the signatures of texts, and an input of one example each.

        One of them is `serve_text`.
        """

    @abc.abstractmethod
    def _outputs(self, rows: Tensors, input_mask: tf.Tensor) -> Tensors:
        """Computes the outputs for checked `INPUTS` without shared padding.

        `input_mask` is the whole mask, int32 [B, S]; outputs per token are
        padded to its length.
        """

    def scores(self, rows: Tensors) -> tf.Tensor:
        """Computes the logits of `INPUTS`, or vectors."""
        return self._model.logits(rows)

    def samples(self) -> dict[str, dict[str, Any]]:
        """Returns an input of one example for each signature."""
        ids = self.random_ids(np.random.default_rng(0), 1)
        rows = _named(ids, np.ones_like(ids), np.zeros_like(ids))
        specs = self._record_specs()
        columns = {x.name: np.zeros([1, x.length], x.dtype) for x in specs}
        columns |= {name: x.reshape(1, -1) for name, x in rows.items()}
        records = encode_examples(specs, columns)
        return {
            DEFAULT: rows,
            "serve_ids": {"input_ids": ids},
            "serve_examples": {"examples": records},
        } | {name: sample for name, (_, sample) in self._texts.items()}

    def is_real(self, inputs: tf.Tensor, outputs: Tensors) -> np.ndarray:
        """Returns a bool array: which outputs do not belong to padding.

        It has the first axes of the output that `compared` names. `inputs` are
        what `serve_ids` or `serve_examples` takes.
        """
        if self.description.kind not in ("tagging", "span"):
            return np.ones(len(inputs), bool)
        if inputs.dtype == tf.string:
            mask = reading.parse_batch(self._specs, inputs)["input_mask"]
        else:
            mask, _ = self._mask_and_segments(inputs)
        return mask.numpy() > 0

    def random_ids(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Draws int32 [count, S], for choice [count, C, S], for `serve_ids`."""
        shape = [count, *self._choices, self.description.max_seq_length]
        ids = rng.integers(1, self._model.config.vocab_size, shape, np.int32)
        ids[ids == self._special["cls_id"]] = self._special["sep_id"]
        ids[..., 0] = self._special["cls_id"]
        return ids

    def _row_signatures(self) -> dict[str, Callable]:
        length = self._specs[0].length // math.prod(self._choices)
        shape = [-1, *self._choices, length]

        @as_function([self._ids] * 3)
        def serving_default(input_ids, input_mask, segment_ids):
            rows = _named(input_ids, input_mask, segment_ids)
            shape = tf.shape(input_ids)
            # A shorter mask would cut the ids, and a mask of one row would be
            # used for all rows.
            checks = (
                (
                    tf.reduce_all(tf.shape(rows[name]) == shape),
                    *(f"{name} must have the shape of input_ids,", shape),
                )
                for name in INPUTS[1:]
            )
            rows = checked(rows, checks)
            rows["input_mask"] *= self._is_row(input_ids)
            return self._answer(**rows)

        @as_function([self._ids])
        def serve_ids(input_ids):
            return self._answer(input_ids, *self._mask_and_segments(input_ids))

        @as_function([strings(None)])
        def serve_examples(examples):
            rows = reading.parse_batch(self._specs, examples)
            return self._answer(
                *(tf.reshape(rows[name], shape) for name in INPUTS)
            )

        return {
            DEFAULT: serving_default,
            "serve_ids": serve_ids,
            "serve_examples": serve_examples,
        }

    def _mask_and_segments(
        self, input_ids: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the mask and the segments of the ids of `serve_ids`."""
        ids = input_ids * self._is_row(input_ids)
        return packing.mask_and_segments(ids, self._special["sep_id"])

    def _is_row(self, input_ids: tf.Tensor) -> tf.Tensor:
        """Returns 1 for ids of a client, and 0 for those that a server adds."""
        if "[CLS]" in self.description.never_split:
            return tf.ones_like(input_ids)
        # Differs from the original: its export computes this padding, too,
        # because it knows only of padding that the client has added.
        return packing.before_later_cls(input_ids, self._special["cls_id"])

    def _serve_text(self) -> Callable:

        @as_function([strings(None)])
        def serve_text(text):
            return self._answer(**self._pack(text))

        return serve_text

    def _serve_pair(self) -> Callable:

        def answer(text_a, text_b):
            return self._answer(**self._pack(text_a, text_b))

        @as_function([strings(None), strings(None)])
        def serve_pair(text_a, text_b):
            return of_examples(answer, text_a=text_a, text_b=text_b)

        return serve_pair

    def _pack(
        self, text_a: tf.Tensor, text_b: tf.Tensor | None = None
    ) -> Tensors:
        """Tokenizes texts or pairs, and makes rows of them."""
        return packing.pack(
            self._tokenizer.tokenize(text_a),
            None if text_b is None else self._tokenizer.tokenize(text_b),
            cut=getattr(self.description, "cut", "longest"),
            max_seq_length=self.description.max_seq_length,
            **self._special,
        )

    def _answer_rows(
        self,
        input_ids: tf.Tensor,
        input_mask: tf.Tensor,
        segment_ids: tf.Tensor,
    ) -> Tensors:
        """Answers rows, without computing the padding that all share."""
        rows = _trimmed(_named(input_ids, input_mask, segment_ids))
        rows = _checked(rows, self._model.config)
        return self._outputs(rows, input_mask)


def class_of(kind: str) -> type[Serving]:
    """Returns the subclass of `Serving` in this package that serves a kind."""
    for module in pkgutil.iter_modules([os.path.dirname(__file__)]):
        if module.name.endswith("_signatures"):
            importlib.import_module(f"{__package__}.{module.name}")
    (found,) = (cls for cls in Serving.__subclasses__() if kind in cls.kinds)
    return found


def _named(*rows: Any) -> dict[str, Any]:
    """Names ids, mask and segments."""
    return dict(zip(INPUTS, rows, strict=True))


def _trimmed(rows: Tensors) -> Tensors:
    """Removes the padding that all rows share; one place remains."""
    size = tf.shape(rows["input_mask"])[-1]
    needed = tf.reduce_max(rows["input_mask"] * tf.range(1, size + 1))
    length = tf.minimum(tf.maximum(needed, 1), size)
    return {name: x[..., :length] for name, x in rows.items()}


def _checked(rows: Tensors, config: BertConfig) -> Tensors:
    """The graph refuses rows and ids that the embedding tables do not have."""
    most = config.max_position_embeddings
    length = tf.shape(rows["input_ids"])[-1]
    long = f"input_ids has rows of over {most} wordpieces; shorten them."
    checks = [(length <= most, long)]
    for name, limit in (
        ("input_ids", config.vocab_size),
        ("segment_ids", config.type_vocab_size),
    ):
        is_good = tf.reduce_all((rows[name] >= 0) & (rows[name] < limit))
        message = f"{name} must be 0 to {limit - 1}, as the model has them."
        checks.append((is_good, message))
    return checked(rows, checks)
