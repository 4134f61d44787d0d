"""A run that learns from a teacher: what is kept, resumed and refused."""

import functools
import json
import os
import shutil
import types

import numpy as np
import pytest
import tensorflow as tf

import modeling
from data.records import tfrecord
from data.tasks import get_task
from data.text.packing import INPUTS
from modeling import TaskModel
from tests.support import rounding
from tests.support.classifier_support import write_table
from tests.support.finished_runs import CLASSIFIER
from tests.support.model_folder_support import add_to_weight, change_description
from tests.support.pretraining_support import assert_same_checkpoint
from tests.support.run_files import contents_of, write_json_lines
from tests.training import squad_support
from tests.training.finetuning_support import (
    Stopped,
    on_one_and_two_devices,
    options_of,
    stop_at,
)
from tests.training.support import recorded_metrics
from training.config.distill_options import DistillOptions
from training.config.finetuning_options import TrialOptions
from training.finetuning import distilling
from training.many_runs import trials
from training.runs import classifier, questions

RECORDS = "distilled.tf_record"


def student_of(goldens, folder, teacher, kind="single", **changes):
    """Options of a student in folder/out, on the data of its teacher."""
    options = options_of(goldens, folder, kind, CLASSIFIER, do_predict=False)
    places = {
        "data_dir": str(teacher / "data"),
        "teacher_dir": str(teacher / "out"),
    }
    return options.replace(**places | changes)


def never(monkeypatch):
    """Lets no teacher compute."""
    monkeypatch.setattr(distilling.Teacher, "_logits", None)


@pytest.fixture(scope="module")
def student(goldens, finished_classifier, tmp_path_factory):
    """A finished student, its options, and the number of its steps.

    It learns from eight texts without labels, too.
    """
    folder = tmp_path_factory.mktemp("student")
    more = folder / "more.jsonl"
    write_json_lines(more, [{"text": "the old mill " * n} for n in range(1, 9)])
    options = student_of(
        goldens, folder, finished_classifier, unlabeled_file=str(more)
    )
    with recorded_metrics() as metrics:
        classifier.run(options)
    return folder / "out", options, len(metrics["loss"])


def test_records_have_the_teachers_logits(student, finished_classifier):
    folder, _, num_steps = student
    assert num_steps == 2 * (24 + 8) / 8
    loaded = modeling.load(str(finished_classifier / "out"))
    plain = list(tfrecord.read_records(str(folder / "train.tf_record")))
    taught = list(tfrecord.read_records(str(folder / RECORDS)))
    plain += tfrecord.read_records(str(folder / "unlabeled.tf_record"))
    assert all(a.startswith(b) for a, b in zip(taught, plain, strict=True))
    features = {name: tf.io.FixedLenFeature([24], tf.int64) for name in INPUTS}
    features["is_labeled"] = tf.io.FixedLenFeature([1], tf.int64)
    features["teacher_logits"] = tf.io.FixedLenFeature([2], tf.float32)
    found = tf.io.parse_example(taught, features)
    assert found["is_labeled"].numpy().tolist() == [[1]] * 24 + [[0]] * 8
    batch = {name: tf.cast(found[name], tf.int32) for name in INPUTS}
    assert 0 < found["input_mask"].numpy().mean() < 1  # there is padding
    rounding.assert_equal(found["teacher_logits"], loaded.model.logits(batch))


def test_a_later_command_reads_the_kept_scores(student, tmp_path, monkeypatch):
    folder, options, _ = student
    shutil.copytree(folder, tmp_path / "out")
    later = options.replace(
        output_dir=str(tmp_path / "out"),
        num_train_epochs=3.0,
        teacher_dir="",
        unlabeled_file="",
        given=frozenset(["do_train"]),
    )
    never(monkeypatch)
    with recorded_metrics() as metrics:
        assert classifier.run(later).step == 12
    assert len(metrics["loss"]) == 4  # it went on
    described = json.loads((tmp_path / "out/task.json").read_text())
    taught = options.distillation.remembered.items()
    assert described["distillation"].items() >= taught


@pytest.mark.all
def test_a_stopped_run_ends_as_an_uninterrupted_one(
    student, tmp_path, monkeypatch
):
    folder, options, _ = student
    options = options.replace(output_dir=str(tmp_path / "out"))
    with pytest.raises(Stopped):
        classifier.run(options.replace(on_step=stop_at(3)))
    never(monkeypatch)
    classifier.run(options)
    assert_same_checkpoint(folder, tmp_path / "out")


@pytest.mark.all
def test_without_weight_it_is_the_run_without_a_teacher(
    goldens, finished_classifier, tmp_path
):
    unused = {"distill_weight": 0.0, "distill_temperature": 1.0}
    classifier.run(student_of(goldens, tmp_path, finished_classifier, **unused))
    assert_same_checkpoint(finished_classifier / "out", tmp_path / "out")


def test_another_teacher_or_weight_is_refused_on_resume(
    student, finished_classifier, tmp_path
):
    folder, options, _ = student
    kept = contents_of(folder)
    other, more = tmp_path / "other", tmp_path / "more.jsonl"
    write_json_lines(more, [{"text": "the old mill "}])
    shutil.copytree(finished_classifier / "out", other)
    add_to_weight(other, "output_bias")
    drops = {**options.task_options, "drop_missing": True}
    for change, what in (
        ({"distill_weight": 0.75}, "distill_weight 0.5 -> 0.75"),
        ({"distill_temperature": 3.0}, "distill_temperature 2.0 -> 3.0"),
        ({"teacher_dir": str(other)}, r"teacher \(sha256\)"),
        ({"unlabeled_file": str(more)}, r"unlabeled \(sha256\)"),
        ({"task_options": drops}, "drop_missing False -> True"),
    ):
        with pytest.raises(ValueError, match=f"{what}.*another --output_dir"):
            classifier.run(options.replace(**change))
    assert contents_of(folder) == kept


def refused(options, match):
    with pytest.raises((ValueError, OSError), match=match):
        classifier.run(options)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"teacher_dir": "/none"}, "^--teacher_dir: .*no such folder"),
        ({"unlabeled_file": "/none"}, "/none: no such --unlabeled_file"),
        ({"unlabeled_file": os.devnull}, "^--unlabeled_file=.* has no rows"),
        (
            {"unlabeled_file": __file__, "class_weights": (1.0, 2.0)},
            "^--class_weights .*leave one",
        ),
        ({"do_lower_case": False}, "^--teacher_dir: .*do_lower_case.*same "),
        ({"task_options": {"labels": ["l1", "l0"]}}, "labels .*the same task"),
        ({"task_options": {"kind": "multilabel"}}, "kind classification -> "),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_written(
    goldens, finished_classifier, tmp_path, changes, match
):
    options = student_of(goldens, tmp_path, finished_classifier, **changes)
    refused(options, match)
    assert not list((tmp_path / "out").glob("*"))


@pytest.mark.parametrize(
    "change", [{"distill_weight": 0.25}, {"unlabeled_file": "x"}]
)
def test_learning_needs_a_teacher(change):
    (flag,) = change
    with pytest.raises(ValueError, match=f"^--{flag} needs --teacher_dir"):
        DistillOptions(**change)


def test_unfit_teachers_are_refused(goldens, finished_classifier, tmp_path):
    teacher = tmp_path / "teacher"
    shutil.copytree(finished_classifier, teacher)
    options = student_of(goldens, tmp_path, teacher)

    change = functools.partial(change_description, teacher / "out")
    change(is_pair=True)
    refused(options, "^--teacher_dir: .*is_pair True -> False")
    change(weights="")
    refused(options, "^--teacher_dir: .*not finished")
    change(weights="model.ckpt-6", task_name="cola")
    mrpc = options.replace(
        task_name="mrpc",
        task_options={},
        data_dir=str(goldens / "classifier/MRPC"),
        unlabeled_file=__file__,
    )
    refused(mrpc, "task_name cola -> mrpc")
    change(task_name="mrpc", is_pair=True, labels=["0", "1"])
    refused(mrpc, "^--unlabeled_file=.*tables, or leave it out")
    change(task_name="tsv", is_pair=False, labels=["l0", "l1"])
    tokens = (teacher / "out/vocab.txt").read_text().splitlines()
    tokens[-1], tokens[-2] = tokens[-2:]
    (teacher / "out/vocab.txt").write_text("\n".join(tokens) + "\n")
    refused(options, r"^--teacher_dir: .*vocab \(sha256\).*vocabulary")
    assert not list((tmp_path / "out").glob("*"))


def test_sentences_of_conll_are_added_too(tmp_path):
    path = tmp_path / "more.txt"
    path.write_text("One O\ntwo O\n\n")
    options = types.SimpleNamespace(
        distillation=DistillOptions(
            teacher_dir=str(tmp_path), unlabeled_file=str(path)
        ),
        task_options={"labels": ["O"]},
        task_name="conll",
        data_dir=str(tmp_path),
        class_weights=(),
    )
    task = get_task("conll", str(tmp_path), labels=["O"])
    (sentence,) = distilling._unlabeled(options, task).examples("test")
    assert list(sentence.words) == ["One", "two"]


@pytest.mark.all
@pytest.mark.parametrize(
    "kind", ["pair", "regression", "multilabel", "choice", "tagging"]
)
def test_every_kind_learns_from_a_teacher(goldens, tmp_path, kind):
    write_table(tmp_path / "data", kind)
    teacher = options_of(goldens, tmp_path, kind, CLASSIFIER, do_predict=False)
    classifier.run(teacher)
    (tmp_path / "s").mkdir()
    options = student_of(
        goldens,
        tmp_path / "s",
        tmp_path,
        kind,
        distill_weight=1.0,
        num_train_epochs=30.0,
        unlabeled_file=str(tmp_path / "data/test.jsonl"),
    )
    with recorded_metrics() as metrics:
        classifier.run(options)
    losses = metrics["loss"]
    assert np.mean(losses[-5:]) < 0.5 * np.mean(losses[:5])


@pytest.mark.all
def test_questions_learn_from_a_teacher(goldens, tmp_path, monkeypatch):
    folder = tmp_path / "teacher"
    teacher = squad_support.make_options(goldens, folder, do_train=True)
    questions.run(teacher)
    options = teacher.replace(
        output_dir=str(tmp_path / "out"),
        teacher_dir=str(folder),
        distill_weight=1.0,
    )
    with recorded_metrics() as metrics:
        questions.run(options)
    losses = metrics["loss"]
    assert 0 < losses[0] < 1 and np.isfinite(losses).all()
    # A second run in the folder finds all it needs.
    never(monkeypatch)
    given = frozenset(["train_file", "predict_file", "do_train"])
    questions.run(options.replace(**vars(DistillOptions()), given=given))
    described = json.loads((tmp_path / "out/task.json").read_text())
    assert described["distillation"]["distill_weight"] == 1.0
    of_2 = options.replace(
        version_2_with_negative=True, output_dir=str(tmp_path / "new")
    )
    with pytest.raises(ValueError, match="^--teacher_dir: .*SQuAD -> SQuAD 2"):
        questions.run(of_2)


@pytest.mark.all
def test_trials_ask_the_teacher_once(
    goldens, finished_classifier, tmp_path, monkeypatch
):
    asked, ask = [], distilling.Teacher._logits

    def counted(self, *arguments):
        asked.append(self.folder)
        return ask(self, *arguments)

    monkeypatch.setattr(distilling.Teacher, "_logits", counted)
    options = student_of(goldens, tmp_path, finished_classifier)
    trials.run(options, TrialOptions(num_trials=2))
    assert len(asked) == 1
    assert (tmp_path / "out" / RECORDS).exists()


def train_a_student(goldens, out, device):
    """Losses without dropout; its teacher is trained on one device."""
    TaskModel.__init__.__kwdefaults__["head_dropout"] = 0.0
    write_table(out / "data", "tagging")
    options = options_of(goldens, out, "tagging", do_predict=False)
    classifier.run(options)
    student = options.replace(
        output_dir=str(out / "student"),
        teacher_dir=str(out / "out"),
        unlabeled_file=str(out / "data/test.jsonl"),
        group_by_length=True,
        device=device,
    )
    with recorded_metrics() as metrics:
        classifier.run(student)
    return metrics["loss"].tolist()


@pytest.mark.all
def test_two_devices_train_alike(goldens, tmp_path):
    one, two = on_one_and_two_devices(train_a_student, goldens, tmp_path)
    assert len(one) == 7
    rounding.assert_equal(one, two)


def test_options_hold_whole_paths():
    options = DistillOptions(teacher_dir="x", unlabeled_file="gs://a/b")
    assert options.teacher_dir.endswith("/x")
    assert options.teacher_dir.startswith("/")
    assert options.unlabeled_file == "gs://a/b"
    assert DistillOptions().remembered == {}
