"""What holds for every registered task, on a few lines of its own files."""

import numpy as np
import pytest
import tensorflow as tf

from data.finetuning import features
from data.finetuning import records as task_records
from data.records import reading, tfrecord
from data.tasks import KINDS, get_task, task_names
from data.tasks.task import task_class
from tests.data.tasks.fixtures import FOLDERS, write_files

GLUE_FILES = {
    *("CoLA.tsv", "SST-2.tsv", "MRPC.tsv", "STS-B.tsv", "QQP.tsv"),
    *("MNLI-m.tsv", "MNLI-mm.tsv", "QNLI.tsv", "RTE.tsv", "WNLI.tsv"),
    "AX.tsv",
}


@pytest.fixture(params=sorted(FOLDERS))
def task(request, tmp_path):
    folder = write_files(tmp_path, FOLDERS[request.param])
    return get_task(request.param, folder)


def all_sets(task):
    return [*task.train_sets, *task.dev_sets, *task.test_sets]


def test_every_task_has_its_fixture():
    assert set(task_names()) == set(FOLDERS)


def test_every_set_is_read_twice_alike_with_names_of_its_own(task):
    assert task.kind in KINDS
    for set_name in all_sets(task):
        examples = list(task.examples(set_name))
        assert examples == list(task.examples(set_name))
        assert len({example.guid for example in examples}) == len(examples) > 0


def test_right_answers_have_the_best_score(task):
    for set_name in [*task.train_sets, *task.dev_sets]:
        gold = task.gold(set_name)
        scores = task.score(gold, gold)
        assert tuple(scores) == task.metrics
        assert scores == pytest.approx(dict.fromkeys(task.metrics, 1.0))


def test_every_set_makes_records_that_are_read_back(task, tokenizer, tmp_path):
    options = features.FeatureOptions.of_task(task, 24)
    for set_name in all_sets(task):
        path = str(tmp_path / f"{set_name}.tf_record")
        report, _ = task_records.write_records(
            task.examples(set_name), path, tokenizer, options
        )
        assert report.num_examples == len(list(task.examples(set_name)))
        records = list(tfrecord.read_records(path))
        assert len(records) == report.num_records >= report.num_examples
        batch = reading.parse_batch(options.specs, tf.constant(records))
        rows = features.Converter(tokenizer, options).rows(
            task.examples(set_name)
        )
        for number, row in enumerate(rows):
            assert row.keys() == {spec.name for spec in options.specs}
            for spec in options.specs:
                wanted = np.array(row[spec.name], spec.dtype).tolist()
                assert batch[spec.name][number].numpy().tolist() == wanted


def test_a_missing_file_is_named_with_its_task(task):
    empty = get_task(task.name, f"{task.data_dir}/none")
    for set_name in all_sets(task):
        with pytest.raises(FileNotFoundError) as error:
            list(empty.examples(set_name))
        assert f"--task_name={task.name}, {set_name} set: " in str(error.value)
        assert f"--data_dir={task.data_dir}/none" in str(error.value)


def test_submissions_are_of_glue_and_as_its_server_wants_them(task):
    for set_name in task.submission_files:
        examples = list(task.examples(set_name))
        answer = 2.71828 if task.kind == "regression" else task.labels[-1]
        submission = task.submission(set_name, [answer] * len(examples))
        shown = "2.718" if task.kind == "regression" else answer
        assert submission == "index\tprediction\n" + "".join(
            f"{i}\t{shown}\n" for i in range(len(examples))
        )


def test_every_file_of_glue_has_its_task():
    made = [
        file_name
        for name in task_names()
        for file_name in task_class(name).submission_files.values()
    ]
    assert sorted(made) == sorted(GLUE_FILES)
