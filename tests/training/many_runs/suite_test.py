"""Many tasks by one command: with a formula for a training, and a real one."""

import json
import os
import pathlib
from unittest import mock

import pytest
import tensorflow as tf

from data.tasks import get_task
from training.config.finetuning_options import TrialOptions
from training.many_runs import suite, trials
from training.many_runs.suite import Score
from training.runs import classifier
from training.runs.classifier import Outcome
from training.start import found_files

ONCE = TrialOptions()
# The paper's Table 1 in its order, with the averages it prints.
TABLE_1 = {
    "GPT": ([82.1, 81.4, 70.3, 87.4, 91.3, 45.4, 80.0, 82.3, 56.0], 75.1),
    "BASE": ([84.6, 83.4, 71.2, 90.5, 93.5, 52.1, 85.8, 88.9, 66.4], 79.6),
    "LARGE": ([86.7, 85.9, 72.1, 92.7, 94.9, 60.5, 86.5, 89.3, 70.1], 82.1),
}


@pytest.mark.parametrize("model", TABLE_1)
def test_the_average_is_the_papers(model):
    columns, average = TABLE_1[model]
    scores = [
        Score(task, "dev", "accuracy", value / 100, 1)
        for task, value in zip(["MNLI", *suite.GLUE[:-1]], columns, strict=True)
    ]
    scores.append(Score("WNLI", "dev", "accuracy", 0.0, 1))
    assert round(100 * suite.average(scores), 1) == average
    assert suite.average(scores[-1:]) is None


def make_glue(folder, names):
    """Empty folders of tasks."""
    for name in names:
        (folder / name).mkdir(parents=True)


@pytest.fixture
def options(options, tmp_path):
    """All works of the tasks of a folder."""
    works = dict.fromkeys(("do_train", "do_eval", "do_predict"), True)
    data_dir = str(tmp_path / "glue")
    return options.replace(data_dir=data_dir, max_seq_length=64, **works)


def run_suite(options, task_name, asked=ONCE, **changes):
    suite.run(options.replace(task_name=task_name, **changes), asked)


@pytest.fixture
def ran(monkeypatch):
    """In place of `Trials`: scores, files for the server; the calls."""
    calls = []

    def run(options, trial_options):
        calls.append((options, trial_options))
        if options.data_dir and "diverges" in os.listdir(options.data_dir):
            raise FloatingPointError("step 3: loss became nan")
        task = get_task(
            options.task_name, options.data_dir, **options.task_options
        )
        folder = pathlib.Path(options.finetuning.train.output_dir)
        folder.mkdir(parents=True, exist_ok=True)
        for file_name in task.submission_files.values():
            (folder / file_name).write_text(options.task_name)
        values = {name: 0.1 * (1 + i) for i, name in enumerate(task.metrics)}
        scores = options.do_eval or options.watches
        asked = task.dev_sets if scores else ()
        results = {set_name: values for set_name in asked}
        return Outcome(7, results, f"{folder}/model.ckpt-7")

    monkeypatch.setattr(trials, "run", run)
    monkeypatch.setattr(trials, "run_once", lambda options: run(options, ONCE))
    monkeypatch.setattr(trials, "check", lambda *_: None)
    return calls


def test_all_of_glue_is_one_table(options, tmp_path, ran, logged):
    make_glue(
        tmp_path / "glue",
        ["cola", "SST-2", "MRPC", "sts_b", "QQP", "MNLI", "QNLI", "WNLI"],
    )
    (tmp_path / "glue/diagnostic").mkdir()
    (tmp_path / "glue/diagnostic/diagnostic.tsv").write_text("")
    run_suite(options, "glue", TrialOptions(num_trials=3))
    out = tmp_path / "out"
    assert "has no folder RTE: left out" in logged.text
    names = [options.task_name for options, _ in ran]
    assert " ".join(names) == "MNLI QQP QNLI SST-2 CoLA STS-B MRPC WNLI AX"
    assert ran[4][0].data_dir == str(tmp_path / "glue/cola")
    assert ran[4][0].finetuning.train.output_dir == str(out / "CoLA")
    assert {trial_options for _, trial_options in ran[:8]} == {
        TrialOptions(num_trials=3)
    }
    # The diagnostic set is answered by MNLI's model, once.
    ax, once = ran[8]
    assert once == ONCE
    assert ax.finetuning.init_checkpoint == str(out / "MNLI/model.ckpt-7")
    assert not ax.do_train
    check_glue_table(out, logged.text)


def submitted(out):
    """The names of the files for GLUE's server."""
    return " ".join(sorted(x.stem for x in (out / "submission").iterdir()))


def check_glue_table(out, log):
    """The table, its JSON file and the files for GLUE's server."""
    assert (out / "glue.tsv").read_text().splitlines() == [
        "task\tdev set\tmetric\tscore x 100\tstep",
        "MNLI\tdev_matched\taccuracy\t10.0\t7",
        "MNLI\tdev_mismatched\taccuracy\t10.0\t7",
        "QQP\tdev\tf1\t10.0\t7",
        "QNLI\tdev\taccuracy\t10.0\t7",
        "SST-2\tdev\taccuracy\t10.0\t7",
        "CoLA\tdev\tmatthews\t10.0\t7",
        "STS-B\tdev\tspearman\t20.0\t7",
        "MRPC\tdev\tf1\t10.0\t7",
        "WNLI\tdev\taccuracy\t10.0\t7",
        "average\t\t\t11.2\t",  # of 0.1 seven times and 0.2: 0.1125
    ]
    found = json.loads((out / "glue.json").read_text())
    assert (found["num_tasks"], found["missing"]) == (8, ["RTE"])
    assert "(8 of 9 tasks)" in log
    assert "(WNLI is not in the average, as in the paper)" in log
    names = "AX CoLA MNLI-m MNLI-mm MRPC QNLI QQP SST-2 STS-B WNLI"
    assert submitted(out) == names
    assert (out / "submission/AX.tsv").read_text() == "AX"


def test_one_failing_task_does_not_lose_the_others(options, tmp_path, ran):
    make_glue(tmp_path / "glue", ["CoLA", "RTE", "MRPC"])
    (tmp_path / "glue/CoLA/diverges").write_text("")
    with pytest.raises(ValueError, match="^1 of 3 tasks failed: CoLA: step 3"):
        run_suite(options, "CoLA,rte,MRPC")
    found = json.loads((tmp_path / "out/glue.json").read_text())
    assert [score["task"] for score in found["scores"]] == ["MRPC", "RTE"]
    assert found["failures"] == {"CoLA": "step 3: loss became nan"}
    assert submitted(tmp_path / "out") == "MRPC RTE"


def test_a_lost_tpu_fails_no_task(options, tmp_path, ran, monkeypatch):
    lost = tf.errors.UnavailableError(None, None, "Socket closed")
    monkeypatch.setattr(trials, "run", mock.Mock(side_effect=lost))
    make_glue(tmp_path / "glue", ["CoLA", "RTE"])
    with pytest.raises(tf.errors.UnavailableError):
        run_suite(options, "CoLA,RTE")
    assert not (tmp_path / "out/glue.json").exists()


@pytest.fixture
def of_two_workers(monkeypatch):
    """The chief of two, both of which do the same; where they met."""
    points = []
    monkeypatch.setattr(suite, "num_workers", lambda strategy: 2)
    monkeypatch.setattr(
        trials.devices, "check_together", lambda _, point: points.append(point)
    )
    return points


def test_workers_meet_at_each_task(options, tmp_path, ran, of_two_workers):
    make_glue(tmp_path / "glue", ["CoLA", "RTE", "MRPC"])
    # The loss is the same for all workers, so all of them continue.
    (tmp_path / "glue/CoLA/diverges").write_text("")
    with pytest.raises(ValueError, match="^1 of 3 tasks failed: CoLA"):
        run_suite(options, "CoLA,RTE,MRPC")
    assert of_two_workers == [
        "Task CoLA, with none failed before",
        "Task RTE, with CoLA failed before",
        "Task MRPC, with CoLA failed before",
    ]


@pytest.mark.parametrize(
    "error",
    [
        OSError("CoLA is in use"),
        ValueError("CoLA: no such label"),
        tf.errors.UnavailableError(None, None, "worker 1 is gone"),
    ],
)
def test_of_several_workers_none_goes_on_alone(
    options, tmp_path, ran, monkeypatch, of_two_workers, error
):
    monkeypatch.setattr(trials, "run", mock.Mock(side_effect=error))
    make_glue(tmp_path / "glue", ["CoLA", "RTE"])
    with pytest.raises(type(error)) as caught:
        run_suite(options, "CoLA,RTE")
    assert caught.value is error
    assert of_two_workers == ["Task CoLA, with none failed before"]
    assert not (tmp_path / "out/glue.json").exists()


def test_one_task_is_run_as_it_is(options, tmp_path, ran):
    make_glue(tmp_path / "glue", ["RTE"])
    run_suite(options, "RTE")
    assert ran == [(options.replace(task_name="RTE"), ONCE)]


@pytest.mark.parametrize(
    ("task_name", "message"),
    [
        ("CoLA,RTE", r"has no folder RTE; expected one a task, such as"),
        ("CoLA,cola", "--task_name=CoLA,cola: expected each task once"),
        ("CoLA,AX", "MNLI's model answers AX; name MNLI, too"),
        ("CoLA,mrcp", "--task_name=mrcp: no such task .the nearest is mrpc"),
        ("CoLA,MRPC,xyz", "--task_name=xyz: no such task"),
    ],
)
def test_what_is_named_must_exist(options, tmp_path, ran, task_name, message):
    make_glue(tmp_path / "glue", ["CoLA", "MRPC", "xyz"])
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        run_suite(options, task_name)
    assert not ran


def test_a_folder_without_any_task_is_refused(options, tmp_path, ran):
    make_glue(tmp_path / "glue", ["train"])
    with pytest.raises(FileNotFoundError, match="has no folder MNLI, QQP, QNL"):
        run_suite(options, "GLUE")


def test_a_missing_diagnostic_set_is_refused_at_once(options, tmp_path, ran):
    make_glue(tmp_path / "glue", ["MNLI"])
    message = "--data_dir=.* has no diagnostic.tsv for .* leave AX out"
    with pytest.raises(FileNotFoundError, match=message):
        run_suite(options, "MNLI,AX")
    assert not ran
    # Without --do_predict nothing would read it.
    run_suite(options, "MNLI,AX", do_predict=False)
    assert len(ran) == 1


@pytest.mark.parametrize(
    ("task_name", "count"), [("MNLI,AX", 1), ("AX,mnli", 1), ("GLUE", 9)]
)
def test_tensorflow_datasets_has_the_diagnostic_set(
    options, tmp_path, ran, task_name, count
):
    told = {"tfds": "", "tfds_data_dir": str(tmp_path)}
    run_suite(
        options,
        task_name,
        data_dir=None,
        task_options=told,
        calibrate=True,  # what needs a dev set, which AX has not
        explain_errors=3,
    )
    assert len(ran) == count + 1
    ax, once = ran[-1]
    assert (ax.task_name, ax.data_dir, once) == ("AX", None, ONCE)
    assert ax.task_options == told
    folder = tmp_path / "out"
    assert ax.finetuning.init_checkpoint == str(folder / "MNLI/model.ckpt-7")
    assert (folder / "submission/AX.tsv").read_text() == "AX"


def test_answers_of_an_earlier_model_are_not_gathered(options, tmp_path, ran):
    make_glue(tmp_path / "glue", ["MNLI", "RTE"])
    (tmp_path / "glue/diagnostic.tsv").write_text("")
    run_suite(options, "MNLI,RTE")
    assert (tmp_path / "out/submission/AX.tsv").exists()
    (tmp_path / "glue/diagnostic.tsv").unlink()
    run_suite(options, "MNLI,RTE")
    assert submitted(tmp_path / "out") == "MNLI-m MNLI-mm RTE"


def test_a_command_keeps_what_it_has_no_scores_and_answers_for(
    options, tmp_path, ran, caplog
):
    make_glue(tmp_path / "glue", ["MNLI", "RTE"])
    (tmp_path / "glue/diagnostic.tsv").write_text("")
    run_suite(options, "MNLI,RTE")
    make_glue(tmp_path / "glue", ["CoLA"])
    table = (tmp_path / "out/glue.tsv").read_text()
    ran.clear()
    run_suite(options, "CoLA,RTE", do_eval=False)
    assert "submission is of an earlier command" not in caplog.text
    run_suite(options, "CoLA,RTE", do_eval=False, do_predict=False)
    assert "submission is of an earlier command" in caplog.text
    assert (tmp_path / "out/glue.tsv").read_text() == table
    assert (tmp_path / "out/submission/AX.tsv").exists()


def test_scores_of_a_training_replace_earlier_ones(options, tmp_path, ran):
    make_glue(tmp_path / "glue", ["CoLA", "RTE"])
    run_suite(options, "CoLA,RTE")
    run_suite(options, "CoLA,RTE", do_eval=False, eval_every_steps=5)
    found = json.loads((tmp_path / "out/glue.json").read_text())
    assert [x["task"] for x in found["scores"]] == ["CoLA", "RTE"]


def test_a_command_for_fewer_tasks_keeps_other_scores(options, tmp_path, ran):
    make_glue(tmp_path / "glue", ["CoLA", "RTE", "SST-2"])
    run_suite(options, "CoLA,RTE,SST-2")
    table = (tmp_path / "out/glue.json").read_text()
    run_suite(options, "CoLA,RTE")
    # A task that fails before it is scored loses nothing.
    (tmp_path / "glue/RTE/diverges").touch()
    with pytest.raises(ValueError, match="1 of 2 tasks failed"):
        run_suite(options, "CoLA,RTE", do_eval=False)
    before = json.loads(table)
    after = json.loads((tmp_path / "out/glue.json").read_text())
    assert after["average"] == pytest.approx(before["average"])
    assert after["num_tasks"] == 3 and after["missing"] == []
    assert [x["task"] for x in after["scores"]] == ["SST-2", "CoLA", "RTE"]
    after["scores"][0]["value"] = "high"
    (tmp_path / "out/glue.json").write_text(json.dumps(after))
    ran.clear()
    with pytest.raises(ValueError, match="glue.json is damaged; remove it"):
        run_suite(options, "CoLA,RTE")
    assert not ran


def test_several_tasks_do_not_train_in_a_folder_of_one(options, tmp_path, ran):
    make_glue(tmp_path / "glue", ["CoLA", "RTE"])
    (tmp_path / "out").mkdir()
    (tmp_path / "out/model.ckpt-3.index").touch()
    with pytest.raises(ValueError, match="--output_dir=.* a run of one task"):
        run_suite(options, "CoLA,RTE")
    assert not ran and not (tmp_path / "out/glue.json").exists()


def test_a_single_task_is_not_trained_in_a_folder_of_several(options, tmp_path):
    (tmp_path / "out/RTE").mkdir(parents=True)
    (tmp_path / "out/glue.json").write_text("{}")
    for name in "task.json", "trials.json":
        (tmp_path / "out/RTE" / name).touch()
        for asked in ONCE, TrialOptions(num_trials=2):
            with pytest.raises(ValueError, match="one, .*/out/RTE, or another"):
                run_suite(options, "CoLA", asked)
        # Nor any other model.
        with pytest.raises(ValueError, match="one, .*/out/RTE, or another"):
            found_files.fill(options)
        (tmp_path / "out/RTE" / name).unlink()


def test_the_diagnostic_set_needs_the_model_of_mnli(options, tmp_path, ran):
    make_glue(tmp_path / "glue", ["MNLI"])
    (tmp_path / "glue/MNLI/diverges").write_text("")
    (tmp_path / "glue/diagnostic.tsv").write_text("")
    message = "2 of 2 tasks failed: MNLI: .*; AX: MNLI failed, whose model ans"
    with pytest.raises(ValueError, match=message):
        run_suite(options, "MNLI,AX")


@pytest.mark.parametrize("task_name", ["MNLI,AX", "GLUE"])
def test_a_data_set_is_not_of_several_tasks(options, ran, task_name):
    one = {"data_dir": None, "task_options": {"tfds": "glue/mnli"}}
    message = f"--tfds=glue/mnli .* --task_name={task_name} .* give --tfds='',"
    with pytest.raises(ValueError, match=message):
        run_suite(options, task_name, **one)
    assert not ran


@pytest.mark.all
def test_a_task_of_several_is_the_task_by_itself(options, goldens, tmp_path):
    data = goldens / "classifier"
    options = options.replace(train_batch_size=16)
    several = {"data_dir": str(data), "output_dir": str(tmp_path / "all")}
    run_suite(options, "MNLI,CoLA", **several)
    one = {"data_dir": str(data / "CoLA"), "output_dir": str(tmp_path / "one")}
    alone = classifier.run(options.replace(task_name="CoLA", **one))
    found = json.loads((tmp_path / "all/glue.json").read_text())
    assert found["scores"][-1]["value"] == alone.results["dev"]["matthews"]
    for name in ("test_results.tsv", "eval_results.txt", "CoLA.tsv"):
        assert (tmp_path / "all/CoLA" / name).read_bytes() == (
            tmp_path / "one" / name
        ).read_bytes()
    assert submitted(tmp_path / "all") == "CoLA MNLI-m"
