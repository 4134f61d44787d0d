import collections
import functools

import numpy as np
import pytest
import tensorflow as tf

from data.records import feature_spec, input_pipeline, length_batches, reading
from data.records.damage import naming_damage
from data.records.input_pipeline import Shard
from tests.support.records_support import write_examples
from tests.support.tiers import rare

SPECS = (
    feature_spec.FeatureSpec("x", 2),
    feature_spec.FeatureSpec("y", 1, "float32"),
)


def write(path, start, count, compression="none"):
    numbers = np.arange(start, start + count)[:, None]
    columns = {"x": np.repeat(numbers, 2, axis=1), "y": numbers / 2}
    return write_examples(path, SPECS, columns, compression)


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


def trained(files, count, batch_size=1, seed=3, **options):
    """The record numbers of the next `count` batches of training."""
    batches = input_pipeline.training_batches(
        files, batch_size=batch_size, seed=seed, **options
    )
    return numbers(batches, count)


def test_each_pass_holds_every_record_once_in_another_order(files):
    passes = np.reshape(trained(files, 3 * 67), (3, 67))
    for one in passes:
        assert sorted(one) == list(range(67))
    assert (passes[0] != passes[1]).any()
    assert (passes[1] != passes[2]).any()


def test_the_order_depends_on_the_seed_alone(files):
    orders = collections.defaultdict(list)
    try:
        for of_program in (None, 0, 3, 7):
            tf.random.set_seed(of_program)
            for seed in (0, 3, 2**31 - 1):
                orders[seed].append(trained(files, 67, seed=seed))
    finally:
        tf.random.set_seed(None)
    first, second, third = orders.values()
    assert first[0] != second[0] != third[0] != first[0]
    for same in first, second, third:
        assert same == same[:1] * 4


def test_plain_and_gzip_files_may_be_mixed(files, tmp_path):
    path = write(tmp_path / "zipped", 20, 7, "gzip")
    mixed = input_pipeline.open_records(
        [files.paths[0], path, files.paths[2]], SPECS, limits={"x": 67}
    )
    assert [s.compression for s in mixed.segments] == ["", "GZIP", ""]
    assert trained(mixed, 150) == trained(files, 150)
    found, expected = (
        input_pipeline.evaluation_batches(opened, batch_size=8)
        for opened in (mixed, files)
    )
    assert numbers(found, 20) == numbers(expected, 20)


@pytest.mark.parametrize(
    ("window", "seen"),
    # Around the end of a pass of 67 examples; all are in the widest window.
    [(1, 67), (10_000, 68), *((10, seen) for seen in (1, 66, 67, 68, 200))],
)
def test_any_example_can_be_resumed_at(files, window, seen):
    whole = trained(files, seen + 80, shuffle_window=window)
    resumed = trained(files, 80, shuffle_window=window, first_example=seen)
    assert resumed == whole[seen:]


def test_without_shuffling_one_file_comes_in_its_order(tmp_path):
    path = write(tmp_path / "a.tf_record", 0, 5)
    files = input_pipeline.open_records([path], SPECS, limits={})
    # Batches continue over the end of a pass, so all are full.
    found = trained(files, 3, batch_size=4, shuffle_window=1)
    assert found == [[0, 1, 2, 3], [4, 0, 1, 2], [3, 4, 0, 1]]


def test_evaluation_reads_in_order_and_starts_again(files):
    batches = input_pipeline.evaluation_batches(files, batch_size=30)
    assert np.concatenate(numbers(batches, 3)).tolist() == [
        *range(67),
        *range(23),
    ]


@pytest.mark.parametrize(("limit", "skips"), [(66, False), (1, True)])
def test_values_the_model_has_no_row_for_are_refused(tmp_path, limit, skips):
    path = write(tmp_path / "a.tf_record", 0, 67)
    # The first such record; the value is its number - 1.
    message = f"record {limit + 1}: .* x holds {limit}, .* 0 to {limit - 1}"
    with pytest.raises(ValueError, match=message):
        input_pipeline.open_records(
            [path], SPECS, limits={"x": limit}, skip_bad_records=skips
        )


def write_late(path, value, compression="none"):
    """Writes 1,500 records of 0, with one other value in record 1,200."""
    columns = {"x": np.zeros((1500, 2), np.int64), "y": np.zeros((1500, 1))}
    columns["x"][1199, 1] = value
    return write_examples(path, SPECS, columns, compression)


def holds(path, value):
    """The error for the value of record 1,200."""
    return f"^{path}, record 1200: feature x holds {value}, but .* 0 to 66. "


def read(files, batches):
    """Reads as a run does: errors name the record."""
    with naming_damage(files):
        return list(batches.take(150))


def test_a_second_text_is_named_if_the_model_has_one_segment_type():
    specs = [feature_spec.FeatureSpec("segment_ids", 2, limit=1)]
    records = feature_spec.encode_examples(
        specs, {"segment_ids": np.array([[0, 0], [0, 1]])}
    )
    reading.check_record(specs, "a", records[0])
    with pytest.raises(ValueError, match="holds 1, .* needs type_vocab_size 2"):
        reading.check_record(specs, "a", records[1])


WAYS = {
    "training": functools.partial(input_pipeline.training_batches, seed=1),
    "evaluation": input_pipeline.evaluation_batches,
    "fine-tuning": functools.partial(length_batches.training_batches, seed=1),
    "fine-tuning's evaluation": functools.partial(
        length_batches.all_examples, trim=False
    ),
    "one of two workers": functools.partial(
        input_pipeline.training_batches,
        seed=1,
        shuffle_window=1,
        shard=Shard(1, 2),
    ),
}
WRONG = [(x, "fine-tuning") for x in (-1, 2**32 + 3, -(2**63))]


@pytest.mark.parametrize(("value", "way"), [*((67, w) for w in WAYS), *WRONG])
def test_a_late_value_out_of_range_is_named(tmp_path, way, value):
    path = write_late(tmp_path / "late.tf_record", value)
    files = input_pipeline.open_records([path], SPECS, limits={"x": 67})
    batches = WAYS[way](files, batch_size=10)
    with pytest.raises(ValueError, match=holds(path, value)):
        read(files, batches)


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_a_value_out_of_range_is_no_damage(tmp_path, compression):
    path = write_late(tmp_path / "late.tf_record", 67, compression)
    if compression == "none":  # the first record is damaged, and left out
        with open(path, "r+b") as file:
            file.seek(14)
            file.write(b"?")
    files = input_pipeline.open_records(
        [path], SPECS, limits={"x": 67}, skip_bad_records=True
    )
    batches = input_pipeline.evaluation_batches(files, batch_size=10)
    with pytest.raises(ValueError, match=holds(path, 67)):
        read(files, batches)


def test_an_unequal_record_is_named(tmp_path):
    path = tmp_path / "a.tf_record"
    write(path, 0, 5)
    specs = feature_spec.FeatureSpec("x", 3), SPECS[1]
    columns = {"x": np.zeros((1, 3), np.int64), "y": np.zeros((1, 1))}
    other = write_examples(tmp_path / "other", specs, columns)
    with open(path, "ab") as file, open(other, "rb") as more:
        file.write(more.read())
    message = f"^{path}, record 6: feature x is .* with 3 values"
    with pytest.raises(ValueError, match=message):
        input_pipeline.open_records([str(path)], SPECS, limits={})


def shards_of(make, count):
    """The batches of all workers, side by side."""
    parts = [make(Shard(i, count)) for i in range(count)]
    return [sum(rows, []) for rows in zip(*parts, strict=True)]


@pytest.mark.parametrize("seen", [24, rare(150)])
def test_workers_with_fewer_files_cut_the_batches_of_one(files, seen):
    def make(shard):
        options = {"batch_size": 12, "first_example": seen, "shard": shard}
        return trained(files, 10, **options)

    assert shards_of(make, 4) == make(input_pipeline.WHOLE)


def test_workers_with_a_file_each_read_no_other(files, logged):
    streams = [
        np.concatenate(trained(files, count, 8, shard=Shard(i, 2)))
        for i, count in ((0, 30), (1, 7))
    ]
    # Worker 0 has files a and c, worker 1 file b: four rows of every batch.
    assert sorted(streams[0][:60]) == [*range(20), *range(27, 67)]
    assert sorted(streams[0][60:120]) == [*range(20), *range(27, 67)]
    for one in streams[1].reshape(4, 7):
        assert sorted(one) == [*range(20, 27)]
    *counts, warning = logged.messages
    assert counts == [
        "Worker 0 of 2 reads 2 of 3 files: 60 of 67 records.",
        "Worker 1 of 2 reads 1 of 3 files: 7 of 67 records.",
    ]
    assert "0.2 times its share" in warning and "equal size" in warning


@pytest.mark.parametrize("index", [1, 2])
def test_a_worker_with_files_of_its_own_can_resume(files, index):
    def make(first_example, count):
        options = {"first_example": first_example, "shard": Shard(index, 3)}
        return trained(files, count, batch_size=3, **options)

    whole = make(0, 80)
    for seen in 24, 150:
        assert make(seen, 30) == whole[seen // 3 :][:30]


def test_workers_read_by_record_what_no_file_of_theirs_holds(files, logged):
    trained(files, 0, 8, shard=Shard(1, 4))
    (message,) = logged.messages
    assert "reads all 3 files, and takes 2 of each 8 records" in message


@pytest.mark.parametrize("count", [2, 6])
def test_workers_evaluate_the_batches_of_one(files, count):
    def make(shard):
        batches = input_pipeline.evaluation_batches(
            files, batch_size=6, shard=shard
        )
        assert batches.element_spec["x"].shape == (6 // count, 2) or (
            shard == input_pipeline.WHOLE
        )
        return numbers(batches, 12)

    assert shards_of(make, count) == make(input_pipeline.WHOLE)


@pytest.mark.parametrize("batch_size", [10, 3])
def test_a_batch_that_workers_cannot_share_is_refused(batch_size):
    message = f"batch_size is {batch_size}, but 4 .*a multiple of 4"
    with pytest.raises(ValueError, match=message):
        Shard(0, 4).part_of(batch_size)
