import shutil

import keras
import numpy as np
import pytest

import modeling
from modeling.checkpoints import huggingface
from modeling.objectives import tasks
from tests.support import huggingface_support as theirs
from tests.support import rounding
from tests.support.model_folder_support import (
    assert_has_weights,
    shapes_drawn,
    write_huggingface,
)


def test_a_folder_of_hugging_face_gives_its_vectors(goldens, tmp_path):
    tensors = write_huggingface(goldens, tmp_path / "theirs")
    loaded = modeling.load(tmp_path / "theirs")
    assert loaded.kind == "encoder"
    assert loaded.config.hidden_act == "gelu_exact"
    assert_has_weights(loaded, tmp_path / "theirs")
    rng = np.random.default_rng(0)
    ids = rng.integers(1, theirs.V, (3, 9))
    mask = np.arange(9) < np.array([[9], [4], [1]])
    segments = rng.integers(0, 2, (3, 9))
    output = loaded.model(*(x.astype(np.int32) for x in (ids, mask, segments)))
    sequence, pooled = theirs.encode(tensors, ids, mask, segments)
    ours = output.get_sequence_output().numpy()
    rounding.assert_equal(ours[mask], sequence[mask])
    rounding.assert_equal(output.pooled_output, pooled)


@pytest.mark.parametrize(
    ("architecture", "config", "kind"),
    [
        ("BertForPreTraining", {}, "pretraining"),
        ("BertForQuestionAnswering", {}, "span"),
        ("BertForTokenClassification", {}, "tagging"),
        ("BertForSequenceClassification", {}, "classification"),
        (
            "BertForSequenceClassification",
            {"problem_type": "multi_label_classification"},
            "multilabel",
        ),
    ],
)
def test_a_folder_says_its_kind(goldens, tmp_path, architecture, config, kind):
    names = {"0": "no", "2": "perhaps", "1": "yes"}
    write_huggingface(
        goldens, tmp_path / "x", architecture, id2label=names, **config
    )
    loaded = modeling.load(tmp_path / "x")
    assert loaded.kind == kind
    if architecture in theirs.WITHOUT_POOLER:
        assert loaded.report.missing == (
            "bert/pooler/dense/kernel",
            "bert/pooler/dense/bias",
        )
    else:
        assert_has_weights(loaded, tmp_path / "x")
    if kind in huggingface.TASKS:
        assert loaded.labels == ["no", "yes", "perhaps"]
        assert (loaded.model.kind, loaded.model.num_labels) == (kind, 3)


def test_only_weights_that_the_folder_lacks_are_drawn(
    goldens, tmp_path, monkeypatch
):
    write_huggingface(goldens, tmp_path, "BertForTokenClassification")
    drawn = shapes_drawn(monkeypatch)
    keras.utils.set_random_seed(3)
    loaded = modeling.load(tmp_path)
    pooler = loaded.encoder.pooler.dense.kernel
    assert drawn == [pooler.shape, (3, theirs.H)]  # the head is small
    keras.utils.set_random_seed(3)
    fresh = tasks.TaskModel(loaded.config, "tagging", 3)
    np.testing.assert_array_equal(pooler, fresh.bert.pooler.dense.kernel)


def test_one_row_of_a_text_is_a_regression(goldens, tmp_path):
    folder = tmp_path / "theirs"
    tensors = theirs.tensors_of("BertForSequenceClassification")
    tensors["classifier.weight"] = tensors["classifier.weight"][:1]
    tensors["classifier.bias"] = tensors["classifier.bias"][:1]
    theirs.write_folder(
        folder,
        tensors,
        architectures=["BertForSequenceClassification"],
        id2label={"0": "LABEL_0"},
    )
    shutil.copy(goldens / "vocab.txt", folder)
    loaded = modeling.load(folder)
    assert (loaded.kind, loaded.labels) == ("regression", None)
    assert_has_weights(loaded, folder)


def test_choices_of_hugging_face_are_asked_for(goldens, tmp_path):
    write_huggingface(goldens, tmp_path / "x", "BertForMultipleChoice")
    with pytest.raises(ValueError, match="how many choices.*num_choices="):
        modeling.load(tmp_path / "x")
    loaded = modeling.load(tmp_path / "x", num_choices=4)
    assert (loaded.kind, loaded.model.num_labels) == ("choice", 4)


def test_the_names_of_choices_are_counted(goldens, tmp_path):
    def labels_of(*names, num_choices):
        write_huggingface(
            *(goldens, tmp_path, "BertForMultipleChoice"),
            id2label={str(i): name for i, name in enumerate(names)},
        )
        return modeling.load(tmp_path, num_choices=num_choices).labels

    assert labels_of("LABEL_0", "LABEL_1", num_choices=4) is None
    assert labels_of("no", "yes", num_choices=2) == ["no", "yes"]
    message = r"2 labels \(no, yes\), but num_choices is 4; pass num_choices=2"
    with pytest.raises(ValueError, match=message):
        labels_of("no", "yes", num_choices=4)


@pytest.mark.parametrize("names", [{"0": "no", "2": "yes"}, ["no", "yes"], 2])
def test_labels_that_have_not_the_ids_from_0_are_refused(
    goldens, tmp_path, names
):
    write_huggingface(goldens, tmp_path, id2label=names)
    with pytest.raises(ValueError, match="config.json: id2label .*Correct the"):
        modeling.load(tmp_path)


def test_kinds_are_those_of_the_objectives():
    assert {*huggingface.TASKS} == {*tasks.KINDS}


def test_a_damaged_vocabulary_is_refused(goldens, tmp_path):
    write_huggingface(goldens, tmp_path)
    (tmp_path / "vocab.txt").unlink()
    (tmp_path / "tokenizer.json").write_text('{"model": 3}')
    with pytest.raises(ValueError, match=r"json is not a tokenizer.json of"):
        modeling.load(tmp_path)
