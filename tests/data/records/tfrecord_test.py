"""Record files without TensorFlow are TensorFlow's, byte for byte."""

import gzip
import hashlib

import pytest
import tensorflow as tf

from data.records import tfrecord
from data.storage import files
from tests.support.records_support import flipped

# Empty, short, of two bytes' length, and longer than what is written at once.
RECORDS = [b"", b"a", bytes(range(256)) * 2, b"long" * 300_000]


def write(path, records, compression="none"):
    with tfrecord.RecordWriter(str(path), compression) as writer:
        for record in records:
            writer.write(record)
    return writer


def read_by_tensorflow(path, compression=""):
    dataset = tf.data.TFRecordDataset(str(path), compression)
    return list(dataset.as_numpy_iterator())


def test_the_originals_files_are_read(goldens):
    path = goldens / "pretraining_data" / "wordpiece_masking.tf_record"
    expected = read_by_tensorflow(path)
    assert path.read_bytes() == b"".join(map(tfrecord.frame, expected))
    assert list(tfrecord.read_records(str(path))) == expected
    assert len(expected) == 337


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_tensorflow_reads_what_is_written(tmp_path, compression):
    writer = write(tmp_path / "a", RECORDS, compression)
    name = "GZIP" if compression == "gzip" else ""
    assert read_by_tensorflow(tmp_path / "a", name) == RECORDS
    assert list(tfrecord.read_records(str(tmp_path / "a"))) == RECORDS
    assert tfrecord.is_gzip(str(tmp_path / "a")) == (compression == "gzip")
    data = (tmp_path / "a").read_bytes()
    assert writer.num_records == 4
    assert writer.sha256 == hashlib.sha256(data).hexdigest()


def test_gzip_files_hold_neither_time_nor_name(tmp_path):
    write(tmp_path / "a", [b"x"], "gzip")
    data = (tmp_path / "a").read_bytes()
    # RFC 1952: magic, deflate, no flags (no name follows), time 0.
    assert data[:8] == b"\x1f\x8b\x08" + b"\0" * 5
    assert gzip.decompress(data) == tfrecord.frame(b"x")


def test_a_plain_file_may_begin_like_gzip(tmp_path):
    # 0x8b1f bytes: little-endian, the first two bytes of a gzip file.
    write(tmp_path / "a", [bytes(0x8B1F)])
    assert (tmp_path / "a").read_bytes()[:2] == b"\x1f\x8b"
    assert list(tfrecord.read_records(str(tmp_path / "a"))) == [bytes(0x8B1F)]


def test_gzip_files_one_after_the_other_are_one(tmp_path):
    # `cat a.gz b.gz`: TensorFlow reads on, so must the count.
    data = b"".join(gzip.compress(tfrecord.frame(x)) for x in (b"x", b"y"))
    (tmp_path / "a").write_bytes(data)
    assert read_by_tensorflow(tmp_path / "a", "GZIP") == [b"x", b"y"]
    assert list(tfrecord.read_records(str(tmp_path / "a"))) == [b"x", b"y"]


def read_damaged(path, data):
    """What the reader says of a file, after any number of records."""
    path.write_bytes(data)
    with pytest.raises(ValueError) as error:
        list(tfrecord.read_records(str(path)))
    return str(error.value).removeprefix(f"{path}: ")


@pytest.fixture
def path(tmp_path):
    """Records of 3 and 4 bytes, which take 19 and 20 in the file."""
    write(tmp_path / "a", [b"old", b"mill"])
    return tmp_path / "a"


@pytest.fixture
def zipped(tmp_path):
    write(tmp_path / "a.gz", [b"old", b"mill"], "gzip")
    return tmp_path / "a.gz"


def test_every_cut_of_a_plain_file_is_found(path):
    data = path.read_bytes()
    for end in {*range(1, 39)} - {19}:  # 19 is between two records
        place = "1, at byte 0" if end < 19 else "2, at byte 19"
        found = read_damaged(path, data[:end])
        assert found.startswith(f"record {place} of {end}, is cut short or dam")


def test_every_wrong_byte_of_a_plain_file_is_found(path):
    data = path.read_bytes()
    for i in range(39):
        place = "1, at byte 0" if i < 19 else "2, at byte 19"
        found = read_damaged(path, flipped(data, i, 1))
        assert found.startswith(f"record {place} of 39, is cut short or dam")


def test_every_cut_of_a_gzip_file_is_found(zipped):
    data = zipped.read_bytes()
    for end in range(3, len(data)):
        found = read_damaged(zipped, data[:end])
        assert " or a later one is cut short" in found
    found = read_damaged(zipped, data[:2])
    assert "record 1, at byte 0 of 2, is cut" in found


def test_no_wrong_byte_of_a_gzip_file_changes_a_record(zipped):
    data = zipped.read_bytes()
    harmless = []
    for i in range(len(data)):
        zipped.write_bytes(flipped(data, i))
        try:
            records = list(tfrecord.read_records(str(zipped)))
        except ValueError:
            continue
        assert records == [b"old", b"mill"]
        harmless.append(i)
    # Time, level, system; the unused bits between contents and trailer (8).
    assert set(harmless) <= {*range(4, 10), len(data) - 9}


def test_garbage_behind_a_gzip_file_is_found(zipped):
    found = read_damaged(zipped, zipped.read_bytes() + b"garbage")
    assert found.startswith("record 1 or a later one is cut short or damaged;")


def test_a_full_disk_is_an_error():
    with pytest.raises(OSError, match="No space left"):
        write("/dev/full", [b"x"])
    with pytest.raises(OSError, match="No space left"):
        write("/dev/full", [b"x" * 10_000] * 1000)


def test_an_error_inside_is_not_hidden_by_a_full_disk():
    with pytest.raises(KeyError):
        with tfrecord.RecordWriter("/dev/full") as writer:
            writer.write(b"x")
            raise KeyError


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_records_in_a_store_that_is_no_disk(compression):
    # TensorFlow's file system in memory replaces gs://.
    path = f"ram://tfrecord_test/{compression}"
    writer = write(path, RECORDS, compression)
    assert list(tfrecord.read_records(path)) == RECORDS
    assert files.sha256(path) == writer.sha256
