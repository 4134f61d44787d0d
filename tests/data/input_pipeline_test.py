"""Order, resuming and checks of the road from records to batches."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from data import input_pipeline, records

SPECS = (records.FeatureSpec("x", 2), records.FeatureSpec("y", 1, "float32"))


def write(path, start, count, compression=""):
    numbers = np.arange(start, start + count)[:, None]
    columns = {"x": np.repeat(numbers, 2, axis=1), "y": numbers / 2}
    with tf.io.TFRecordWriter(str(path), compression) as writer:
        for record in records.encode_examples(SPECS, columns):
            writer.write(record)
    return str(path)


@pytest.fixture
def files(tmp_path):
    """Three files of 20, 7 and 40 records, numbered on."""
    paths = [
        write(tmp_path / f"{name}.tf_record", start, count)
        for name, start, count in (("a", 0, 20), ("b", 20, 7), ("c", 27, 40))
    ]
    return input_pipeline.open_records(paths, SPECS, limits={"x": 67})


def numbers(dataset, count):
    """The record numbers of the next `count` batches."""
    return [b["x"][:, 0].numpy().tolist() for b in dataset.take(count)]


def test_records_are_counted(files):
    assert files.count == 67


def test_each_pass_holds_every_record_once_in_another_order(files):
    batches = input_pipeline.training_batches(files, batch_size=1, seed=5)
    stream = np.concatenate(numbers(batches, 3 * 67))
    passes = stream.reshape(3, 67)
    for one in passes:
        assert sorted(one) == list(range(67))
    assert (passes[0] != passes[1]).any()
    assert (passes[1] != passes[2]).any()


def test_the_order_depends_on_the_seed_alone(files):
    first, same, other = (
        numbers(
            input_pipeline.training_batches(files, batch_size=8, seed=seed),
            20,
        )
        for seed in (1, 1, 2)
    )
    assert first == same != other


def test_plain_and_gzip_files_may_be_mixed(files, tmp_path):
    path = write(tmp_path / "zipped", 20, 7, "GZIP")
    mixed = input_pipeline.open_records(
        [files.paths[0], path, files.paths[2]], SPECS, limits={"x": 67}
    )
    assert mixed.compressions == ("", "GZIP", "")
    for batches in (
        functools.partial(input_pipeline.training_batches, seed=1),
        input_pipeline.evaluation_batches,
    ):
        assert numbers(batches(mixed, batch_size=8), 20) == numbers(
            batches(files, batch_size=8), 20
        )


@pytest.mark.parametrize("window", [1, 10, 10_000])
@pytest.mark.parametrize("seen", [0, 1, 66, 67, 68, 200])
def test_any_example_can_be_resumed_at(files, window, seen):
    options = {"seed": 3, "shuffle_window": window}
    whole = input_pipeline.training_batches(files, batch_size=1, **options)
    resumed = input_pipeline.training_batches(
        files, batch_size=1, first_example=seen, **options
    )
    assert numbers(resumed, 80) == numbers(whole, seen + 80)[seen:]


def test_without_shuffling_one_file_comes_in_its_order(tmp_path):
    path = write(tmp_path / "a.tf_record", 0, 5)
    files = input_pipeline.open_records([path], SPECS, limits={})
    batches = input_pipeline.training_batches(
        files, batch_size=4, seed=0, shuffle_window=1
    )
    # Batches go on over the end of a pass; every one is full.
    assert numbers(batches, 3) == [[0, 1, 2, 3], [4, 0, 1, 2], [3, 4, 0, 1]]


def test_evaluation_reads_in_order_and_starts_again(files):
    batches = input_pipeline.evaluation_batches(files, batch_size=30)
    assert np.concatenate(numbers(batches, 3)).tolist() == [
        *range(67),
        *range(23),
    ]


def test_integers_come_as_int32(files):
    (batch,) = input_pipeline.evaluation_batches(files, batch_size=2).take(1)
    assert batch["x"].dtype == tf.int32
    assert batch["x"].shape == (2, 2)
    assert batch["y"].dtype == tf.float32


@pytest.mark.parametrize("limit", [66, 1])
def test_values_the_model_has_no_row_for_are_refused(tmp_path, limit):
    path = write(tmp_path / "a.tf_record", 0, 67)
    with pytest.raises(
        ValueError, match=f"feature x holds 66, but .* 0 to {limit - 1}"
    ):
        input_pipeline.open_records([path], SPECS, limits={"x": limit})
