"""Writes vectors of lines of text as JSON lines, npy, npz or TFRecords.

Lines are written one at a time. Axes: U vectors of a line (of wordpieces, of
words, or one), L layers, W width of a vector, A layers and N heads of attention
maps, S wordpieces.
"""

import contextlib
import json
import os
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from data.records import tfrecord
from data.storage import files
from data.storage.json_files import open_json_lines

FORMATS = ("jsonl", "npz", "tfrecord")


class LineVectors(NamedTuple):
    """The model's outputs for one line.

    Attributes:
      index: index of the line.
      names: names of the U vectors: wordpieces, words, or the pooling.
      vectors: float32 [U, L, W].
      tokens: the S wordpieces with [CLS] and [SEP].
      attention: float32 [A, N, S, S], attention from each wordpiece (third
        axis) to each wordpiece (fourth axis), or None.
    """

    index: int
    names: Sequence[str]
    vectors: np.ndarray
    tokens: Sequence[str]
    attention: np.ndarray | None = None


@contextlib.contextmanager
def open_writer(
    path: str,
    file_format: str,
    *,
    layers: Sequence[int | str | list],
    pooled_shape: tuple[int, int, int] | None = None,
) -> Iterator[Callable[[LineVectors], None]]:
    """Opens a file of vectors; yields a function that writes the next line.

    - `jsonl`: the original's format: a line of JSON for each line of text,
      `{"linex_index": 0, "features": [{"token": "[CLS]", "layers": [{"index":
      -1, "values": [...]}, ...]}, ...]}`, rounded to 6 decimals.
    - `npz`: for `numpy.load`. `layers` has the names of the layers. Line i has
      `vectors_i` [U, L, W] and `tokens_i` [U]; if each line has one vector,
      there is only `vectors` [lines, L, W]. Attention maps are `attention_i`,
      their wordpieces `attention_tokens_i`.
    - `tfrecord`: a `tf.train.Example` for each line with `linex_index`,
      `tokens` [U], `layers` [L], `shape` (U, L, W) and the flat `values`.

    `layers` names each of the L layers, with a list for a mix of several;
    `pooled_shape` is (lines, L, W) if each line has one vector, otherwise None.
    """
    with files.open_whole(path) as file:
        if file_format == "tfrecord":
            frame = tfrecord.frame
            yield lambda line: file.write(frame(to_example(line, layers)))
            return
        if file_format == "jsonl":
            yield lambda line: file.write(to_json(line, layers).encode())
            return
        with zipfile.ZipFile(_Stream(file), "w") as archive:
            _add_array(archive, "layers", np.array(layer_names(layers)))
            if not pooled_shape:
                yield lambda line: _add_line(archive, line)
                return
            with archive.open("vectors.npy", "w", force_zip64=True) as member:
                write = _array_writer(member, pooled_shape)
                yield lambda line: write(line.vectors)


def open_array(path: str, problem: str) -> np.ndarray:
    """Opens a .npy file; of a local one, parts are read when they are needed.

    Raises ValueError, which begins with the `problem`, for any other file.
    """
    try:
        if "://" not in (path := os.fspath(path)):
            found = np.load(path, mmap_mode="r", allow_pickle=False)
        else:
            with files.open_read(path) as file:
                found = np.load(file, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{problem} ({error}).") from None
    if not isinstance(found, np.ndarray):
        raise ValueError(f"{problem} (it holds several arrays).")
    return found


@contextlib.contextmanager
def open_text_writer(
    path: str, shape: tuple[int, int], texts: Iterable[str]
) -> Iterator[Callable[[np.ndarray], None]]:
    """Opens a file of texts' vectors; yields a function that writes the next.

    A `.npy` file is float32 of the `shape` (texts, K). In any other, each line
    is a JSON object with `text` and `vector`.
    """
    if path.endswith(".npy"):
        with files.open_whole(path) as file:
            yield _array_writer(file, shape)
        return
    left = iter(texts)
    with open_json_lines(path) as write:
        yield lambda x: write({"text": next(left), "vector": x.tolist()})


def to_json(line: LineVectors, layers: Sequence[int | str | list]) -> str:
    r"""Returns a line of the original's format, with its `\n`.

    Source: `main` of extract_features.py, `linex_index` included.
    """
    # Equals Python's round(x, 6): a float32 times 10^6 has at most 38 bits, so
    # the product is exact in float64.
    rounded = np.round(line.vectors.astype(np.float64), 6).tolist()
    features = [
        {
            "token": name,
            "layers": [
                {"index": layer, "values": values}
                for layer, values in zip(layers, vectors, strict=True)
            ],
        }
        for name, vectors in zip(line.names, rounded, strict=True)
    ]
    return json.dumps({"linex_index": line.index, "features": features}) + "\n"


def to_example(line: LineVectors, layers: Sequence[int | str | list]) -> bytes:
    """Serializes a `tf.train.Example` (see `open_writer`)."""
    import tensorflow as tf

    example, names = tf.train.Example(), layer_names(layers)
    feature = example.features.feature
    feature["linex_index"].int64_list.value.append(line.index)
    feature["tokens"].bytes_list.value.extend(x.encode() for x in line.names)
    feature["layers"].bytes_list.value.extend(x.encode() for x in names)
    feature["shape"].int64_list.value.extend(line.vectors.shape)
    feature["values"].float_list.value.extend(line.vectors.ravel())
    return example.SerializeToString(deterministic=True)


def layer_names(layers: Sequence[int | str | list]) -> list[str]:
    """Returns the names of layers as text: `-1`, or `-1,-2` for a mix."""
    return [
        ",".join(map(str, layer if isinstance(layer, list) else [layer]))
        for layer in layers
    ]


class _Stream:
    """A file without seek, as required for gs://."""

    def __init__(self, file):
        self._file, self.flush = file, file.flush

    def write(self, data):
        self._file.write(data)
        return len(data)


def _array_writer(file, shape):
    """Writes the header of a float32 array; returns what writes its parts."""
    header = {"descr": "<f4", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    return lambda values: file.write(values.astype("<f4").tobytes())


def _add_array(archive, name, array):
    with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
        np.lib.format.write_array(member, array, allow_pickle=False)


def _add_line(archive, line):
    i = line.index
    _add_array(archive, f"tokens_{i}", np.array(line.names))
    _add_array(archive, f"vectors_{i}", line.vectors)
    if line.attention is not None:
        _add_array(archive, f"attention_tokens_{i}", np.array(line.tokens))
        _add_array(archive, f"attention_{i}", line.attention)
