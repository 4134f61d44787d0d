"""A given model that does not fit is refused before a study runs."""

import shutil

import pytest

import studies
from studies.engine import plan
from studies.engine.programs import Programs
from studies.engine.study_options import StudyData, StudyOptions
from tests.data.tasks.fixtures import write_files
from tests.support.model_folder_support import add_to_weight

pytestmark = pytest.mark.all


def make(goldens, folder, *names, data=None, **changes):
    """Programs of `features` with the golden model, of one layer."""
    model = folder / "model"
    shutil.copytree(goldens / "model/init", model)
    shutil.copy(goldens / "first_layer.json", model / "bert_config.json")
    for name in names:
        shutil.copy(goldens / name, model / name)
    options = StudyOptions(
        study="features",
        output_dir=str(folder / "out"),
        data=(data or StudyData()).replace(init_checkpoint=str(model)),
        **changes,
    )
    return Programs(plan.Plan(studies.get("features"), options))


def test_a_model_without_a_vocabulary_is_refused(goldens, tmp_path):
    with pytest.raises(FileNotFoundError, match="has no vocab.txt; put it"):
        make(goldens, tmp_path)


def test_a_model_with_too_few_layers_is_refused(goldens, tmp_path):
    with pytest.raises(ValueError, match="too few for the row second_to_last"):
        make(goldens, tmp_path, "vocab.txt")
    assert not (tmp_path / "out").exists()


def test_a_given_model_is_fine_tuned_at_the_papers_rate(tmp_path):
    study = studies.get("features")
    options = StudyOptions(study="features", output_dir=str(tmp_path))
    rates = {}
    for row in "fine_tuning", "last":
        job = plan.Job(study.row(row), "tags", 1, "folder", 0.0)
        for model in None, "model":
            given = options.replace(init_checkpoint=model)
            flags = plan.Plan(study, given).finetuning_flags(job)
            rates[row, bool(model)] = flags["learning_rate"]
    assert rates == {
        ("fine_tuning", False): 5e-4,
        ("fine_tuning", True): 5e-5,
        # Of the BiLSTM, which is new.
        ("last", False): 3e-3,
        ("last", True): 3e-3,
    }


def test_a_row_whose_checkpoints_are_gone_is_refused(tmp_path):
    options = StudyOptions(study="masking", output_dir=str(tmp_path))
    study = studies.get("masking")
    made = Programs(plan.Plan(study, options))
    with pytest.raises(FileNotFoundError, match="remove that folder, so"):
        made._model_flags(study.rows[0])


def test_rows_that_a_small_model_has_are_taken(goldens, tmp_path):
    make(goldens, tmp_path, "vocab.txt", rows=("last", "embeddings"))


@pytest.mark.parametrize("run", ["held_out", "spans"])
def test_a_result_is_of_its_pretrained_weights(goldens, tmp_path, run):
    squad = StudyData(squad_dir=str(goldens / "squad"))
    made = make(goldens, tmp_path, "vocab.txt", rows=("last",), data=squad)
    job = plan.Job(studies.get("features").rows[0], run, 1, str(tmp_path), 0.0)
    before, _ = made(job)
    add_to_weight(tmp_path / "model", "bert/pooler/dense/bias")
    after, _ = made(job)
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"init_checkpoint_sha256"}


def test_no_other_checkpoint_takes_the_place_of_one_that_is_gone(tmp_path):
    study = studies.get("pretraining_steps")
    options = StudyOptions(study="", output_dir=str(tmp_path), scale="tiny")
    inputs, folder = tmp_path / "inputs", tmp_path / "masked_lm/pretraining"
    write_files(inputs, {"vocab.txt": "[UNK]\na\n"})
    names = (f"model.ckpt-{step}.index" for step in (6, 8, 10, 12))
    write_files(folder, dict.fromkeys(names, ""))
    made = Programs(plan.Plan(study, options))
    for name, step in ("masked_lm", 12), ("masked_lm_3_of_6", 6):
        weights = made._model_flags(study.row(name))["init_checkpoint"]
        assert weights == f"{folder}/model.ckpt-{step}"
    with pytest.raises(FileNotFoundError, match="for masked_lm_1_of_6; remove"):
        made._model_flags(study.row("masked_lm_1_of_6"))
