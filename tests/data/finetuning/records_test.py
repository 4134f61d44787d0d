import dataclasses
import glob
import os
import pathlib

import pytest

from data.finetuning import features, records
from data.records import tfrecord
from data.tasks import InputExample, get_task
from data.text.tokenization import FullTokenizer
from tests.data.tasks.fixtures import FOLDERS, write_files


@pytest.fixture
def cola(tmp_path):
    return get_task("cola", write_files(tmp_path / "data", FOLDERS["cola"]))


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "out/train.tf_record")


def make(task, path, tokenizer, length=16, **options):
    options = features.FeatureOptions.of_task(task, length, **options)
    return records.make_records(task, "train", path, tokenizer, options)


def test_records_are_used_again_if_nothing_changed(cola, tokenizer, path):
    first = make(cola, path, tokenizer)
    assert not first.reused and first.num_records == 4
    written = os.stat(path).st_mtime_ns
    second = make(cola, path, tokenizer)
    assert second.reused and str(second).endswith("written by an earlier run")
    assert os.stat(path).st_mtime_ns == written
    assert dataclasses.replace(second, reused=False) == first


def test_records_are_made_again_if_anything_changed(
    cola, tokenizer, path, goldens, tmp_path
):
    make(cola, path, tokenizer)
    assert not make(cola, path, tokenizer, length=17).reused
    cased = FullTokenizer(str(goldens / "vocab.txt"), do_lower_case=False)
    assert not make(cola, path, cased, length=17).reused
    longer = tmp_path / "vocab.txt"
    longer.write_text((goldens / "vocab.txt").read_text() + "newword\n")
    cased = FullTokenizer(str(longer), do_lower_case=False)
    assert not make(cola, path, cased, length=17).reused
    for reused in False, True:
        report = make(cola, path, cased, length=17, stride=3)
        assert report.reused == reused
    assert not make(cola, path, cased, length=17).reused
    with open(f"{cola.data_dir}/train.tsv", "a") as file:
        file.write("s\t1\t*\tOne more.\n")
    report = make(cola, path, cased, length=17)
    assert not report.reused and report.num_records == 5


def test_an_error_leaves_what_was_there(cola, tokenizer, path):
    make(cola, path, tokenizer)
    written = pathlib.Path(path).read_bytes()
    examples = [InputExample("0", "a", None, "2")]
    options = features.FeatureOptions.of_task(cola, 16)
    with pytest.raises(ValueError, match="example 0: label '2', expected"):
        records.write_records(examples, path, tokenizer, options)
    assert pathlib.Path(path).read_bytes() == written


def test_examples_are_written_while_others_are_read(tokenizer, path):
    sizes = []

    def examples():
        for i in range(6000):
            sizes.extend(map(os.path.getsize, glob.glob(f"{path}*")))
            yield InputExample(str(i), "a b", None, "1")

    options = features.FeatureOptions("classification", ("0", "1"), 64)
    report, _ = records.write_records(examples(), path, tokenizer, options)
    # The writer hands a megabyte over at once.
    assert max(sizes) >= 1 << 20
    assert os.listdir(os.path.dirname(path)) == ["train.tf_record"]
    assert report.num_records == 6000
    assert sum(1 for _ in tfrecord.read_records(path)) == 6000


def test_the_first_examples_are_logged(cola, tokenizer, path, logged):
    make(cola, path, tokenizer)
    assert logged.text.count("*** Example ***") == 3
    assert "label='0')\ntokens: " in logged.text
