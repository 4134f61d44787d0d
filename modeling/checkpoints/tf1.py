"""The original release's checkpoint format: arrays by variable name.

This project writes it too: `PREFIX.index` and `PREFIX.data-00000-of-00001` with
the names of `modeling.BertModel`, `<name>/adam_m`, `<name>/adam_v` and
`global_step`.
"""

import contextlib
import os
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np
import tensorflow as tf

from data.storage import files

SLOTS = ("adam_m", "adam_v", "Adam", "Adam_1")
LOSS_SCALE = "loss_scale"
LOSS_SCALE_GOOD_STEPS = "loss_scale_good_steps"
GLOBAL_STEP = "global_step"
# Errors of TensorFlow's reader for a wrong checksum, format or length.
_UNREADABLE = (tf.errors.OpError, ValueError, RuntimeError, IndexError)
# Of the files of a checkpoint; a release of the original has a graph, too.
_ENDING = re.compile(r"\.(index|meta|data-\d{5}-of-\d{5})$")
# Characters that a glob does not take literally.
_NOT_ITSELF = re.compile(r"\[[^/]*\]|\\")
# What those need to know who give a model's name for its path.
NO_HUB = (
    "Names of models on a hub, such as bert-base-uncased, are not looked up, "
    "and nothing is downloaded: unpack a zip that the README of "
    "github.com/google-research/bert links to, or get config.json, vocab.txt "
    "and model.safetensors from huggingface.co, and give the folder."
)


def without_ending(path: str) -> str:
    """Returns the prefix of a checkpoint from the path of one of its files."""
    return _ENDING.sub("", path)


def require_readable(path: str) -> None:
    """Raises ValueError if TensorFlow cannot read a checkpoint at a path.

    TensorFlow looks for a checkpoint's files with the path, a prefix or a
    folder, as a glob, in which `[1]` stands for `1` and a backslash is dropped.
    """
    if _NOT_ITSELF.search(path):
        raise ValueError(
            f"{path}: TensorFlow reads no checkpoint whose path holds [...] or "
            "a backslash, as in a glob; rename the folder."
        )


def latest_name(folder: str) -> str | None:
    """Returns the latest checkpoint in a folder's `checkpoint` file.

    Its folder is left out, so that a folder can be copied and moved. "" = the
    file is damaged, None = it is missing.
    """
    path = os.path.join(folder, "checkpoint")
    if not files.exists(path):
        return None
    with files.open_read(path) as file:
        text = file.read().decode("utf-8", "replace")
    match = re.search(r'^model_checkpoint_path: "(.*)"', text, re.M)
    return os.path.basename(match[1]) if match else ""


def has_run(folder: str) -> bool:
    """Returns whether a folder holds checkpoints of a run."""
    return bool(files.find_in(folder, "model.ckpt-*.index"))


def write_state(folder: str, names: Sequence[str]) -> None:
    """Writes the `checkpoint` file: the kept checkpoints, the latest last."""
    lines = [f'model_checkpoint_path: "{names[-1]}"']
    lines += [f'all_model_checkpoint_paths: "{name}"' for name in names]
    path = os.path.join(folder, "checkpoint")
    files.write_text(path, "\n".join(lines) + "\n")


class Weights(Protocol):
    """A checkpoint of any format, with the original's names.

    Attributes:
      prefix: where it is, for messages.
      shapes: name -> shape.
    """

    prefix: str
    shapes: Mapping[str, tuple[int, ...]]

    def read(self, name: str) -> np.ndarray:
        """Returns a variable's value."""

    def weights(self) -> dict[str, np.ndarray]:
        """Reads all variables but optimizer slots, step and loss scale."""
        names = filter(is_weight, self.shapes)
        return {name: self.read(name) for name in names}


class Checkpoint(Weights):
    """Reads one checkpoint; every error names it.

    Args:
      path: its prefix (`dir/bert_model.ckpt`), or one of its files.

    Attributes:
      prefix: the start of its files' paths.
      shapes: variable name -> tuple of ints.

    Raises:
      FileNotFoundError: the checkpoint is missing.
      ValueError: its index is damaged.
    """

    def __init__(self, path: str):
        self.prefix = without_ending(path)
        if not tf.io.gfile.exists(self.prefix + ".index"):
            raise FileNotFoundError(
                f"{path}: no checkpoint there (no {self.prefix}.index); "
                f"give its prefix, such as DIR/bert_model.ckpt. {NO_HUB}"
            )
        require_readable(self.prefix)
        try:
            self._reader = tf.compat.v1.train.NewCheckpointReader(self.prefix)
        except _UNREADABLE as error:
            raise self._damaged(error) from None
        shapes = self._reader.get_variable_to_shape_map()
        self.shapes = {name: tuple(shape) for name, shape in shapes.items()}

    def read(self, name: str) -> np.ndarray:
        """Returns a variable's value; ValueError if its checksum differs."""
        try:
            return self._reader.get_tensor(name)
        except _UNREADABLE as error:
            raise self._damaged(error) from None

    def _damaged(self, error: Exception) -> ValueError:
        return ValueError(
            f"{self.prefix}: this checkpoint is damaged or incomplete "
            f"({str(error).splitlines()[0]}); take another one, or copy it "
            "again with both its .index and .data files."
        )


def write(prefix: str, tensors: Mapping[str, np.ndarray]) -> None:
    """Writes a checkpoint, which appears complete or not at all.

    `.index` and `.data-00000-of-00001` are added to the prefix. `tensors` are
    name -> value. Raises OSError if the folder cannot be written or the disk is
    full.
    """
    with written(prefix, tensors):
        pass


@contextlib.contextmanager
def written(prefix: str, tensors: Mapping[str, np.ndarray]) -> Iterator[str]:
    """Writes a checkpoint, which appears when the block ends without an error.

    If it replaces a checkpoint, readers find the old or the new one at any
    time. Yields the temporary path of its index. Raises OSError as `write`, and
    ValueError if TensorFlow could not read the prefix, see `require_readable`.
    """
    require_readable(prefix)
    # Random, so that another user cannot put a link there.
    staging = f"{prefix}.incomplete-{secrets.token_hex(8)}"
    one, two = os.path.join(staging, "one"), os.path.join(staging, "two")
    try:
        tf.io.gfile.makedirs(staging)
        _save(one, tensors)
        yield one + ".index"
        num_before = _num_data_files(prefix)
        if num_before == 1:
            # An index refers to its data files by prefix and number of files,
            # so replacing the data file would break the old index. The new
            # checkpoint therefore first appears with two data files.
            _save_in_two(two, tensors)
            _move(two, prefix, num_data_files=2)
        _move(one, prefix, num_data_files=1)
        if num_before:
            for ending in _data_endings(2):
                with contextlib.suppress(tf.errors.NotFoundError):
                    tf.io.gfile.remove(prefix + ending)
    except (tf.errors.OpError, OSError) as error:
        raise OSError(
            f"cannot write the checkpoint {prefix}: "
            f"{_reason(error)}. Earlier checkpoints are intact; check the "
            "folder's permissions and free space."
        ) from error
    finally:
        if tf.io.gfile.exists(staging):
            tf.io.gfile.rmtree(staging)


def _data_endings(count: int) -> list[str]:
    """Returns the endings of TensorFlow's data files."""
    return [f".data-{i:05d}-of-{count:05d}" for i in range(count)]


def _num_data_files(prefix: str) -> int:
    """Returns the number of a checkpoint's data files; 0 = it is missing.

    Source: BundleHeaderProto in tensorflow/core/protobuf/tensor_bundle.proto.
    """
    if not tf.io.gfile.exists(prefix + ".index"):
        return 0
    with tf.io.gfile.GFile(prefix + ".index", "rb") as file:
        begin = file.read(5)
    # The table's first entry has an empty key. Its value, after three lengths,
    # is the header; the header's first field is num_shards: tag 8, number.
    return begin[4] if len(begin) == 5 else 1  # 1 if it is damaged


def _save(prefix: str, tensors: Mapping[str, np.ndarray]) -> None:
    """Saves a checkpoint with one data file."""
    names = sorted(tensors)
    tf.raw_ops.SaveV2(
        prefix=prefix,
        tensor_names=names,
        shape_and_slices=[""] * len(names),
        tensors=[tf.convert_to_tensor(tensors[name]) for name in names],
    )


def _save_in_two(prefix: str, tensors: Mapping[str, np.ndarray]) -> None:
    """Saves a checkpoint with two data files."""
    if len(tensors) == 1:  # each file needs a tensor
        tensors = {**tensors, GLOBAL_STEP: np.int64(0)}
    first, *others = tensors
    parts = {f"{prefix}-0": [first], f"{prefix}-1": others}
    for part, names in parts.items():
        _save(part, {name: tensors[name] for name in names})
    tf.raw_ops.MergeV2Checkpoints(
        checkpoint_prefixes=list(parts),
        destination_prefix=prefix,
        delete_old_dirs=False,
    )


def _move(source: str, target: str, num_data_files: int) -> None:
    """Gives a checkpoint its final name."""
    # The index comes last, because it makes the checkpoint visible.
    endings = [*_data_endings(num_data_files), ".index"]
    if "://" not in source:  # a local disk has buffers
        for ending in endings:
            with open(source + ending, "rb") as file:
                os.fsync(file.fileno())
    for ending in endings:
        tf.io.gfile.rename(source + ending, target + ending, overwrite=True)


def _reason(error: Exception) -> str:
    """Returns the message of an error without TensorFlow's names of nodes."""
    line = str(getattr(error, "message", error)).splitlines()[0]
    return re.sub(r"\{\{.*?\}\} | \[Op:\w+\]", "", line)


def is_weight(name: str) -> bool:
    """False for optimizer slots, step counter and loss scale."""
    state = (GLOBAL_STEP, LOSS_SCALE, LOSS_SCALE_GOOD_STEPS)
    return name not in state and name.rpartition("/")[2] not in SLOTS
