"""Models of folders: of the original, of Hugging Face, of our runs."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest

import modeling
from modeling import BertModel, SpanModel, TaskModel, checkpoints
from modeling.checkpoints import huggingface
from modeling.objectives import tasks
from tests import huggingface_support as theirs
from tests import rounding
from tests.model_folder_support import write_original
from tests.serving_support import LABELS, LENGTH, finished_run


@pytest.fixture
def original(goldens, tmp_path):
    """A folder as the original released them, of the golden model."""
    return write_original(goldens, tmp_path / "original")


def huggingface_folder(goldens, folder, architecture="BertModel", **config):
    """A folder of Hugging Face with random weights; returns the tensors."""
    tensors = theirs.tensors_of(architecture)
    theirs.write_folder(folder, tensors, architectures=[architecture], **config)
    shutil.copy(goldens / "vocab.txt", folder)
    return tensors


def assert_has_weights(loaded, path):
    """All variables of the model are those of a checkpoint, bit for bit."""
    checkpoint = checkpoints.open_checkpoint(str(path))
    layers = (loaded.model,)
    if loaded.kind != "encoder":
        layers = loaded.model.layers
    variables = checkpoints.variables_by_name(layers)
    assert not loaded.report.missing
    assert loaded.report.loaded == tuple(variables)
    for name, variable in variables.items():
        np.testing.assert_array_equal(variable, checkpoint.read(name))


def test_a_folder_of_the_original_gives_its_vectors(original, goldens):
    loaded = modeling.load(str(original))
    assert loaded.kind == "pretraining"
    assert loaded.encoder is loaded.model.bert
    assert_has_weights(loaded, original)
    assert (loaded.labels, loaded.max_seq_length) == (None, None)
    lines = (goldens / "extract_features/input.txt").read_text("utf-8")
    golden = (goldens / "extract_features/expected.jsonl").read_text("utf-8")
    count = 0
    for line, expected in zip(
        lines.splitlines(), golden.splitlines(), strict=True
    ):
        if "|||" in line:
            continue
        tokens = ["[CLS]", *loaded.tokenizer.tokenize(line)[:62], "[SEP]"]
        features = json.loads(expected)["features"]
        assert tokens == [feature["token"] for feature in features]
        ids = [loaded.tokenizer.convert_tokens_to_ids(tokens)]
        output = loaded.encoder(np.array(ids, np.int32))
        np.testing.assert_allclose(
            output.get_sequence_output()[0],
            [feature["layers"][0]["values"] for feature in features],
            rtol=0,
            atol=rounding.SIX_DECIMALS,
        )
        count += 1
    assert count


def test_the_tokenizer_of_a_masked_lm_leaves_masks_whole(original):
    loaded = modeling.load(str(original))
    tokens = loaded.tokenizer.tokenize("the [MASK].")
    assert tokens == ["the", "[MASK]", "."]
    encoder = modeling.load(str(original), kind="encoder")
    assert "[MASK]" not in encoder.tokenizer.tokenize("the [MASK].")
    assert encoder.model is encoder.encoder
    assert "cls/predictions/output_bias" in encoder.report.unused


def test_a_folder_of_hugging_face_gives_its_vectors(goldens, tmp_path):
    tensors = huggingface_folder(goldens, tmp_path / "theirs")
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
    np.testing.assert_allclose(
        ours[mask], sequence[mask], rtol=0, atol=rounding.EQUAL
    )
    np.testing.assert_allclose(
        output.pooled_output, pooled, rtol=0, atol=rounding.EQUAL
    )


def test_from_folder_gives_the_encoder_alone(
    original, goldens, tmp_path, caplog
):
    bert = BertModel.from_folder(str(original), whole_last_layer=True)
    assert isinstance(bert, BertModel)
    golden = checkpoints.Checkpoint(str(original))
    for name, variable in checkpoints.variables_by_name([bert]).items():
        np.testing.assert_array_equal(variable, golden.read(name))
    # Without a pooler, which stays random, there is a warning.
    huggingface_folder(goldens, tmp_path / "span", "BertForQuestionAnswering")
    caplog.clear()
    BertModel.from_folder(str(tmp_path / "span"))
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "missing: bert/pooler/dense/kernel" in record.message
    # It needs no vocabulary.
    huggingface_folder(goldens, tmp_path / "theirs", "BertForMultipleChoice")
    (tmp_path / "theirs/vocab.txt").unlink()
    bert = BertModel.from_folder(str(tmp_path / "theirs"))
    assert bert.config.hidden_size == theirs.H


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
def test_hugging_face_says_its_kind(
    goldens, tmp_path, architecture, config, kind
):
    names = {"0": "no", "2": "perhaps", "1": "yes"}
    huggingface_folder(
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
    huggingface_folder(goldens, tmp_path / "x", "BertForMultipleChoice")
    with pytest.raises(ValueError, match="how many choices.*num_choices="):
        modeling.load(tmp_path / "x")
    loaded = modeling.load(tmp_path / "x", num_choices=4)
    assert (loaded.kind, loaded.model.num_labels) == ("choice", 4)


def test_kinds_are_those_of_the_objectives():
    assert (*huggingface.TASKS,) == tuple(
        kind for kind in huggingface.TASKS if kind in tasks.KINDS
    )
    assert len(huggingface.TASKS) == len(tasks.KINDS)


@pytest.mark.parametrize("kind", tasks.KINDS)
def test_a_finished_run_gives_its_model(goldens, tmp_path, kind):
    model = finished_run(goldens, tmp_path, kind)
    loaded = modeling.load(str(tmp_path))
    assert loaded.kind == loaded.description["kind"] == kind
    assert loaded.max_seq_length == LENGTH
    assert (loaded.labels or ()) == list(LABELS.get(kind, ("no", "yes"))) or (
        kind == "regression" and loaded.labels is None
    )
    assert_has_weights(loaded, tmp_path)
    rng = np.random.default_rng(1)
    size = LENGTH * (3 if kind == "choice" else 1)
    batch = {
        "input_ids": rng.integers(1, 1200, (2, size)).astype(np.int32),
        "input_mask": rng.integers(0, 2, (2, size)).astype(np.int32),
        "segment_ids": rng.integers(0, 2, (2, size)).astype(np.int32),
    }
    np.testing.assert_array_equal(
        loaded.model.predict(batch), model.predict(batch)
    )


def test_the_best_weights_of_the_chosen_trial_are_taken(goldens, tmp_path):
    trial = tmp_path / "trial-2"
    trial.mkdir()
    finished_run(goldens, trial, "tagging")
    (trial / "best").mkdir()
    for path in trial.glob("model.ckpt-60*"):
        shutil.copy(path, trial / "best" / path.name.replace("60", "40"))
    facts = json.loads((trial / "task.json").read_text())
    facts["weights"] = "best/model.ckpt-40"
    (trial / "task.json").write_text(json.dumps(facts))
    (tmp_path / "trials.json").write_text('{"chosen": "trial-2"}')
    loaded = modeling.load(str(tmp_path))
    assert loaded.report.source.endswith("trial-2/best/model.ckpt-40")
    # And by its prefix, with the labels of the folder above.
    loaded = modeling.load(str(trial / "best/model.ckpt-40"))
    assert (loaded.kind, loaded.labels) == ("tagging", list(LABELS["tagging"]))
    assert modeling.load(str(trial / "model.ckpt-60")).kind == "tagging"


def test_an_unfinished_run_is_known_by_its_records(goldens, tmp_path):
    finished_run(goldens, tmp_path, "multilabel")
    (tmp_path / "task.json").unlink()
    (tmp_path / "labels.txt").write_text("toxic\nrüde\nspam\n", "utf-8")
    with pytest.raises(
        ValueError, match=r"an output layer of 3 rows.*kind=, one of class.*"
    ):
        modeling.load(str(tmp_path))
    assert modeling.load(tmp_path, kind="multilabel").model.num_labels == 3
    made_from = {"kind": "multilabel", "do_lower_case": False}
    (tmp_path / "train.tf_record.manifest.json").write_text(
        json.dumps({"made_from": made_from})
    )
    loaded = modeling.load(str(tmp_path))
    assert loaded.kind == "multilabel"
    assert loaded.labels == ["toxic", "rüde", "spam"]
    assert not loaded.tokenizer.basic_tokenizer.do_lower_case


def test_a_bilstm_of_an_unfinished_run_is_known(goldens, tmp_path):
    finished_run(goldens, tmp_path, "tagging")
    config = modeling.load(str(tmp_path)).config
    head = {"feature_based": "weighted_all", "head": "bilstm"}
    model = TaskModel(config, "tagging", 3, **head)
    weights = checkpoints.variables_by_name(model.layers)
    prefix = str(tmp_path / "model.ckpt-60")
    checkpoints.write(prefix, {n: v.numpy() for n, v in weights.items()})
    (tmp_path / "task.json").unlink()
    (tmp_path / "head.json").write_text(json.dumps(head))
    loaded = modeling.load(str(tmp_path), kind="tagging")
    assert loaded.model.bilstm
    assert_has_weights(loaded, prefix)


def test_the_newest_checkpoint_of_a_pretraining_run_is_taken(
    original, goldens, tmp_path
):
    # As after an export, and more training.
    (original / "task.json").write_text(
        json.dumps(
            {
                "kind": "pretraining",
                "weights": "bert_model.ckpt",
                "model": {},
                "max_seq_length": 64,
                "do_lower_case": False,
            }
        )
    )
    for path in (goldens / "model/trained").iterdir():
        shutil.copy(path, original)
    loaded = modeling.load(str(original))
    assert loaded.report.source.endswith("original/model.ckpt-60")
    assert loaded.max_seq_length == 64
    assert not loaded.tokenizer.basic_tokenizer.do_lower_case


def test_span_models_are_known_by_their_head(original, goldens):
    config = modeling.load(str(original)).config
    model = SpanModel(config)
    weights = checkpoints.variables_by_name(model.layers)
    checkpoints.write(
        str(original / "bert_model.ckpt"),
        {name: v.numpy() for name, v in weights.items()},
    )
    loaded = modeling.load(str(original))
    assert loaded.kind == "span"
    assert_has_weights(loaded, original)


def test_the_case_is_that_of_the_tokenizer_or_the_vocabulary(
    goldens, tmp_path, original
):
    def lowers(folder, **options):
        tokenizer = modeling.load(str(folder), **options).tokenizer
        return tokenizer.basic_tokenizer.do_lower_case

    assert lowers(original)
    assert not lowers(original, do_lower_case=False)
    vocab = (original / "vocab.txt").read_text("utf-8").splitlines()
    vocab[-300:] = [f"W{i}" for i in range(300)]
    (original / "vocab.txt").write_text("\n".join(vocab), "utf-8")
    assert not lowers(original)
    folder = tmp_path / "theirs"
    huggingface_folder(goldens, folder)
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    assert not lowers(folder)
    (folder / "tokenizer_config.json").write_text("{}")
    assert lowers(folder)


def test_a_vocabulary_in_tokenizer_json_is_read(goldens, tmp_path):
    folder = tmp_path / "theirs"
    huggingface_folder(goldens, folder)
    expected = modeling.load(folder).tokenizer
    tokens = (folder / "vocab.txt").read_text("utf-8").splitlines()
    (folder / "vocab.txt").unlink()
    model = {"type": "WordPiece", "vocab": {t: i for i, t in enumerate(tokens)}}
    (folder / "tokenizer.json").write_text(json.dumps({"model": model}))
    tokenizer = modeling.load(folder).tokenizer
    assert tokenizer.vocab == expected.vocab
    (folder / "tokenizer.json").write_text('{"model": 3}')
    with pytest.raises(ValueError, match=r"json is no tokenizer.json of Hug"):
        modeling.load(folder)


def refused(folder, error, message, **options):
    with pytest.raises(error, match=message):
        modeling.load(str(folder), **options)


def test_what_is_no_folder_is_refused(original, tmp_path):
    refused(
        "bert-base-uncased",
        FileNotFoundError,
        "'bert-base-uncased': there is no such folder, and no checkpoint of "
        "this prefix. If .* nothing is downloaded. "
        "Get uncased_L-12_H-768_A-12.zip, which the README of github.com/"
        "google-research/bert links to, unpack it and give "
        "uncased_L-12_H-768_A-12/bert_model.ckpt; or get config.json, vocab",
    )
    refused(
        "google-bert/bert-large-cased",
        FileNotFoundError,
        "give cased_L-24_H-1024_A-16/bert_model.ckpt; or",
    )
    refused(
        "",
        FileNotFoundError,
        "'': there is no such folder.* Give a folder with bert_config.json, "
        "vocab.txt and a checkpoint, or with config.json, vocab.txt and model",
    )
    refused(tmp_path / "gone", FileNotFoundError, "gone'.*no such folder")
    refused(
        original / "bert_config.json",
        ValueError,
        "bert_config.json is a file; give the folder of a model, here .*/orig",
    )
    with pytest.raises(FileNotFoundError, match="no such folder"):
        BertModel.from_folder("bert-base-uncased")


def test_a_storage_that_is_not_there_is_named():
    refused(
        "hf://a/b", OSError, r"hf://a/b: the folder cannot be read \(File sy"
    )


def test_a_prefix_may_be_in_the_current_folder(original, monkeypatch):
    monkeypatch.chdir(original)
    assert modeling.load("bert_model.ckpt").kind == "pretraining"
    assert modeling.load(".").kind == "pretraining"


def test_a_folder_without_a_model_says_what_it_holds(original, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    refused(empty, FileNotFoundError, "empty holds no model, but nothing. Exp")
    for number in range(20):
        (empty / f"part-{number:02}.txt").touch()
    refused(
        empty,
        FileNotFoundError,
        "no model, but part-00.txt, .*part-11.txt and 8 more. Expected "
        "bert_config.json, vocab.txt and a checkpoint such as bert_model.ckpt",
    )
    (original / "bert_model.ckpt.index").unlink()
    refused(original, FileNotFoundError, "no model, but bert_config.json, ")


def test_a_folder_of_two_models_is_refused(original, goldens, tmp_path):
    both = tmp_path / "both"
    huggingface_folder(goldens, both)
    for path in original.iterdir():
        shutil.copy(path, both)
    refused(
        both,
        ValueError,
        "both holds two models, bert_model.ckpt of the original's format and "
        "model.safetensors of Hugging Face's; put each into a folder",
    )
    for ending in ".index", ".data-00000-of-00001":
        shutil.copy(
            original / f"bert_model.ckpt{ending}", original / f"a.ckpt{ending}"
        )
    refused(
        original,
        ValueError,
        "holds 2 models, a.ckpt, bert_model.ckpt, and no `checkpoint` file "
        "that names one of them; give one by its prefix: .*/original/a.ckpt$",
    )
    assert modeling.load(str(original / "a.ckpt")).kind == "pretraining"


def test_missing_files_are_named(original, goldens, tmp_path):
    (original / "vocab.txt").rename(tmp_path / "words.txt")
    refused(
        original,
        FileNotFoundError,
        "original has no vocab.txt and no tokenizer.json; pass vocab_file=",
    )
    words = str(tmp_path / "words.txt")
    assert modeling.load(str(original), vocab_file=words).tokenizer.vocab
    (original / "bert_config.json").unlink()
    refused(
        original,
        FileNotFoundError,
        "bert_model.ckpt is there, but no bert_config.json or config.json in",
    )


def test_files_that_do_not_fit_are_refused(original, goldens, tmp_path):
    refused(
        original,
        ValueError,
        "is no classification model: it has no output_weights. Pass kind=",
        kind="classification",
    )
    refused(original, ValueError, "is no span model: it has no", kind="span")
    refused(
        original,
        ValueError,
        "its kind of model is 'poetry'; it must be one of encoder, pretr",
        kind="poetry",
    )
    finished_run(goldens, original, "classification")
    (original / "bert_model.ckpt.index").unlink()
    facts = json.loads((original / "task.json").read_text())
    (original / "task.json").write_text(json.dumps(facts | {"kind": "poem"}))
    refused(original, ValueError, "its kind of model is 'poem'; it must be")
    facts["labels"] = ["no", "yes", "perhaps"]
    (original / "task.json").write_text(json.dumps(facts))
    refused(
        original,
        ValueError,
        r"names 3 labels \(no, yes, perhaps\), but the output layer of .* has "
        "2; correct the names",
    )
    (original / "task.json").write_text(json.dumps(facts | {"weights": 7}))
    refused(original, ValueError, "task.json is damaged: weights is 7 and mod")
    (original / "task.json").write_text("{")
    refused(original, ValueError, "task.json is damaged")
    (original / "task.json").unlink()
    (original / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n")
    refused(
        original,
        ValueError,
        "vocab.txt has 4 wordpieces, but .*bert_config.json says vocab_size "
        "1200",
        kind="classification",
    )


def test_importing_modeling_loads_no_tensorflow(pytestconfig):
    code = (
        "import sys, modeling\n"
        "assert 'load' in dir(modeling)\n"
        "print({'tensorflow', 'keras'} & sys.modules.keys())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=pytestconfig.rootpath,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "set()\n", done.stderr
