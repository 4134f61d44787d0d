import json
import shutil

import numpy as np
import pytest

import modeling
from modeling import TaskModel, checkpoints
from modeling.objectives import tasks
from tests.support.model_folder_support import (
    assert_has_weights,
    change_description,
    write_weights,
)
from tests.support.serving_support import LABELS, LENGTH, finished_run


def copy_checkpoint(folder, target):
    """Copies the run's checkpoint to another prefix in its folder."""
    (folder / target).parent.mkdir(exist_ok=True)
    for path in folder.glob("model.ckpt-60.*"):
        shutil.copy(path, folder / f"{target}{path.suffix}")


@pytest.mark.parametrize("kind", tasks.KINDS)
def test_a_finished_run_gives_its_model(goldens, tmp_path, kind):
    model = finished_run(goldens, tmp_path, kind)
    loaded = modeling.load(str(tmp_path))
    assert loaded.kind == loaded.description["kind"] == kind
    assert loaded.max_seq_length == LENGTH
    # A regression has none.
    assert loaded.labels == ([*LABELS.get(kind, ("no", "yes"))] or None)
    assert_has_weights(loaded, tmp_path)
    rng = np.random.default_rng(1)
    size = LENGTH * (3 if kind == "choice" else 1)
    highest = {"input_ids": 1200, "input_mask": 2, "segment_ids": 2}
    batch = {
        name: rng.integers(0, end, (2, size)).astype(np.int32)
        for name, end in highest.items()
    }
    np.testing.assert_array_equal(
        loaded.model.predict(batch), model.predict(batch)
    )


def test_the_best_weights_of_the_chosen_trial_are_taken(goldens, tmp_path):
    trial = tmp_path / "trial-2"
    trial.mkdir()
    finished_run(goldens, trial, "tagging")
    copy_checkpoint(trial, "best/model.ckpt-40")
    change_description(trial, weights="best/model.ckpt-40")
    (tmp_path / "trials.json").write_text('{"chosen": "trial-2"}')
    loaded = modeling.load(str(tmp_path))
    assert loaded.report.source.endswith("trial-2/best/model.ckpt-40")
    # The flag --init_checkpoint takes the same weights.
    assert checkpoints.open_checkpoint(str(tmp_path)).prefix.endswith(
        "best/model.ckpt-40"
    )
    # And by its prefix, with the labels of the folder above.
    loaded = modeling.load(str(trial / "best/model.ckpt-40"))
    assert (loaded.kind, loaded.labels) == ("tagging", list(LABELS["tagging"]))
    assert modeling.load(str(trial / "model.ckpt-60")).kind == "tagging"


def test_a_run_without_a_checkpoint_is_to_be_repeated(goldens, tmp_path):
    finished_run(goldens, tmp_path, "tagging")
    for path in tmp_path.glob("model.ckpt*"):
        path.unlink()
    change_description(tmp_path, weights="")
    with pytest.raises(FileNotFoundError, match="give the command of its run"):
        modeling.load(str(tmp_path))


def test_a_run_that_was_continued_gives_its_newest_weights(goldens, tmp_path):
    # task.json is written at the end of a run: it still names step 60.
    finished_run(goldens, tmp_path, "tagging")
    copy_checkpoint(tmp_path, "model.ckpt-90")
    checkpoints.tf1.write_state(str(tmp_path), ["model.ckpt-90"])
    newest = str(tmp_path / "model.ckpt-90")
    assert checkpoints.open_checkpoint(str(tmp_path)).prefix == newest
    for path in tmp_path.glob("model.ckpt-60.*"):
        path.unlink()
    assert modeling.load(str(tmp_path)).report.source == newest


def test_better_weights_replace_those_that_task_json_names(goldens, tmp_path):
    finished_run(goldens, tmp_path, "tagging")
    change_description(tmp_path, weights="best/model.ckpt-40")
    copy_checkpoint(tmp_path, "best/model.ckpt-60")
    found = checkpoints.open_checkpoint(str(tmp_path))
    assert found.prefix == str(tmp_path / "best/model.ckpt-60")


def test_a_prefix_may_be_the_name_of_a_folder(goldens, tmp_path):
    finished_run(goldens, tmp_path, "tagging")
    prefix = tmp_path / "model.ckpt-60"
    prefix.mkdir()
    assert checkpoints.open_checkpoint(str(prefix)).prefix == str(prefix)
    assert modeling.load(str(prefix)).kind == "tagging"


def test_a_classifier_without_its_pooler_is_refused(goldens, tmp_path):
    finished_run(goldens, tmp_path, "classification")
    prefix = modeling.load(str(tmp_path)).report.source
    full = checkpoints.Checkpoint(prefix)
    names = [n for n in full.shapes if not n.startswith("bert/pooler/")]
    checkpoints.write(prefix, {n: full.read(n) for n in names})
    with pytest.raises(ValueError, match="it has no bert/pooler/dense/kernel"):
        modeling.load(str(tmp_path))
    assert modeling.load(str(tmp_path), kind="encoder")


def test_a_run_without_a_description_needs_its_kind(goldens, tmp_path):
    finished_run(goldens, tmp_path, "multilabel")
    (tmp_path / "task.json").unlink()
    (tmp_path / "labels.txt").write_text("toxic\nrüde\nspam\n", "utf-8")
    with pytest.raises(ValueError, match="layer of 3 rows.*kind=, one of cl"):
        modeling.load(str(tmp_path))
    # Records may be those of an earlier command, about another model.
    (tmp_path / "train.tf_record.manifest.json").write_text(
        json.dumps({"made_from": {"kind": "tagging", "do_lower_case": False}})
    )
    loaded = modeling.load(tmp_path, kind="multilabel")
    assert loaded.model.num_labels == 3
    assert loaded.labels == ["toxic", "rüde", "spam"]
    assert loaded.tokenizer.basic_tokenizer.do_lower_case


def test_a_bilstm_of_an_unfinished_run_is_known(goldens, tmp_path):
    finished_run(goldens, tmp_path, "tagging")
    config = modeling.load(str(tmp_path)).config
    head = {"feature_based": "weighted_all", "head": "bilstm"}
    prefix = tmp_path / "model.ckpt-60"
    write_weights(prefix, TaskModel(config, "tagging", 3, **head))
    (tmp_path / "task.json").unlink()
    (tmp_path / "head.json").write_text(json.dumps(head))
    loaded = modeling.load(str(tmp_path), kind="tagging")
    assert loaded.model.bilstm
    assert_has_weights(loaded, prefix)
