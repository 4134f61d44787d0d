import json
import shutil

import numpy as np
import pytest

import modeling
from modeling import BertModel
from modeling.checkpoints import huggingface
from modeling.objectives import tasks
from tests.support import huggingface_support as theirs
from tests.support import rounding
from tests.support.model_folder_support import (
    assert_has_weights,
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
    def write(*names):
        shutil.rmtree(tmp_path / "x", ignore_errors=True)
        write_huggingface(
            goldens,
            tmp_path / "x",
            "BertForMultipleChoice",
            id2label={str(i): name for i, name in enumerate(names)},
        )

    write("LABEL_0", "LABEL_1")
    assert modeling.load(tmp_path / "x", num_choices=4).labels is None
    write("no", "yes")
    assert modeling.load(tmp_path / "x", num_choices=2).labels == ["no", "yes"]
    message = r"2 labels \(no, yes\), but num_choices is 4; pass num_choices=2"
    with pytest.raises(ValueError, match=message):
        modeling.load(tmp_path / "x", num_choices=4)


def test_kinds_are_those_of_the_objectives():
    assert {*huggingface.TASKS} == {*tasks.KINDS}


def test_added_tokens_are_of_the_vocabulary_and_whole(goldens, tmp_path):
    folder = tmp_path / "theirs"
    write_huggingface(goldens, folder)
    *lines, _ = (folder / "vocab.txt").read_text("utf-8").splitlines()
    (folder / "vocab.txt").write_text("\n".join(lines), "utf-8")
    tokens = {"[E1]": len(lines)}
    (folder / "added_tokens.json").write_text(json.dumps(tokens))
    tokenizer = modeling.load(folder).tokenizer
    assert tokenizer.tokenize("the [E1]man") == ["the", "[E1]", "man"]
    assert tokenizer.encode("[E1]") == [len(lines)]


def test_another_tokenizer_is_refused_but_not_its_encoder(goldens, tmp_path):
    folder = tmp_path / "theirs"
    write_huggingface(goldens, folder)
    (folder / "tokenizer_config.json").write_text(
        '{"tokenizer_class": "BertJapaneseTokenizer"}'
    )
    with pytest.raises(ValueError, match='"BertJapaneseTokenizer", but here'):
        modeling.load(folder)
    assert BertModel.from_folder(folder).config.hidden_size == theirs.H


def test_a_vocabulary_in_tokenizer_json_is_read(goldens, tmp_path):
    folder = tmp_path / "theirs"
    write_huggingface(goldens, folder)
    expected = modeling.load(folder).tokenizer
    tokens = (folder / "vocab.txt").read_text("utf-8").splitlines()
    (folder / "vocab.txt").unlink()
    model = {"type": "WordPiece", "vocab": {t: i for i, t in enumerate(tokens)}}
    (folder / "tokenizer.json").write_text(json.dumps({"model": model}))
    tokenizer = modeling.load(folder).tokenizer
    assert tokenizer.vocab == expected.vocab
    (folder / "tokenizer.json").write_text('{"model": 3}')
    with pytest.raises(ValueError, match=r"json is not a tokenizer.json of"):
        modeling.load(folder)
