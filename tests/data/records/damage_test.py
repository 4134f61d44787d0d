import gzip

import pytest
import tensorflow as tf

from data.records import damage as record_damage
from data.records import feature_spec, input_pipeline, tfrecord
from data.records.damage import Segment
from data.records.tfrecord import DamagedError
from tests.support.records_support import flipped, write_examples

SPECS = (feature_spec.FeatureSpec("x", 1),)
# One of them is longer, so that not all records begin at multiples.
NUMBERS = (1, 2, 300, 4, 5)


def encoded():
    return feature_spec.encode_examples(SPECS, {"x": [[n] for n in NUMBERS]})


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a"


def write(path, compression="none", numbers=NUMBERS):
    write_examples(path, SPECS, {"x": [[n] for n in numbers]}, compression)
    return path.read_bytes()


def starts():
    """Byte of each record, and of the end of the file."""
    found = [0]
    for record in encoded():
        found.append(found[-1] + len(record) + tfrecord.FRAME_BYTES)
    return found


def open_files(paths, skip_bad_records=True):
    return input_pipeline.open_records(
        [str(path) for path in paths],
        SPECS,
        limits={},
        skip_bad_records=skip_bad_records,
    )


def values(files):
    """What TensorFlow reads of opened files."""
    (batch,) = input_pipeline.evaluation_batches(
        files, batch_size=files.count
    ).take(1)
    return batch["x"][:, 0].numpy().tolist()


def values_or_damage(files):
    """As a run reads them: damage is named."""
    with record_damage.naming_damage(files):
        return values(files)


def kept_without(i):
    """What a plain file holds whose byte i is wrong."""
    record = next(n for n, end in enumerate(starts()[1:]) if i < end)
    if i - starts()[record] < 12:  # its length
        return [*NUMBERS[:record]]
    return [*NUMBERS[:record], *NUMBERS[record + 1 :]]


def test_a_wrong_byte_of_a_plain_file_costs_what_it_touches(path):
    data = write(path)
    for i in range(len(data)):
        path.write_bytes(flipped(data, i))
        expected = kept_without(i)
        assert sum(segment.count for segment in find(path)) == len(expected)
        if expected and i % 29 == 0:  # TensorFlow is slow
            assert values(open_files([path])) == expected


def find(path):
    segments, _ = record_damage.find_segments(str(path), skip_bad_records=True)
    return segments


def test_a_cut_of_a_plain_file_costs_what_is_behind_it(path):
    data = write(path)
    for end in range(1, len(data)):
        path.write_bytes(data[:end])
        whole = sum(start <= end for start in starts()[1:])
        segment = Segment(str(path), "", 0, 1, whole)
        assert find(path) == ([segment] if whole else [])
        if whole and end % 29 == 0:
            assert values(open_files([path])) == [*NUMBERS[:whole]]


def test_a_damaged_gzip_file_gives_no_wrong_record(path):
    """It gives the first records, or an error with the name."""
    data = write(path, "gzip")
    # Byte 3 holds flags: Python takes those that zlib does not.
    places = 0, 1, 2, 3, *range(10, len(data), 7)
    wrong = [flipped(data, i, 0x80) for i in places]
    cut = [data[:end] for end in range(1, len(data), 9)]
    for damaged in wrong + cut:
        path.write_bytes(damaged)
        try:
            files = open_files([path])
        except ValueError as error:
            assert str(error).startswith("none of 1 record files has a record")
        else:
            assert values(files) == [*NUMBERS[: files.count]]


@pytest.mark.all
def test_a_large_gzip_file_is_kept_up_to_the_damage(path):
    # Hardly any bytes are alike, so that many come before the damage.
    numbers = [n * 7919 % 1_000_003 for n in range(50_000)]
    data = write(path, "gzip", numbers)
    path.write_bytes(flipped(data, len(data) // 2))
    files = open_files([path])
    assert 5_000 < files.count < 30_000
    assert values(files) == numbers[: files.count]


def test_without_the_flag_damage_stops_with_name_and_position(tmp_path, path):
    write(tmp_path / "whole")
    data = write(path)
    path.write_bytes(flipped(data, starts()[2] + 15))
    place = f"^{path}: record 3, at byte {starts()[2]} of {len(data)}, is cut"
    with pytest.raises(DamagedError, match=f"{place} .*write the file again"):
        open_files([tmp_path / "whole", path], skip_bad_records=False)


def test_what_is_left_out_is_counted(tmp_path, caplog):
    for name in "abc":
        data = write(tmp_path / name)
    size, begin = len(data), starts()
    damaged = flipped(flipped(data, begin[1] + 14), begin[2] + 14)
    (tmp_path / "a").write_bytes(flipped(damaged, begin[4] + 1))
    (tmp_path / "b").write_bytes(data[:-1])
    paths = [str(tmp_path / name) for name in "abc"]
    with caplog.at_level("WARNING", logger="absl"):
        files = open_files(paths)
    a, b, c = paths
    assert files.segments == (
        Segment(a, "", 0, 1, 1),
        Segment(a, "", begin[3], 4, 1),
        Segment(b, "", 0, 1, 4),
        Segment(c, "", 0, 1, 5),
    )
    assert values(files) == [1, 4, 1, 2, 300, 4, 1, 2, 300, 4, 5]
    tail = size - begin[4]
    of_a, of_b, of_all = caplog.messages
    assert f"{a}: record 2, at byte {begin[1]} of {size}," in of_a
    assert f"kept: 2; left out: 2, and {tail} bytes after damage" in of_a
    assert f"{b}: record 5, at byte {begin[4]} of {size - 1}," in of_b
    assert f"kept: 4; left out: 0, and {tail - 1} bytes after damage" in of_b
    assert "--skip_bad_records: 2 of 3 files are damaged" in of_all
    assert f"kept: 6; left out: 2, and {2 * tail - 1} bytes" in of_all


FRAMED = b"".join(map(tfrecord.frame, encoded()))
CUT = "is cut short or damaged"


@pytest.mark.parametrize(
    ("content", "damage", "num_bytes"),
    [
        (b"", "holds no records", 0),
        (gzip.compress(b""), "holds no records", 0),
        (FRAMED[:25], f"record 1, at byte 0 of 25, {CUT}", 25),
        (gzip.compress(b"x"), f"record 1 or a later one {CUT}", 0),
        # Python takes this header, zlib does not.
        (flipped(gzip.compress(FRAMED), 3, 0x80), "record 1 is damaged", 0),
    ],
    ids=["empty", "empty gzip", "cut", "cut gzip", "gzip header"],
)
def test_a_file_without_a_record_is_left_out(
    tmp_path, caplog, content, damage, num_bytes
):
    paths = [tmp_path / name for name in "abc"]
    write(paths[0])
    paths[1].write_bytes(content)
    write(paths[2])
    with caplog.at_level("WARNING", logger="absl"):
        files = open_files(paths)
    assert values(files) == [*NUMBERS, *NUMBERS]
    of_file, of_all = caplog.messages
    assert str(paths[1]) in of_file and damage in of_file
    assert "--skip_bad_records: 1 of 3 files are damaged" in of_all
    for message in of_file, of_all:
        assert f"kept: 0; left out: 0, and {num_bytes} bytes" in message
    with pytest.raises(DamagedError, match=f"^{paths[1]}.*{damage}; "):
        open_files(paths, skip_bad_records=False)
    with pytest.raises(ValueError, match=f"none of 2 .*{paths[1]}, .*; copy"):
        open_files([paths[1], paths[1]])


def test_a_damaged_file_trains_in_an_order_that_can_be_resumed(tmp_path):
    for name, first in (("a", 0), ("b", 100)):
        numbers = [*range(first, first + 40)]  # records of 30 bytes
        data = write(tmp_path / name, numbers=numbers)
    (tmp_path / "b").write_bytes(flipped(data, 20 * 30 + 14))
    files = open_files([tmp_path / "a", tmp_path / "b"])
    assert files.count == 79

    def stream(count, first_example=0):
        batches = input_pipeline.training_batches(
            files, batch_size=1, seed=3, first_example=first_example
        )
        return [int(batch["x"][0, 0]) for batch in batches.take(count)]

    whole = stream(2 * 79)
    assert sorted(whole[:79]) == sorted(whole[79:]) == sorted(values(files))
    assert stream(50, first_example=90) == whole[90:140]


@pytest.mark.parametrize("compression", ["none", "gzip"])
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda data: flipped(data, len(data) // 2), "a: record [1-5]"),
        (lambda data: data[:-20], "a: record [1-5]"),
        (lambda data: b"", "a: record 1 is cut short, damaged or missing"),
        (None, "a: no such record file"),
    ],
)
def test_damage_while_reading_is_named(
    tmp_path, path, compression, change, expected
):
    write(tmp_path / "whole", compression)
    data = write(path, compression)
    files = open_files([tmp_path / "whole", path], skip_bad_records=False)
    assert record_damage.find_damage(files.segments) is None
    if change:
        path.write_bytes(change(data))
    else:
        path.unlink()
    batches = input_pipeline.training_batches(files, batch_size=5, seed=1)
    with pytest.raises(DamagedError, match=expected) as error:
        with record_damage.naming_damage(files):
            list(batches.take(4))
    assert "the same command resumes from the last" in str(error.value)


def test_a_file_cut_between_two_records_is_missed(path):
    data = write(path)
    files = open_files([path], skip_bad_records=False)
    path.write_bytes(data[: starts()[3]])
    with pytest.raises(DamagedError, match="a: record 4 is cut short"):
        values_or_damage(files)


def test_new_damage_in_a_damaged_file_is_named(path):
    data = flipped(write(path), starts()[1] + 14)
    path.write_bytes(data)
    files = open_files([path])
    path.write_bytes(flipped(data, starts()[3] + 14))
    assert record_damage.find_damage(files.segments).startswith(
        f"{path}: record 4, at byte {starts()[3]} of {len(data)}, is cut"
    )


def test_a_record_of_another_length_is_named(path):
    # Beyond those that are checked before a run.
    long = feature_spec.encode_examples(
        (feature_spec.FeatureSpec("x", 2),), {"x": [[1, 2]]}
    )
    with tfrecord.RecordWriter(str(path), "none") as writer:
        for record in [*encoded()[:1] * 1000, *long]:
            writer.write(record)
    files = open_files([path])
    with pytest.raises(ValueError, match="a, record 1001: feature x .* with 2"):
        values_or_damage(files)


def test_other_errors_are_left_as_they_are(path):
    data = write(path)
    files = open_files([path])
    path.write_bytes(data[:-1])
    for error in (
        ValueError("x"),
        KeyError("x"),
        tf.errors.InvalidArgumentError(None, None, "x"),
        DamagedError("x"),
    ):
        with pytest.raises(type(error)) as raised:
            with record_damage.naming_damage(files):
                raise error
        assert raised.value is error
    path.write_bytes(data)  # whole again
    lost = tf.errors.DataLossError(None, None, "x")
    with pytest.raises(tf.errors.DataLossError):
        with record_damage.naming_damage(files):
            raise lost
