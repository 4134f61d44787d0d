"""What run_study.py refuses before anything runs, and which measures serve."""

import dataclasses

import pytest

import studies
from studies.engine.study_options import StudyData, StudyOptions
from tests.data.tasks.fixtures import write_files
from tests.studies.support import made_up_study

pytestmark = pytest.mark.all

TWO_BANKS = (
    *("a-train.conllu", "b-train.conllu"),
    *("a-dev.conllu", "t-test.conllu"),
)
ALL = ("tags", "spans", "similarity", "casing", "perplexity")


def write(folder, *names):
    return write_files(folder, dict.fromkeys(names, ""))


@pytest.mark.parametrize(
    "flag, there, error",
    [
        ("conllu_dir", (), "must hold one .* found none of them"),
        ("conllu_dir", ("a-dev.conllu",), "must hold one .*found .*a-dev.conl"),
        ("conllu_dir", ("a-dev-test.conllu",), "found .*a-dev-test.conllu"),
        ("conllu_dir", TWO_BANKS, "a-dev.conllu, .*a-train.conllu, .*b-train"),
        ("glue_dir", ("STS-B/train.tsv",), "must hold one STS-B/train.tsv and"),
        ("squad_dir", ("train-v1.1.json",), "one train-v1.1.json and"),
        ("text", (), "no such text file"),
    ],
)
def test_a_folder_without_its_files_is_refused(tmp_path, flag, there, error):
    given = StudyData(**{flag: write(tmp_path / "data", *there)})
    with pytest.raises((OSError, ValueError), match=error):
        given.check(made_up_study())


def test_which_files_train_and_which_are_scored(tmp_path):
    treebank = ("en-ud-dev.conllu", "en-ud-test.conllu")
    folder = write(tmp_path / "a[1]", *treebank)
    dev, test = (f"{folder}/{name}" for name in treebank)
    given = StudyData(conllu_dir=folder)
    assert given.files_of("conllu_dir") == (dev, test)
    write(tmp_path / "a[1]", "en-ud-train.conllu")
    assert given.files_of("conllu_dir") == (f"{folder}/en-ud-train.conllu", dev)


def test_tfds_is_of_some_measures():
    with pytest.raises(ValueError, match="tags is not one of similarity, spa"):
        StudyData(tfds=("tags",))
    with pytest.raises(ValueError, match="both sources of the same data"):
        StudyData(tfds=("spans",), squad_dir="squad")


def test_data_that_a_study_does_not_use_are_said(tmp_path, caplog):
    names = ("STS-B/train.tsv", "STS-B/dev.tsv")
    folder = write(tmp_path / "data", *names)
    study = dataclasses.replace(made_up_study(), measures=("casing",))
    StudyData(glue_dir=folder, tfds=("spans",)).check(study)
    assert "--glue_dir: the study has no measure" in caplog.text
    assert "--tfds=spans: the study has no measure" in caplog.text


def test_a_given_model_is_only_for_frozen_features():
    given = StudyData(init_checkpoint="model")
    with pytest.raises(ValueError, match="are each pretrained here"):
        given.check(made_up_study())
    given.check(studies.get("features"))
    assert given.measures_of(studies.get("features")) == ["casing"]


def test_the_text_serves_where_there_are_no_tasks():
    study = made_up_study(ALL)
    assert StudyData().measures_of(study) == ["casing", "perplexity"]
    given = StudyData(glue_dir="glue", tfds=("spans",))
    assert given.measures_of(study) == ["spans", "similarity", "perplexity"]


def test_no_casing_is_measured_in_a_text_without_capitals(goldens, tmp_path):
    text = (goldens / "pretraining_data/corpus.txt").read_text("utf-8")
    (tmp_path / "text").write_text(text, "utf-8")
    few = text.lower() + "Only This Has Some\n"
    (tmp_path / "flat").write_text(few, "utf-8")
    study = made_up_study(ALL)
    varied, flat = (StudyData(text=f"{tmp_path}/{n}") for n in ("text", "flat"))
    assert varied.measures_of(study) == ["casing", "perplexity"]
    assert varied.left_out(study) == []
    assert flat.measures_of(study) == ["perplexity"]
    assert flat.left_out(study) == ["casing"]
    # Another table's place is not taken by it.
    assert flat.replace(glue_dir="glue").left_out(study) == []
    with pytest.raises(ValueError, match="--text=.*flat: .*or --conllu_dir"):
        flat.check(studies.get("features"))


def test_too_little_text_is_refused_before_the_folder_is_begun(tmp_path):
    (tmp_path / "text").write_text("One Sentence is here.\n" * 9)
    with pytest.raises(ValueError, match="/text: .*at least 200 sentences"):
        StudyData(text=str(tmp_path / "text")).check(studies.get("masking"))


@pytest.mark.parametrize("name", studies.names())
def test_every_study_needs_no_data(name):
    assert StudyData().measures_of(studies.get(name))


def test_the_seeds_of_all_trials_are_seeds():
    values = {"study": "masking", "output_dir": "out", "scale": "tiny"}
    with pytest.raises(ValueError, match="--seed=2147483647; it must be 0 to"):
        StudyOptions(seed=2**31 - 1, **values)
