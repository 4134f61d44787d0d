"""What a folder of a model of questions remembers: rules, windows, threshold.

A command leaves out every flag that is not in its `given`.
"""

import json
import shutil

import pytest

from tests.support.model_folders import write_questions
from tests.training.squad_support import make_options, read_answers
from training.export import saved_model
from training.runs import questions
from training.start import description

FOUND = '{"null_score_diff_threshold": 2.0}'


@pytest.fixture(scope="module")
def questioned(goldens, tmp_path_factory):
    """Options of a finished run whose answers are empty below -1.5 alone."""
    options = make_options(
        goldens,
        tmp_path_factory.mktemp("questioned"),
        "v2.0",
        do_train=True,
        null_score_diff_threshold=-1.5,
    )
    questions.run(options)
    return options


@pytest.fixture
def folder(questioned, tmp_path):
    """A copy of that run's folder."""
    return shutil.copytree(questioned.output_dir, tmp_path / "out")


def task_of(folder):
    return read_answers(folder)["task"]


def metrics_of(folder):
    """The metrics that an export of the folder would have."""
    return saved_model._metrics(str(folder), description.find(str(folder)))


def threshold_in(folder):
    return task_of(folder)["null_score_diff_threshold"]


def command(options, folder, given=(), **changes):
    """Options that predict in a folder; what is not given is usual."""
    usual = {
        "version_2_with_negative": False,
        "null_score_diff_threshold": None,
        "do_train": False,
        "output_dir": str(folder),
    }
    values = usual | changes | dict(given)
    return options.replace(**values, given=frozenset(given))


def ask(options, folder, given=(), **changes):
    questions.run(command(options, folder, given, **changes))


def test_a_threshold_takes_the_place_of_a_found_one(goldens, tmp_path, caplog):
    given = {"do_train": True, "null_score_diff_threshold": -1.5}
    opened = questions.Run(make_options(goldens, tmp_path, "v2.0", **given))
    path = tmp_path / "null_threshold.json"
    path.write_text(FOUND)
    opened.describe(-1.5)
    assert not path.exists()
    assert f"{path} is removed: the threshold is -1.5" in caplog.text


@pytest.mark.all
def test_an_export_refuses_another_head(folder):
    names = ["linear", "bilstm"]
    for made, other in names, names[::-1]:
        assert saved_model.describes_export(str(folder), {"head": made})
        message = f"--head={other}: .*--head={made}"
        with pytest.raises(ValueError, match=message):
            saved_model.describes_export(str(folder), {"head": other})
        head = {"feature_based": "", "head": other}
        (folder / "head.json").write_text(json.dumps(head))


def test_another_folder_has_the_threshold_of_its_model(
    questioned, goldens, tmp_path, same_outputs
):
    first = {"init_checkpoint": questioned.output_dir}
    ask(questioned, tmp_path, first)
    assert threshold_in(tmp_path) == -1.5
    # What was found for one model is not used for another.
    ask(questioned, tmp_path, {**first, "find_null_threshold": True})
    path = tmp_path / "null_threshold.json"
    best = json.loads(path.read_text())["null_score_diff_threshold"]
    assert threshold_in(tmp_path) == best
    ask(questioned, tmp_path, first)
    assert threshold_in(tmp_path) == best
    other = {"init_checkpoint": f"{goldens}/squad/finetuned_v1.1"}
    other["version_2_with_negative"] = True
    ask(questioned, tmp_path, other)
    assert threshold_in(tmp_path) == 0.0
    assert not path.exists()


def test_figures_of_another_threshold_are_not_exported(
    questioned, folder, same_outputs
):
    for threshold, expected in (-9.0, False), (-1.5, True):
        given = {
            "version_2_with_negative": True,
            "null_score_diff_threshold": threshold,
        }
        ask(questioned, folder, given)
        assert bool(metrics_of(folder)) == expected


@pytest.mark.all
def test_a_checkpoint_tells_flags_of_a_lost_description(questioned, folder):
    ask(questioned, folder, {"do_lower_case": False})
    assert metrics_of(folder) == {}  # of texts that are read otherwise
    ask(questioned, folder, {"doc_stride": 5})
    assert read_answers(folder)["metrics"]["doc_stride"] == 5
    assert metrics_of(folder) == {}  # of other flags
    (folder / "task.json").unlink()
    given = {"version_2_with_negative": True}
    for changes in ({"doc_stride": 5}, {"version_2_with_negative": False}):
        with pytest.raises(ValueError, match=f"no task.json.* {[*changes][0]}"):
            ask(questioned, folder, given | changes)
        assert not (folder / "task.json").exists()
    ask(questioned, folder, given)
    again = task_of(folder)
    assert again["version_2_with_negative"]
    assert again["doc_stride"] == questioned.windows.doc_stride
    assert metrics_of(folder)["f1"]


def test_a_threshold_for_other_flags_is_not_kept(questioned, folder, caplog):
    path = folder / "null_threshold.json"
    path.write_text(FOUND)
    changed = {"max_seq_length": 64, "max_answer_length": 1}
    ask(questioned, folder, {"find_null_threshold": True, **changed})
    assert "because --max_seq_length and --max_answer_length d" in caplog.text
    assert path.read_text() == FOUND
    assert threshold_in(folder) == -1.5


def test_a_threshold_goes_with_the_model_it_was_found_for(folder):
    path = folder / "null_threshold.json"
    path.write_text(FOUND)
    description.forget_other_model(str(folder), task_of(folder)["weights"])
    assert path.read_text() == FOUND
    description.forget_other_model(str(folder), "/another/model.ckpt-1")
    assert not path.exists()


def test_training_on_keeps_the_given_threshold(questioned, folder, caplog):
    on = {"do_train": True, "num_train_epochs": 3.0}
    ask(questioned, folder, on, do_predict=False)
    assert threshold_in(folder) == -1.5
    for name in ("predictions.json", "metrics.json"):
        assert f"{name} was written before step" in caplog.text
    # That of weights which are gone is not the new model's.
    for path in folder.glob("*ckpt*"):
        path.unlink()
    (folder / "checkpoint").unlink()
    (folder / "null_threshold.json").write_text(FOUND)
    again = {**on, "version_2_with_negative": True}
    questions.Run(command(questioned, folder, again)).describe(None)
    assert threshold_in(folder) == 0.0
    assert not (folder / "null_threshold.json").exists()


def test_a_threshold_is_for_models_of_unanswerable_questions(goldens, tmp_path):
    options = make_options(goldens, write_questions(goldens, tmp_path))
    with pytest.raises(ValueError, match="--version_2_with_negative"):
        ask(options, tmp_path, {"find_null_threshold": True})


def test_questions_keep_their_windows_and_their_rules(goldens, tmp_path):
    unusual = {"doc_stride": 24, "n_best_size": 3, "do_lower_case": False}
    unusual["score_padding"] = True
    usual = {"doc_stride": 32, "n_best_size": 20, "do_lower_case": True}
    usual["score_padding"] = False
    given = {"do_train": True, "null_score_diff_threshold": -1.5}
    options = make_options(goldens, tmp_path, "v2.0", **unusual, **given)
    questions.run(options)

    def written():
        names = "predictions.json", "nbest_predictions.json", "task.json"
        return {name: (tmp_path / name).read_bytes() for name in names}

    before = written()
    usual["max_seq_length"] = 128
    ask(options, tmp_path, **usual)
    assert written() == before
    ask(options, tmp_path, {"n_best_size": 2}, **usual)
    found = read_answers(tmp_path)["nbest_predictions"]
    assert {len(answers) for answers in found.values()} <= {1, 2}
    assert written()["task.json"] == before["task.json"]
    ask(options, tmp_path, {"find_null_threshold": True}, **usual)
    assert written()["task.json"] != before["task.json"]
    with pytest.raises(ValueError, match="other data: .*doc_stride 24 -> 32"):
        questions.run(options.replace(doc_stride=32))
