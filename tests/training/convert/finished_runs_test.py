"""Folders of finished runs, converted: labels, heads, and what a run says."""

import json
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file

import bert
import modeling
from modeling import BertConfig, TaskModel, checkpoints
from modeling.checkpoints import model_folder
from tests.support import model_folders
from tests.support.conversion_support import convert, refused
from tests.support.model_folder_support import change_description, variables_of


def run_dir(goldens, tmp_path, kind, num_labels=3, *, labels=()):
    """What a run leaves in its output_dir, for a model of a kind."""
    config = BertConfig.from_json_file(str(goldens / "bert_config.json"))
    variables = variables_of(TaskModel(config, kind, num_labels))
    path = tmp_path / "out"
    values = {n: v.numpy() for n, v in variables.items()}
    values |= {f"{n}/adam_m": np.zeros_like(x) for n, x in values.items()}
    values["global_step"] = np.int64(7)
    checkpoints.write(str(path / "model.ckpt-7"), values)
    checkpoints.tf1.write_state(str(path), ["model.ckpt-7"])
    shutil.copy(goldens / "bert_config.json", path)
    shutil.copy(goldens / "vocab.txt", path)
    (path / "labels.txt").write_text("".join(f"{x}\n" for x in labels))
    return path


@pytest.mark.parametrize(
    ("kind", "of_what", "problem_type"),
    [
        ("classification", "Sequence", "single_label_classification"),
        ("multilabel", "Sequence", "multi_label_classification"),
        ("tagging", "Token", None),
    ],
)
def test_a_finished_run_says_what_it_is(
    goldens, tmp_path, kind, of_what, problem_type
):
    labels = ["no", "yes", "perhaps"]
    source = run_dir(goldens, tmp_path, kind, labels=labels)
    model_folders.description_of(
        kind,
        labels=labels,
        max_seq_length=128,
        do_lower_case=False,
        model={"kind": kind, "num_labels": 3},
        weights="model.ckpt-7",
    ).write(str(source), None)
    target = convert(source, tmp_path / "target")
    values = json.loads((target / "config.json").read_text())
    assert values["architectures"] == [f"BertFor{of_what}Classification"]
    assert values.get("problem_type") == problem_type
    assert values["id2label"] == {"0": "no", "1": "yes", "2": "perhaps"}
    assert values["label2id"] == {"no": 0, "yes": 1, "perhaps": 2}
    tokenizer = json.loads((target / "tokenizer_config.json").read_text())
    assert tokenizer["do_lower_case"] is False
    assert tokenizer["model_max_length"] == 128
    tensors = load_file(target / "model.safetensors")
    head = checkpoints.open_checkpoint(str(source)).read("output_weights")
    np.testing.assert_array_equal(tensors["classifier.weight"], head)
    # And the labels come back, with what the model is for.
    ours = convert(target, tmp_path / "ours")
    assert (ours / "labels.txt").read_text().split() == labels
    told = json.loads((ours / "task.json").read_text())
    assert (told["kind"], told["labels"]) == (kind, labels)
    assert told["weights"] == "bert_model.ckpt"
    assert told["do_lower_case"] is False
    loaded = modeling.load(str(ours))
    assert (loaded.kind, [*loaded.labels]) == (kind, labels)


def test_a_regression_has_one_nameless_output(goldens, tmp_path):
    source = run_dir(goldens, tmp_path, "regression", 1)
    target = convert(source, tmp_path / "target", kind="regression")
    values = json.loads((target / "config.json").read_text())
    assert values["problem_type"] == "regression"
    assert values["id2label"] == {"0": "LABEL_0"}
    assert not (convert(target, tmp_path / "ours") / "labels.txt").exists()


def test_a_choice_has_no_labels(goldens, tmp_path):
    source = run_dir(goldens, tmp_path, "choice", 4, labels="0123")
    target = convert(source, tmp_path / "target", kind="choice")
    values = json.loads((target / "config.json").read_text())
    assert values["architectures"] == ["BertForMultipleChoice"]
    assert "id2label" not in values


@pytest.mark.all
def test_what_a_run_says_survives_both_formats(goldens, tmp_path):
    """Lengths and rules of a model of questions are in no file of theirs."""
    ours = tmp_path / "ours"
    path = model_folders.write_questions(goldens, ours)
    unusual = {"version_2_with_negative": True, "null_score_diff_threshold": -5}
    written = change_description(ours, **unusual) | unusual
    theirs = convert(path, tmp_path / "theirs")
    values = json.loads((theirs / "config.json").read_text())
    assert values["architectures"] == ["BertForQuestionAnswering"]
    back = convert(theirs, tmp_path / "back")
    question = "what was there ?", "the old clock was in the harbour ."
    expected = bert.load(path).answer([question])
    for folder, weights in (theirs, "."), (back, "bert_model.ckpt"):
        found = json.loads((folder / "task.json").read_text())
        assert found == written | {"weights": weights}
        assert bert.load(str(folder)).answer([question]) == expected
    swapped = (ours / "vocab.txt").read_text().splitlines()
    swapped[-2:] = swapped[-1], swapped[-2]
    (tmp_path / "swapped.txt").write_text("\n".join(swapped) + "\n")
    said = {"vocab_file": str(tmp_path / "swapped.txt")}
    refused("--vocab_file=.*leave", path, tmp_path / "no", **said)
    with pytest.raises(ValueError, match="--vocab_file=.*leave"):
        modeling.load(path, **said)
    # Others have written over it since.
    others = {"architectures": ["BertForTokenClassification"]}
    model_folders.change_json(theirs / "config.json", **others)
    assert model_folder.find(str(theirs)).description is None


def test_labels_of_a_file_take_the_place_of_numbers(goldens, tmp_path):
    numbers = ["LABEL_0", "LABEL_1"]
    source = run_dir(goldens, tmp_path, "classification", 2, labels=numbers)
    (tmp_path / "labels.txt").write_text("neg\npos\n")
    said = {"labels_file": str(tmp_path / "labels.txt")}
    said |= {"kind": "classification", "output_format": "original"}
    target = convert(source, tmp_path / "target", **said)
    assert (target / "labels.txt").read_text() == "neg\npos\n"
    found = json.loads((target / "task.json").read_text())
    assert found["labels"] == ["neg", "pos"]
    (tmp_path / "labels.txt").write_text("neg\n")
    wrong = tmp_path / "wrong"
    refused("labels.txt has 1 labels.*--labels_file", source, wrong, **said)
    (tmp_path / "labels.txt").write_text("pos\nneg\n")
    message = "--labels_file.* neg, pos .*leave the flag out"
    refused(message, target, wrong, **said)


def test_what_it_cannot_know_it_asks_for(goldens, tmp_path):
    source = run_dir(goldens, tmp_path, "classification", labels="ab")
    places = source, tmp_path / "target"
    refused("an output layer .of a kind that no.*--kind if it is", *places)
    message = "labels.txt has 2 labels, but .* has 3; .*--labels_file"
    refused(message, *places, kind="tagging")
    (source / "labels.txt").unlink()
    for name, message in (
        ("vocab.txt", "out: no such vocabulary, .*; give --vocab_file"),
        ("bert_config.json", "bert_config.json: no such .*--bert_config_file"),
    ):
        (source / name).unlink()
        refused(message, *places, FileNotFoundError, kind="tagging")


def test_flags_about_a_head_are_refused_where_there_is_none(goldens, tmp_path):
    (tmp_path / "labels.txt").write_text("a\n")
    flags = {"kind": "tagging", "labels_file": str(tmp_path / "labels.txt")}
    files = {
        "bert_config_file": str(goldens / "bert_config.json"),
        "vocab_file": str(goldens / "vocab.txt"),
    }
    for name, value in flags.items():
        message = f"--{name}={value}: .* no output layer .*leave the flag out"
        places = goldens / "model/trained", tmp_path / "target"
        refused(message, *places, **files, **{name: value})


def test_a_head_on_a_frozen_encoder_is_refused(goldens, tmp_path):
    head = {"feature_based": "second_to_last", "head": "linear"}
    (tmp_path / "out").mkdir()
    (tmp_path / "out/head.json").write_text(json.dumps(head))
    source = run_dir(goldens, tmp_path, "tagging")
    message = "head.json: the head .*second_to_last.* no counterpart"
    refused(message, source, tmp_path / "target", kind="tagging")
