"""Hugging Face's format of weights, and the table of both sides' names.

A dense layer's `weight` is [out, in] there; the `kernel` of the original and of
this project is [in, out]. `output_weights` have the same layout on both sides.
"""

import json
import os
import re
import tempfile
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import safetensors
import safetensors.numpy
import tensorflow as tf

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
CONFIG = "config.json"
PICKLED = ("pytorch_model.bin", "pytorch_model.bin.index.json")
_TYPES = ("F32", "F16", "BF16")
# Kind of `TaskModel` -> transformers' class of it, problem_type.
TASKS = {
    "classification": (
        "BertForSequenceClassification",
        "single_label_classification",
    ),
    "multilabel": (
        "BertForSequenceClassification",
        "multi_label_classification",
    ),
    "regression": ("BertForSequenceClassification", "regression"),
    "tagging": ("BertForTokenClassification", None),
    "choice": ("BertForMultipleChoice", None),
}

WORD_EMBEDDINGS = "bert/embeddings/word_embeddings"
# Second names of tensors: the output matrix of the masked LM is the word
# embedding table, its bias is `predictions.bias`.
_DECODER = "cls.predictions.decoder.weight"
_DECODER_BIAS = "cls.predictions.decoder.bias"
# Constants in files of old versions.
_BUFFERS = re.compile(r"(bert\.)?embeddings\.(position_ids|token_type_ids)")


class _Name(NamedTuple):
    """A row of the table; `#` is the number of a block."""

    theirs: str
    ours: str
    is_transposed: bool = False


def _dense(theirs: str, ours: str) -> tuple[_Name, _Name]:
    return (
        _Name(f"{theirs}.weight", f"{ours}/kernel", is_transposed=True),
        _Name(f"{theirs}.bias", f"{ours}/bias"),
    )


def _layer_norm(theirs: str, ours: str) -> tuple[_Name, _Name]:
    return (
        _Name(f"{theirs}.LayerNorm.weight", f"{ours}/LayerNorm/gamma"),
        _Name(f"{theirs}.LayerNorm.bias", f"{ours}/LayerNorm/beta"),
    )


def _output(theirs: str, ours: str) -> tuple[_Name, _Name]:
    return (
        _Name(f"{theirs}.weight", f"{ours}output_weights"),
        _Name(f"{theirs}.bias", f"{ours}output_bias"),
    )


_BLOCK = ("bert.encoder.layer.#", "bert/encoder/layer_#")
_TABLE = (
    *(
        _Name(f"bert.embeddings.{name}.weight", f"bert/embeddings/{name}")
        for name in (
            "word_embeddings",
            "token_type_embeddings",
            "position_embeddings",
        )
    ),
    *_layer_norm("bert.embeddings", "bert/embeddings"),
    *(
        row
        for name in ("query", "key", "value")
        for row in _dense(
            f"{_BLOCK[0]}.attention.self.{name}",
            f"{_BLOCK[1]}/attention/self/{name}",
        )
    ),
    *_dense(
        f"{_BLOCK[0]}.attention.output.dense",
        f"{_BLOCK[1]}/attention/output/dense",
    ),
    *_layer_norm(
        f"{_BLOCK[0]}.attention.output", f"{_BLOCK[1]}/attention/output"
    ),
    *_dense(
        f"{_BLOCK[0]}.intermediate.dense", f"{_BLOCK[1]}/intermediate/dense"
    ),
    *_dense(f"{_BLOCK[0]}.output.dense", f"{_BLOCK[1]}/output/dense"),
    *_layer_norm(f"{_BLOCK[0]}.output", f"{_BLOCK[1]}/output"),
    *_dense("bert.pooler.dense", "bert/pooler/dense"),
    # Pretraining.
    *_dense(
        "cls.predictions.transform.dense", "cls/predictions/transform/dense"
    ),
    *_layer_norm("cls.predictions.transform", "cls/predictions/transform"),
    _Name("cls.predictions.bias", "cls/predictions/output_bias"),
    *_output("cls.seq_relationship", "cls/seq_relationship/"),
    # Sequence and token classification, multiple choice.
    *_output("classifier", ""),
    # Question answering.
    *_output("qa_outputs", "cls/squad/"),
)
_BY_THEIRS = {row.theirs: row for row in _TABLE}
_BY_OURS = {row.ours: row for row in _TABLE}


def our_name(theirs: str) -> tuple[str, bool] | None:
    """Translates the name of a tensor.

    Args:
      theirs: the name in the file. `bert.` may be missing, as in the file of an
        encoder; `LayerNorm.gamma` and `.beta` are old names.

    Returns:
      The variable's name and whether its matrix must be transposed; None if
      there is no such variable.
    """
    theirs = re.sub(r"^(embeddings|encoder|pooler)\.", r"bert.\1.", theirs)
    theirs = re.sub(r"(?<=LayerNorm)\.gamma$", ".weight", theirs)
    theirs = re.sub(r"(?<=LayerNorm)\.beta$", ".bias", theirs)
    block = re.search(r"(?<=encoder\.layer\.)\d+", theirs)
    number = block[0] if block else ""
    row = _BY_THEIRS.get(
        theirs.replace(f"layer.{number}.", "layer.#.") if block else theirs
    )
    return row and (row.ours.replace("#", number), row.is_transposed)


def their_name(ours: str) -> tuple[str, bool] | None:
    """Translates the name of a variable; the reverse of `our_name`."""
    block = re.search(r"(?<=encoder/layer_)\d+", ours)
    number = block[0] if block else ""
    row = _BY_OURS.get(
        ours.replace(f"layer_{number}/", "layer_#/") if block else ours
    )
    return row and (row.theirs.replace("#", number), row.is_transposed)


def is_folder(path: str) -> bool:
    """Whether a path is a folder with a model of Hugging Face."""
    return any(
        tf.io.gfile.exists(os.path.join(path, name))
        for name in (WEIGHTS, INDEX)
    ) or (
        tf.io.gfile.exists(os.path.join(path, CONFIG))
        and any(tf.io.gfile.exists(os.path.join(path, n)) for n in PICKLED)
    )


def kind_of(config: Mapping[str, Any]) -> str | None:
    """Returns the kind of `TaskModel` that a `config.json` describes.

    Args:
      config: the JSON object.

    Returns:
      A key of `TASKS`; None = a model without an output layer of a task.
    """
    architecture = next(iter(config.get("architectures") or ()), None)
    problem = config.get("problem_type")
    kinds = [kind for kind, (name, _) in TASKS.items() if name == architecture]
    if len(kinds) > 1:
        # The rule of transformers for texts with no problem_type.
        if problem is None and len(config.get("id2label") or "01") == 1:
            return "regression"
        kinds = [k for k in kinds if TASKS[k][1] == problem] or kinds[:1]
    return next(iter(kinds), None)


class HuggingFaceCheckpoint:
    """Reads Hugging Face's folder with the methods of `tf1.Checkpoint`.

    Args:
      path: a folder with `model.safetensors`, or with its shards and
        `model.safetensors.index.json`.

    Attributes:
      prefix: the folder.
      shapes: our variable name -> its shape, tuple of ints. Tensors without
        such a variable keep their names.

    Raises:
      FileNotFoundError: there are no such files, or only pickled ones.
      ValueError: they are damaged or of another number format, or the masked
        LM does not share the word embedding table.
    """

    def __init__(self, path: str):
        self.prefix = path
        self._files = [self._open(name) for name in self._file_names()]
        # Our name -> (file, their name, is_transposed).
        self._places = {}
        self.shapes = {}
        for file in self._files:
            for theirs in file.keys():  # noqa: SIM118 (not a mapping)
                self._add(file, theirs)
        self._take_second_names()

    def read(self, name: str) -> np.ndarray:
        """Returns a variable's value, float32."""
        file, theirs, is_transposed = self._places[name]
        try:
            value = file.get_tensor(theirs).astype(np.float32)
        except safetensors.SafetensorError as error:
            raise self._damaged(WEIGHTS, error) from None
        return np.ascontiguousarray(value.T) if is_transposed else value

    def _file_names(self) -> list[str]:
        """Returns the names of the files with the tensors."""
        if tf.io.gfile.exists(os.path.join(self.prefix, WEIGHTS)):
            return [WEIGHTS]
        index = os.path.join(self.prefix, INDEX)
        if not tf.io.gfile.exists(index):
            raise FileNotFoundError(
                f"{self.prefix}: neither {WEIGHTS} nor {INDEX} is there. A "
                "pytorch_model.bin is not read: it is a pickle, which can run "
                "any code. Get the safetensors form of the model, or make it "
                "where PyTorch is: AutoModel.from_pretrained(DIR)"
                ".save_pretrained(NEW_DIR)."
            )
        try:
            with tf.io.gfile.GFile(index, "r") as file:
                names = json.loads(file.read())["weight_map"]
            return sorted(set(names.values()))
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            raise self._damaged(INDEX, error) from None

    def _open(self, name: str):
        """Opens one file; tensors are read on demand."""
        path = os.path.join(self.prefix, name)
        try:
            if "://" not in path:
                return safetensors.safe_open(path, framework="np")
            # safetensors maps a local file into memory. The mapping remains
            # after the file is deleted.
            with tempfile.NamedTemporaryFile() as local:
                tf.io.gfile.copy(path, local.name, overwrite=True)
                return safetensors.safe_open(local.name, framework="np")
        except (FileNotFoundError, tf.errors.NotFoundError):
            raise FileNotFoundError(
                f"{path}: no such file, but {INDEX} names it; copy all shards "
                "into the folder."
            ) from None
        except safetensors.SafetensorError as error:
            raise self._damaged(name, error) from None

    def _add(self, file, theirs: str) -> None:
        """Adds a tensor under our name, with its shape."""
        if _BUFFERS.fullmatch(theirs):
            return
        tensor = file.get_slice(theirs)
        if tensor.get_dtype() not in _TYPES:
            raise ValueError(
                f"{self.prefix}: {theirs} holds {tensor.get_dtype()} numbers; "
                f"expected one of {', '.join(_TYPES)}. Take the model as it "
                "was before it was quantized."
            )
        ours, is_transposed = our_name(theirs) or (theirs, False)
        shape = tuple(tensor.get_shape())
        self.shapes[ours] = shape[::-1] if is_transposed else shape
        self._places[ours] = file, theirs, is_transposed

    def _take_second_names(self) -> None:
        """Drops the decoder's tensors, which are second names of others."""
        bias = "cls/predictions/output_bias"
        if _DECODER_BIAS in self.shapes:
            shape = self.shapes.pop(_DECODER_BIAS)
            place = self._places.pop(_DECODER_BIAS)
            self.shapes.setdefault(bias, shape)
            self._places.setdefault(bias, place)
        if _DECODER not in self.shapes or WORD_EMBEDDINGS not in self.shapes:
            return
        # Compared, because few files have "tie_word_embeddings".
        if not np.array_equal(self.read(_DECODER), self.read(WORD_EMBEDDINGS)):
            raise ValueError(
                f"{self.prefix}: {_DECODER} is not the word embedding table; "
                "this masked LM has an output matrix of its own, ours has "
                "none. Take a model with tied embeddings."
            )
        del self.shapes[_DECODER], self._places[_DECODER]

    def _damaged(self, name: str, error: Exception) -> ValueError:
        return ValueError(
            f"{os.path.join(self.prefix, name)}: this file is damaged or "
            f"incomplete ({error}); download it again (a file of some hundred "
            "bytes is only a pointer: `git lfs pull` gets what it stands for)."
        )


def to_tensors(
    variables: Mapping[str, np.ndarray], *, is_encoder_alone: bool
) -> dict[str, np.ndarray]:
    """Translates variables into tensors.

    Args:
      variables: our name -> value.
      is_encoder_alone: omit the prefix `bert.`, as in the file of a BertModel.

    Returns:
      Their name -> value, float32 and contiguous.

    Raises:
      ValueError: a variable has no counterpart.
    """
    strange = [name for name in variables if their_name(name) is None]
    if strange:
        raise ValueError(
            f"{', '.join(strange[:3])}{' ...' if len(strange) > 3 else ''}: "
            "Hugging Face's BERT classes have no such weights; only the "
            "encoder and the heads of pretraining, of classification (of "
            "texts, words, choices) and of questions can be converted."
        )
    tensors = {}
    for ours, value in variables.items():
        theirs, is_transposed = their_name(ours)
        if is_encoder_alone:
            theirs = theirs.removeprefix("bert.")
        # safetensors writes the bytes in memory; those of a view would be the
        # untransposed matrix.
        tensors[theirs] = np.ascontiguousarray(
            value.T if is_transposed else value, np.float32
        )
    return tensors


def write(folder: str, tensors: Mapping[str, np.ndarray]) -> None:
    """Writes `model.safetensors` into an existing folder.

    Args:
      folder: its path.
      tensors: see `to_tensors`.

    Raises:
      OSError: the file cannot be written.
    """
    path = os.path.join(folder, WEIGHTS)
    # transformers refuses a file without this entry.
    content = safetensors.numpy.save(dict(tensors), metadata={"format": "pt"})
    try:
        with tf.io.gfile.GFile(path, "wb") as file:
            file.write(content)
    except tf.errors.OpError as error:
        raise OSError(
            f"cannot write {path}: {error.message}; check the folder's "
            "permissions and free space."
        ) from error
