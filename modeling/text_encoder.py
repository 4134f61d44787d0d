"""Strings to the encoder's inputs, as a Keras layer."""

import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from data.text import vocabulary
from data.text.in_graph import packing
from data.text.in_graph.tokenization import InGraphTokenizer
from modeling.checkpoints.model_folder import find
from modeling.embeddings import require_pairs
from modeling.layers import registered
from modeling.loading import ENCODER, max_seq_length_of, tokenizer_of

_LONGEST = 512  # wordpieces of a row, if no model says
_SHORTEST = 5  # [CLS] a [SEP] b [SEP]


@registered
class TextEncoder(keras.layers.Layer):
    """Texts to `input_ids`, `input_mask` and `segment_ids`, int32 [B, S].

    S is the longest row of the batch. Longer texts are shortened as in
    fine-tuning. The vocabulary is saved with the layer.

    Args:
      vocab: path of a vocabulary or of a model's folder; or all wordpieces, in
        order or with their ids.
      max_seq_length: most wordpieces of a row; None = what the folder says.
      do_lower_case: None = what the folder says, or whether the vocabulary has
        no capitals and no accents.
      never_split: tokens that stay whole (`[MASK]`); None = the folder's.

    Raises:
      ValueError: the vocabulary lacks a token, or `max_seq_length` is below 5
        or more than the model has; or a call has pairs, but the model of the
        folder one segment type.
    """

    def __init__(
        self,
        vocab: str | os.PathLike | Sequence[str] | Mapping[str, int],
        *,
        max_seq_length: int | None = None,
        do_lower_case: bool | None = None,
        never_split: Collection[str] | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.supports_jit = False  # XLA has no strings
        path, known = "the vocabulary", {}
        if isinstance(vocab, Mapping):
            vocab = dict(vocab)
        elif not isinstance(vocab, (str, os.PathLike)):
            vocab = {token: i for i, token in enumerate(vocab) if token}
        elif tf.io.gfile.isdir(path := os.fspath(vocab)):
            vocab, known = _of_folder(path, max_seq_length)
        else:
            vocab = vocabulary.load_vocab(path)
        vocabulary.require_tokens(vocab, ("[UNK]", "[CLS]", "[SEP]"), path)
        if do_lower_case is None:
            cased = vocabulary.is_cased(vocab)
            do_lower_case = known.get("do_lower_case", not cased)
        if never_split is None:
            never_split = known.get("never_split", ())
        if max_seq_length is None:
            max_seq_length = known.get("max_seq_length", _LONGEST)
        self.max_seq_length = max_seq_length
        if self.max_seq_length < _SHORTEST:
            raise ValueError(
                f"max_seq_length={max_seq_length}; give {_SHORTEST} or more."
            )
        self._config, self.do_lower_case = known.get("config"), do_lower_case
        self.never_split = tuple(never_split)
        self._vocab = tuple(vocab.items())
        self._special = {"cls_id": vocab["[CLS]"], "sep_id": vocab["[SEP]"]}
        self._tokenizer = InGraphTokenizer(
            vocab, do_lower_case, self.never_split
        )

    def __call__(
        self, texts: Any, second: Any = None, **kwargs: Any
    ) -> dict[str, tf.Tensor]:
        """Converts string [B] and, for pairs, the second texts, string [B]."""
        given = [texts] if second is None else [texts, second]
        if second is not None and self._config:
            require_pairs(self._config, "the second texts")
        return super().__call__(*map(_as_strings, given), **kwargs)

    def call(self, texts, second=None):
        """Converts a batch; see `__call__`."""
        ids = self._tokenizer.tokenize(texts)
        ids_b = None if second is None else self._tokenizer.tokenize(second)
        length = self.max_seq_length
        return packing.pack(ids, ids_b, max_seq_length=length, **self._special)

    def compute_output_spec(self, texts, second=None):
        """The three outputs of a Keras model's symbolic texts."""
        for x in (texts, second):
            if x is not None and (len(x.shape) != 1 or x.dtype != "string"):
                raise ValueError(
                    f"texts are {x.dtype} {x.shape}; expected "
                    'keras.Input([], dtype="string").'
                )
        return {
            name: keras.KerasTensor((texts.shape[0], None), "int32", name=name)
            for name in ("input_ids", "input_mask", "segment_ids")
        }

    def get_config(self):
        """Returns the constructor's arguments, all wordpieces among them."""
        tokens = {i: token for token, i in self._vocab}
        pieces = [tokens.get(i, "") for i in range(1 + max(tokens))]
        return super().get_config() | {
            "vocab": pieces,
            "max_seq_length": self.max_seq_length,
            "do_lower_case": self.do_lower_case,
            "never_split": list(self.never_split),
        }


def _of_folder(path, max_seq_length):
    """Reads a folder: token -> id, and the arguments that it knows."""
    found = find(path)
    config = found.read_config()
    tokenizer = tokenizer_of(found, ENCODER, config)
    most = config.max_position_embeddings
    if (max_seq_length or 0) > most:
        raise ValueError(
            f"max_seq_length={max_seq_length}, but the model of {path} has "
            f"{most} positions; give at most {most}."
        )
    return tokenizer.vocab, {
        "config": config,
        "do_lower_case": tokenizer.basic_tokenizer.do_lower_case,
        "never_split": tokenizer.never_split,
        "max_seq_length": max_seq_length_of(found, config) or most,
    }


def _as_strings(texts):
    """Makes a text or a list of texts a tensor; refuses a list of tensors."""
    if isinstance(texts, (str, bytes)):
        return tf.constant(texts)
    if not isinstance(texts, (list, tuple)):
        return texts
    if not all(isinstance(text, (str, bytes)) for text in texts):
        raise ValueError(
            f"a {type(texts).__name__} of {type(texts[0]).__name__}; expected "
            "texts: give the second texts of pairs as the second argument."
        )
    return tf.constant(texts, tf.string)
