import shutil

import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from data import tfds as tfds_reading
from tests.support.tfds_support import PLAIN, TEXT, prepare_texts


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tfds")
    prepare_texts(folder, "my_set", PLAIN)
    return str(folder)


def read(name, data_dir, split="train", text_key=None):
    opened = tfds_reading.open_text(name, split, str(data_dir), text_key)
    return list(opened.texts)


def read_examples(name, data_dir):
    return list(tfds_reading.read_examples(name, "train", str(data_dir)))


def test_a_part_of_a_split_is_the_beginning_of_the_whole(data_dir):
    whole = read("my_set", data_dir)
    assert sorted(whole) == sorted(PLAIN)
    assert read("my_set", data_dir, "train[:10%]") == whole[:4]


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "wiki40c/en",
            {},
            r": .*no such data set \(the nearest is wiki40b\), and none is "
            "prepared in /.*; for yours give --tfds_data_dir",
        ),
        ("wiki40b/xx", {}, r" \(looked in /.*config"),
        ("my_set:9.9.9", {}, ": .*no such data set"),
        ("my set!", {}, " .*must be of the following format"),
        ("my_set", {"split": "text"}, ": there is no split 'text'; it has"),
        (
            "my_set",
            {"text_key": "id"},
            " has no string feature 'id'; give another with --tfds_text_key. "
            r"Its features: FeaturesDict\(\{ 'id': int64",
        ),
    ],
)
def test_what_cannot_be_found_is_an_error(data_dir, name, options, message):
    with pytest.raises(ValueError, match=f"--tfds={name}{message}"):
        read(name, data_dir, **options)


def test_the_only_string_is_the_text_and_of_two_one_must_be_named(tmp_path):
    prepare_texts(tmp_path, "one", ["a", "b"], body=TEXT, id=tf.int64)
    prepare_texts(tmp_path, "two", ["a", "b"], body=TEXT, title=TEXT)
    assert sorted(read("one", tmp_path)) == ["a", "b"]
    with pytest.raises(ValueError, match="no string feature 'text'; give"):
        read("two", tmp_path)
    assert sorted(read("two", tmp_path, text_key="title")) == ["a", "b"]


@pytest.mark.parametrize("reader", [read, read_examples])
def test_text_that_is_not_utf8_is_an_error(tmp_path, reader):
    prepare_texts(tmp_path, "latin", ["schön".encode("latin-1")] * 2)
    message = "--tfds=latin/1.2.0: byte 4 of a text in example 1 of train is 0x"
    with pytest.raises(ValueError, match=message):
        reader("latin", tmp_path)


@pytest.mark.parametrize("reader", [read, read_examples])
def test_a_damaged_data_set_is_an_error(data_dir, tmp_path, reader):
    shutil.copytree(f"{data_dir}/my_set", tmp_path / "my_set")
    (shard,) = (tmp_path / "my_set/1.2.0").glob("*-00001-of-*")
    shard.write_bytes(shard.read_bytes()[:-1])
    fault = "1.2.0 cannot be read after example .*truncated.*prepare it"
    with pytest.raises(ValueError, match=fault):
        reader("my_set", tmp_path)


class OfflineSet(tfds.core.GeneratorBasedBuilder):
    """Known, but not prepared, and never will be."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        return tfds.core.DatasetInfo(
            builder=self, features=tfds.features.FeaturesDict({"text": TEXT})
        )

    def _split_generators(self, _):
        raise OSError("no network")

    def _generate_examples(self):
        yield from ()


def test_a_data_set_that_cannot_be_had_says_how_to_prepare_it(tmp_path):
    fault = (
        f"--tfds=offline_set is not prepared in {tmp_path}/offline_set/1.0.0, "
        "and .*OSError: no network.*`tfds build offline_set --data_dir=DIR`"
    )
    with pytest.raises(OSError, match=f"{fault}.*--tfds_data_dir=DIR"):
        read("offline_set", tmp_path)
