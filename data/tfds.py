"""Finds and reads data sets of tensorflow-datasets."""

import itertools
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds
from absl import logging

from data.settings import nearest

_BATCH = 16  # examples fetched at once


class OpenedText(NamedTuple):
    """The text of a split: one for each example, always in the same order.

    `full_name` is the data set's name with configuration and version.
    """

    full_name: str
    text_key: str
    num_examples: int
    texts: Iterator[str]


def open_text(
    name: str, split: str, data_dir: str | None, text_key: str | None
) -> OpenedText:
    """Opens the text of a data set, which is downloaded if missing.

    `name` is as in `tfds.builder` and `split` as `train`, `train[:10%]` or
    `train+test`. `data_dir` of None is tensorflow-datasets' default. `text_key`
    names the feature that is the text; None = `text`, or else the only string
    feature. Reading raises ValueError as `read_examples` does.
    """
    builder = _open(name, split, data_dir)
    features = builder.info.features
    key = _choose_text_key(name, features, text_key)
    decoders = tfds.decode.PartialDecoding({key: features[key]})
    dataset = _in_order(builder, split, decoders).map(lambda x: x[key])
    batches = dataset.batch(_BATCH).as_numpy_iterator()
    encoded = itertools.chain.from_iterable(batches)
    texts = _decoded(encoded, features[key], builder, split)
    count = builder.info.splits[split].num_examples
    return OpenedText(builder.info.full_name, key, count, texts)


def read_examples(
    name: str, split: str, data_dir: str | None
) -> Iterator[dict[str, Any]]:
    """Yields all features of each example, always in the same order.

    For the arguments see `open_text`. Values are Python types; a class label is
    its name, or None if it is -1 (unknown). Raises OSError if the data set
    cannot be prepared, ValueError if it is unknown, damaged or not UTF-8.
    """
    builder = _open(name, split, data_dir)
    examples = tfds.as_numpy(_in_order(builder, split))
    return _decoded(examples, builder.info.features, builder, split)


def _decoded(
    examples: Iterable, feature: Any, builder: Any, split: str
) -> Iterator[Any]:
    """Yields values as Python types; the error names one that is damaged."""
    number = 0
    try:
        for example in examples:
            number += 1
            yield _plain(feature, example)
    except UnicodeDecodeError as error:
        raise ValueError(
            f"--tfds={builder.info.full_name}: byte {error.start + 1} of a "
            f"text in example {number} of {split} is "
            f"0x{error.object[error.start]:02x}, which is not UTF-8; recode it."
        ) from None
    except tf.errors.OpError as error:
        raise ValueError(
            f"--tfds={builder.info.full_name}: {builder.data_dir} cannot be "
            f"read after example {number} ({_one_line(error)}); remove it and "
            "prepare it again."
        ) from error


def _in_order(builder: Any, split: str, decoders: Any = None) -> Any:
    """Returns a split as a `tf.data.Dataset` in the order of its files."""
    # One file at a time, without a cache in memory.
    how = tfds.ReadConfig(interleave_cycle_length=1, try_autocache=False)
    return builder.as_dataset(split=split, read_config=how, decoders=decoders)


def _plain(feature: Any, value: Any) -> Any:
    """Converts a feature's value to Python types."""
    if isinstance(value, Mapping):
        return {key: _plain(feature[key], value[key]) for key in value}
    if isinstance(value, np.ndarray):
        if isinstance(feature, tfds.features.Sequence):
            feature = feature.feature
        return [_plain(feature, one) for one in value]
    if isinstance(feature, tfds.features.ClassLabel):
        return feature.int2str(int(value)) if value >= 0 else None
    if isinstance(value, bytes):
        return value.decode("utf-8")
    return value.item() if isinstance(value, np.generic) else value


def _open(name: str, split: str, data_dir: str | None) -> Any:
    """Finds and prepares a data set that has the split."""
    builder = _find(name, data_dir)
    _prepare(name, builder)
    try:
        builder.info.splits[split]
    except (ValueError, KeyError, AssertionError) as error:
        raise ValueError(
            f"--tfds={name}: there is no split {split!r}; it has "
            f"{', '.join(builder.info.splits)}, and parts as train[:10%]."
        ) from error
    return builder


def _find(name: str, data_dir: str | None) -> Any:
    """Finds a data set by name; the error has the nearest name."""
    where = data_dir or "~/tensorflow_datasets"
    try:
        return tfds.builder(name, data_dir=data_dir)
    except tfds.core.DatasetNotFoundError:
        known = tfds.list_builders(with_community_datasets=False)
        near = nearest(name.split("/")[0], known)
        raise ValueError(
            f"--tfds={name}: tensorflow-datasets knows no such data set{near}, "
            f"and none is prepared in {where}; for yours give --tfds_data_dir."
        ) from None
    except (ValueError, AssertionError, RuntimeError) as error:
        # A bad name, configuration or version, or unreachable storage.
        raise ValueError(
            f"--tfds={name} (looked in {where}): {_one_line(error)}"
        ) from error


def _prepare(name: str, builder: Any) -> None:
    if builder.is_prepared():
        return
    logging.info("%s is not in %s: preparing it.", name, builder.data_dir)
    if not sys.stderr.isatty():
        tfds.disable_progress_bar()
    try:
        builder.download_and_prepare()
    # Broad, because this runs the data set's own code, which may raise any
    # error (ModuleNotFoundError, an HTTP library's errors, ...). The message
    # contains the error, and the run ends.
    except Exception as error:
        raise OSError(
            f"--tfds={name} is not prepared in {builder.data_dir}, and "
            f"preparing it failed: {type(error).__name__}: {_one_line(error)}. "
            "On a machine with a network and its requirements, run `tfds build "
            f"{name} --data_dir=DIR`, then give --tfds_data_dir=DIR. Many data "
            "sets are prepared in DIR=gs://tfds-data/datasets."
        ) from error


def _choose_text_key(name: str, features: Any, text_key: str | None) -> str:
    strings = []
    if isinstance(features, tfds.features.FeaturesDict):
        single = {key: x for key, x in features.items() if x.shape == ()}
        strings = [key for key, x in single.items() if x.tf_dtype == tf.string]
    if text_key is None:
        text_key = strings[0] if len(strings) == 1 else "text"
    if text_key not in strings:
        raise ValueError(
            f"--tfds={name} has no string feature {text_key!r}; give another "
            f"with --tfds_text_key. Its features: {_one_line(features)}"
        )
    return text_key


def _one_line(thing: Any) -> str:
    """Returns the text of an object without line breaks."""
    return " ".join(str(thing).split())
