"""Hugging Face's format of weights."""

import os
import re
import tempfile
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
import tensorflow as tf

from data.storage import files
from data.storage.json_files import find_json, read_json
from modeling.checkpoints import huggingface_names
from modeling.checkpoints.tf1 import Weights

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
CONFIG = "config.json"
_PICKLED = ("pytorch_model.bin", "pytorch_model.bin.index.json")
_TYPES = ("F32", "F16", "BF16")
_OF_TEXTS = "BertForSequenceClassification"
# Kind of `TaskModel` -> transformers' class of it, problem_type.
TASKS = {
    "classification": (_OF_TEXTS, "single_label_classification"),
    "multilabel": (_OF_TEXTS, "multi_label_classification"),
    "regression": (_OF_TEXTS, "regression"),
    "tagging": ("BertForTokenClassification", None),
    "choice": ("BertForMultipleChoice", None),
}
# The same of an ELECTRA. Its classes for texts and choices have a dense layer
# in their head, which `TaskModel` and ELECTRA's own code do not have.
ELECTRA_TASKS = {"tagging": ("ElectraForTokenClassification", None)}
_LARGER_HEADS = ("classifier.out_proj.", "sequence_summary.")

# Second names of the word embedding table, the output matrix of a masked LM.
_DECODERS = {
    "cls.predictions.decoder.weight": "bert/embeddings/word_embeddings",
    "generator_lm_head.weight": "electra/embeddings/word_embeddings",
}
# Constants in files of old versions.
_BUFFERS = re.compile(r"(\w+\.)?embeddings\.(position_ids|token_type_ids)")
_REMEDY = (
    "download it again (a file of some hundred bytes is only a pointer: `git "
    "lfs pull` gets what it stands for)"
)


def is_folder(path: str) -> bool:
    """Whether a path is a folder with a model of Hugging Face."""

    def has(*names):
        return any(files.exists(os.path.join(path, name)) for name in names)

    return has(WEIGHTS, INDEX) or (has(CONFIG) and has(*_PICKLED))


def numbered(count: int) -> list[str]:
    """The names of labels that transformers writes if there are none."""
    return [f"LABEL_{i}" for i in range(count)]


def kind_of(config: Mapping[str, Any]) -> str | None:
    """Returns the kind of `TaskModel` that a `config.json` describes.

    It is a key of `TASKS`; None = the model has no output layer for a task.
    """
    architecture = next(iter(config.get("architectures") or ()), None)
    problem = config.get("problem_type")
    tasks = [*TASKS.items(), *ELECTRA_TASKS.items()]
    kinds = [kind for kind, (name, _) in tasks if name == architecture]
    if len(kinds) > 1:
        # The rule of transformers for texts with no problem_type.
        if problem is None and len(config.get("id2label") or "01") == 1:
            return "regression"
        kinds = [k for k in kinds if TASKS[k][1] == problem] or kinds[:1]
    return next(iter(kinds), None)


def larger_head(names: Collection[str]) -> str:
    """Returns the name of a tensor in a head that we do not have; "" = none."""
    return next((n for n in sorted(names) if n.startswith(_LARGER_HEADS)), "")


class HuggingFaceCheckpoint(Weights):
    """Reads Hugging Face's folder as `tf1.Checkpoint` reads its files.

    An ELECTRA encoder with the generator's head has the names of a generator
    beside a discriminator, as in ELECTRA's own checkpoints.

    Args:
      path: a folder with `model.safetensors`, or with its shards and
        `model.safetensors.index.json`.

    Attributes:
      prefix: the folder.
      shapes: our variable name -> its shape, tuple of ints. Tensors without
        such a variable keep their names.

    Raises:
      FileNotFoundError: the files are missing, or only pickled.
      ValueError: they are damaged or have another number format, or the masked
        LM does not share the word embedding table.
    """

    def __init__(self, path: str):
        self.prefix = path
        self._files = {self._open(name): name for name in self._file_names()}
        # Our name -> (file, their name).
        self._places = {}
        self.shapes = {}
        tensors = [(file, name) for file in self._files for name in file.keys()]
        names = [name for _, name in tensors]
        heads = {name.partition(".")[0] for name in names}
        config = find_json(os.path.join(path, CONFIG))
        is_electra = config.get("model_type") == "electra"
        is_electra |= not heads.isdisjoint({"electra", "embeddings_project"})
        scope = "electra" if is_electra else "bert"  # of names without one
        # An encoder with a masked LM is a generator.
        is_generator = "generator_predictions" in heads
        is_generator &= "discriminator_predictions" not in heads
        has_larger_head = bool(larger_head(names))
        for file, theirs in tensors:
            ours = huggingface_names.our_name(theirs, scope) or theirs
            # The classifier of a larger head reads other vectors.
            if has_larger_head and theirs.startswith("classifier"):
                ours = theirs
            if is_generator:
                ours = huggingface_names.of_generator(ours)
            self._add(file, theirs, ours)
        self._drop_second_tables()

    def read(self, name: str) -> np.ndarray:
        """Returns a variable's value, float32."""
        file, theirs = self._places[name]
        try:
            value = file.get_tensor(theirs).astype(np.float32)
        except safetensors.SafetensorError as error:
            raise self._damaged(self._files[file], error) from None
        is_transposed = huggingface_names.is_transposed(name)
        return np.ascontiguousarray(value.T) if is_transposed else value

    def _file_names(self) -> list[str]:
        """Returns the names of the files with the tensors."""
        if tf.io.gfile.exists(os.path.join(self.prefix, WEIGHTS)):
            return [WEIGHTS]
        index = os.path.join(self.prefix, INDEX)
        if not tf.io.gfile.exists(index):
            raise FileNotFoundError(
                f"{self.prefix}: neither {WEIGHTS} nor {INDEX} is there. A "
                "pytorch_model.bin is not read, because a pickle can run any "
                "code. Get the model as safetensors, or make it with PyTorch: "
                "AutoModel.from_pretrained(DIR).save_pretrained(NEW_DIR)."
            )
        names = read_json(index, ("weight_map",), _REMEDY)["weight_map"]
        found = list(names.values()) if isinstance(names, dict) else [None]
        if not all(isinstance(name, str) for name in found):
            raise self._damaged(INDEX, "weight_map has no names of files")
        return sorted(set(found))

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
                f"{path} is missing, but {INDEX} names it; copy all shards."
            ) from None
        except safetensors.SafetensorError as error:
            raise self._damaged(name, error) from None

    def _add(self, file, theirs: str, ours: str) -> None:
        """Adds a tensor under our name, with its shape."""
        if _BUFFERS.fullmatch(theirs):
            return
        tensor = file.get_slice(theirs)
        if tensor.get_dtype() not in _TYPES:
            raise ValueError(
                f"{self.prefix}: {theirs} holds {tensor.get_dtype()} numbers, "
                f"not {', '.join(_TYPES)}; take the model before quantization."
            )
        shape = tuple(tensor.get_shape())
        is_transposed = huggingface_names.is_transposed(ours)
        self.shapes[ours] = shape[::-1] if is_transposed else shape
        self._places[ours] = file, theirs

    def _drop_second_tables(self) -> None:
        """Drops the decoder's matrix, a second name of the embedding table."""
        for decoder, table in _DECODERS.items():
            if decoder not in self.shapes or table not in self.shapes:
                continue
            # Compared, because few files have "tie_word_embeddings".
            if not np.array_equal(self.read(decoder), self.read(table)):
                raise ValueError(
                    f"{self.prefix}: {decoder} is not the word embedding "
                    "table, but ours is. Take a model with tied embeddings."
                )
            del self.shapes[decoder], self._places[decoder]

    def _damaged(self, name: str, error: Exception) -> ValueError:
        return ValueError(
            f"{self.prefix}/{name}: this file is damaged ({error}); {_REMEDY}."
        )


def to_tensors(
    variables: Mapping[str, np.ndarray], *, is_encoder_alone: bool
) -> dict[str, np.ndarray]:
    """Translates our variables into float32 tensors by Hugging Face's names.

    `is_encoder_alone` omits the prefix `bert.` or `electra.`, as in the file of
    a BertModel or an ElectraModel. Raises ValueError for a variable without a
    counterpart.
    """
    tensors = {}
    for ours, value in variables.items():
        theirs = huggingface_names.their_name(ours)
        if theirs is None:
            raise ValueError(
                f"{ours}: Hugging Face's BERT classes have no such weights; "
                "only an encoder and heads that they have can be converted."
            )
        if is_encoder_alone:
            theirs = theirs.removeprefix("bert.").removeprefix("electra.")
        # safetensors writes the bytes in memory; a view's bytes would be the
        # untransposed matrix.
        value = value.T if huggingface_names.is_transposed(ours) else value
        tensors[theirs] = np.ascontiguousarray(value, np.float32)
    return tensors


def write(folder: str, tensors: Mapping[str, np.ndarray]) -> None:
    """Writes `model.safetensors` with the tensors into an existing folder."""
    # transformers refuses a file without this entry.
    content = safetensors.numpy.save(dict(tensors), metadata={"format": "pt"})
    with files.open_whole(os.path.join(folder, WEIGHTS)) as file:
        file.write(content)
