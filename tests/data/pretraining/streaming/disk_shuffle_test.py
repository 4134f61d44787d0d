"""Records shuffled on disk: all come back once, in an order of the seed."""

import contextlib
import itertools

import numpy as np
import pytest

from data.pretraining.streaming import disk_shuffle
from data.records import tfrecord
from tests.data.pretraining.support import assert_share


@pytest.fixture(autouse=True)
def small_buckets(monkeypatch):
    monkeypatch.setattr(disk_shuffle, "BUCKET_BYTES", 1000)


def records(first, last):
    return [str(i).encode() for i in range(first, last)]


def open_shuffle(path, blocks, num_bytes=5500, seed=0):
    rng = np.random.default_rng(seed)
    return contextlib.closing(
        disk_shuffle.shuffled(blocks, path and str(path), num_bytes, rng)
    )


def shuffle(folder, num_bytes, seed=0, num_records=300):
    blocks = [
        records(first, min(first + 50, num_records))
        for first in range(0, num_records, 50)
    ]
    with open_shuffle(folder / "out", [*blocks, []], num_bytes, seed) as found:
        return list(found)


@pytest.mark.parametrize("num_bytes", [0, 999, 1000, 5500, 10**6])
def test_every_record_comes_back_once(tmp_path, num_bytes):
    # 10**6: far more buckets than records, most of them empty.
    shuffled = shuffle(tmp_path, num_bytes)
    assert sorted(shuffled) == sorted(records(0, 300))
    assert shuffled != records(0, 300)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("num_bytes", [0, 5500])
def test_the_order_is_a_function_of_the_seed(tmp_path, num_bytes):
    first, same, other = (shuffle(tmp_path, num_bytes, s) for s in (1, 1, 2))
    assert first == same != other


@pytest.mark.parametrize("num_bytes", [0, 2500])
def test_every_order_is_equally_likely(tmp_path, num_bytes):
    orders = [
        tuple(shuffle(tmp_path, num_bytes, seed, num_records=3))
        for seed in range(300)
    ]
    for order in itertools.permutations(records(0, 3)):
        assert_share(orders.count(order), 300, 1 / 6)


def test_one_bucket_at_a_time_leaves_the_disk(tmp_path):
    added, folders = records(0, 300), []

    def blocks():
        yield added
        (folder,) = tmp_path.iterdir()
        folders.append(folder)
        on_disk = [path.stat().st_size for path in folder.iterdir()]
        assert len(on_disk) == 6 and sum(on_disk) == (
            sum(map(len, map(tfrecord.frame, added)))
        )
        # Multinomial: each bucket has a sixth.
        for number in range(6):
            path = folder / f"{number:05d}"
            num_records = len(list(tfrecord.read_records(str(path))))
            assert_share(num_records, 300, 1 / 6)

    with open_shuffle(tmp_path / "out", blocks()) as shuffled:
        left = [len(list(folders[0].iterdir())) for _ in shuffled]
    assert sorted(set(left)) == [*range(6)]
    assert left == sorted(left, reverse=True)


def test_without_a_place_the_buckets_are_temporary_files(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with open_shuffle(None, [records(0, 9)]) as shuffled:
        first = next(shuffled)
        assert len(list(tmp_path.iterdir())) == 1
        assert sorted([first, *shuffled]) == sorted(records(0, 9))
    assert not list(tmp_path.iterdir())


def test_a_full_disk_is_told_with_its_place(tmp_path):
    folders = []

    def blocks():
        (folder,) = tmp_path.iterdir()
        folders.append(folder)
        for number in range(6):  # writing to it fails as on a full disk
            (folder / f"{number:05d}").symlink_to("/dev/full")
        yield records(0, 300)

    with pytest.raises(OSError, match="No space left.*free some") as error:
        with open_shuffle(tmp_path / "out", blocks()) as shuffled:
            list(shuffled)
    assert error.match(f"cannot write {folders[0]}, ")
    assert not list(tmp_path.iterdir())
