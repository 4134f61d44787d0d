"""convert_checkpoint.py, and runs that begin with Hugging Face's weights."""

import dataclasses
import json
import os
import shutil
import sys

import numpy as np
import pytest
from safetensors.numpy import load_file

import bert
import modeling
from modeling import BertConfig, SpanModel, TaskModel, checkpoints
from tests.support import fork_server
from tests.support import huggingface_support as theirs
from tests.support.model_folders import write_questions
from tests.support.serving_support import finished_run
from training.convert import conversion
from training.runs import pretraining
from training.start import first_weights
from training.start.source import Source


@pytest.fixture
def vocab(goldens):
    return (goldens / "vocab.txt").read_bytes()


@pytest.fixture
def folder(tmp_path, vocab):
    """A model of Hugging Face for pretraining."""
    path = tmp_path / "theirs"
    theirs.write_folder(
        path,
        theirs.tensors_of("BertForPreTraining"),
        architectures=["BertForPreTraining"],
    )
    (path / "vocab.txt").write_bytes(vocab)
    (path / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    return path


def convert(source, target, **options):
    conversion.run(
        conversion.ConversionOptions(
            model=str(source), output_dir=str(target), **options
        )
    )
    return target


def names_in(path):
    return sorted(p.name for p in path.iterdir())


def run_dir(goldens, tmp_path, model, *, described=None, labels=()):
    """What a run leaves in its output_dir, for some model."""
    path = tmp_path / "out"
    weights = checkpoints.variables_by_name(model.layers)
    values = {name: v.numpy() for name, v in weights.items()}
    values |= {
        f"{name}/adam_m": np.zeros_like(value) for name, value in values.items()
    }
    checkpoints.write(
        str(path / "model.ckpt-7"), values | {"global_step": np.int64(7)}
    )
    checkpoints.tf1.write_state(str(path), ["model.ckpt-7"])
    shutil.copy(goldens / "bert_config.json", path)
    shutil.copy(goldens / "vocab.txt", path)
    (path / "labels.txt").write_text("".join(f"{x}\n" for x in labels))
    if described:
        (path / "task.json").write_text(json.dumps(described))
    return path


@pytest.fixture
def config(goldens):
    return BertConfig.from_json_file(str(goldens / "bert_config.json"))


def test_there_and_back_is_the_same_bit_for_bit(folder, vocab, tmp_path):
    ours = convert(folder, tmp_path / "ours")
    assert names_in(ours) == [
        "bert_config.json",
        "bert_model.ckpt.data-00000-of-00001",
        "bert_model.ckpt.index",
        "tokenizer_config.json",
        "vocab.txt",
    ]
    config = BertConfig.from_json_file(str(ours / "bert_config.json"))
    assert config.hidden_act == "gelu_exact"
    back = convert(ours, tmp_path / "back")
    assert names_in(back) == [
        "config.json",
        "model.safetensors",
        "special_tokens_map.json",
        "tokenizer_config.json",
        "vocab.txt",
    ]
    assert (back / "vocab.txt").read_bytes() == vocab
    assert len({path.stat().st_mode for path in back.iterdir()}) == 1
    tensors = load_file(back / "model.safetensors")
    expected = theirs.tensors_of("BertForPreTraining")
    assert tensors.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(tensors[name], value)
    values = json.loads((back / "config.json").read_text())
    assert values == {
        key: value
        for key, value in theirs.CONFIG.items()
        if key in values and key != "architectures"
    } | {"architectures": ["BertForPreTraining"]}
    tokenizer = json.loads((back / "tokenizer_config.json").read_text())
    assert tokenizer["do_lower_case"] is False


def test_the_originals_checkpoint_comes_back_bit_for_bit(goldens, tmp_path):
    original = checkpoints.open_checkpoint(str(goldens / "model/trained"))
    options = {
        "bert_config_file": str(goldens / "bert_config.json"),
        "vocab_file": str(goldens / "vocab.txt"),
    }
    there = convert(goldens / "model/trained", tmp_path / "there", **options)
    values = json.loads((there / "config.json").read_text())
    assert values["hidden_act"] == "gelu_new"
    assert values["architectures"] == ["BertForPreTraining"]
    back = convert(there, tmp_path / "back")
    ours = checkpoints.open_checkpoint(str(back))
    assert len(ours.shapes) == 62
    for name in ours.shapes:
        np.testing.assert_array_equal(ours.read(name), original.read(name))
    text = (goldens / "bert_config.json").read_text()
    assert (back / "bert_config.json").read_text() == text


@pytest.mark.parametrize("is_cased", [True, False])
def test_without_a_word_of_it_the_vocabulary_says_the_case(
    goldens, vocab, tmp_path, is_cased
):
    tokens = vocab.decode().splitlines()
    if is_cased:
        tokens = [t.capitalize() if t.isalpha() else t for t in tokens]
    (tmp_path / "vocab.txt").write_text("".join(f"{t}\n" for t in tokens))
    target = convert(
        goldens / "model/trained",
        tmp_path / "target",
        bert_config_file=str(goldens / "bert_config.json"),
        vocab_file=str(tmp_path / "vocab.txt"),
    )
    tokenizer = json.loads((target / "tokenizer_config.json").read_text())
    assert tokenizer["do_lower_case"] is not is_cased


@pytest.mark.parametrize(
    ("kind", "architecture", "problem_type"),
    [
        (
            "classification",
            "BertForSequenceClassification",
            "single_label_classification",
        ),
        (
            "multilabel",
            "BertForSequenceClassification",
            "multi_label_classification",
        ),
        ("tagging", "BertForTokenClassification", None),
    ],
)
def test_a_finished_run_says_what_it_is(
    goldens, config, tmp_path, kind, architecture, problem_type
):
    labels = ["no", "yes", "perhaps"]
    source = run_dir(
        goldens,
        tmp_path,
        TaskModel(config, kind, 3),
        described={
            "task_name": "csv",
            "kind": kind,
            "labels": labels,
            "max_seq_length": 128,
            "do_lower_case": False,
            "model": {"kind": kind, "num_labels": 3},
            "weights": "model.ckpt-7",
        },
        labels=labels,
    )
    target = convert(source, tmp_path / "target")
    values = json.loads((target / "config.json").read_text())
    assert values["architectures"] == [architecture]
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


def test_of_trials_the_best_weights_of_the_chosen_one_are_taken(
    goldens, config, tmp_path
):
    model = TaskModel(config, "tagging", 3)
    source = run_dir(goldens, tmp_path, model, labels=["O", "A", "B"])
    chosen = source / "trial-2"
    chosen.mkdir()
    for name in "vocab.txt", "bert_config.json", "labels.txt":
        (source / name).rename(chosen / name)
    best = finished_run(goldens, chosen, "tagging")
    (source / "trials.json").write_text('{"chosen": "trial-2"}')
    facts = json.loads((chosen / "task.json").read_text())
    (chosen / "best").mkdir()
    for path in chosen.glob("model.ckpt-60*"):
        path.rename(chosen / "best" / path.name)
    facts |= {"weights": "best/model.ckpt-60", "do_lower_case": False}
    (chosen / "task.json").write_text(json.dumps(facts))
    target = convert(source, tmp_path / "target")
    values = json.loads((target / "config.json").read_text())
    assert values["architectures"] == ["BertForTokenClassification"]
    tokenizer = json.loads((target / "tokenizer_config.json").read_text())
    assert tokenizer["do_lower_case"] is False
    np.testing.assert_array_equal(
        load_file(target / "model.safetensors")["classifier.weight"],
        checkpoints.variables_by_name(best.layers)["output_weights"],
    )


def test_a_regression_has_one_nameless_output(goldens, config, tmp_path):
    source = run_dir(goldens, tmp_path, TaskModel(config, "regression", 1))
    target = convert(source, tmp_path / "target", kind="regression")
    values = json.loads((target / "config.json").read_text())
    assert values["problem_type"] == "regression"
    assert values["id2label"] == {"0": "LABEL_0"}
    assert not (convert(target, tmp_path / "ours") / "labels.txt").exists()


def test_a_choice_has_no_labels(goldens, config, tmp_path):
    source = run_dir(
        goldens, tmp_path, TaskModel(config, "choice", 4), labels="0123"
    )
    target = convert(source, tmp_path / "target", kind="choice")
    values = json.loads((target / "config.json").read_text())
    assert values["architectures"] == ["BertForMultipleChoice"]
    assert "id2label" not in values


def test_a_span_head_answers_questions(goldens, config, tmp_path):
    source = run_dir(goldens, tmp_path, SpanModel(config))
    target = convert(source, tmp_path / "target")
    values = json.loads((target / "config.json").read_text())
    assert values["architectures"] == ["BertForQuestionAnswering"]
    tensors = load_file(target / "model.safetensors")
    head = checkpoints.open_checkpoint(str(source)).read(
        "cls/squad/output_weights"
    )
    np.testing.assert_array_equal(tensors["qa_outputs.weight"], head)


def test_what_a_run_says_survives_both_formats(goldens, tmp_path):
    """Lengths and rules of a model of questions are in no file of theirs."""
    ours = tmp_path / "ours"
    path = write_questions(goldens, ours)
    written = json.loads((ours / "task.json").read_text())
    unusual = {"version_2_with_negative": True, "null_score_diff_threshold": -5}
    written |= unusual
    (ours / "task.json").write_text(json.dumps(written))
    theirs = convert(path, tmp_path / "theirs")
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
    refused(ValueError, "--vocab_file=.*leave", path, tmp_path / "no", **said)
    with pytest.raises(ValueError, match="--vocab_file=.*leave"):
        modeling.load(path, **said)
    # Others have written over it since.
    values = json.loads((theirs / "config.json").read_text())
    values |= {"architectures": ["BertForTokenClassification"]}
    (theirs / "config.json").write_text(json.dumps(values))
    assert (
        modeling.checkpoints.model_folder.find(str(theirs)).description is None
    )


def test_labels_of_a_file_take_the_place_of_numbers(goldens, config, tmp_path):
    model = TaskModel(config, "classification", 2)
    source = run_dir(goldens, tmp_path, model, labels=["LABEL_0", "LABEL_1"])
    (tmp_path / "labels.txt").write_text("neg\npos\n")
    said = {"labels_file": str(tmp_path / "labels.txt")}
    said |= {"kind": "classification", "output_format": "original"}
    target = convert(source, tmp_path / "target", **said)
    assert (target / "labels.txt").read_text() == "neg\npos\n"
    found = json.loads((target / "task.json").read_text())
    assert found["labels"] == ["neg", "pos"]
    (tmp_path / "labels.txt").write_text("neg\n")
    refused(
        ValueError,
        "labels.txt has 1 labels.*--labels_file",
        *(source, tmp_path / "wrong"),
        **said,
    )
    (tmp_path / "labels.txt").write_text("pos\nneg\n")
    refused(
        ValueError,
        "--labels_file.* neg, pos .*leave the flag out",
        *(target, tmp_path / "wrong"),
        **said,
    )


def test_a_vocabulary_within_tokenizer_json_is_taken(folder, vocab, tmp_path):
    tokens = vocab.decode().splitlines()
    (folder / "vocab.txt").unlink()
    model = {"type": "WordPiece", "vocab": {t: i for i, t in enumerate(tokens)}}
    file = folder / "tokenizer.json"
    file.write_text(json.dumps({"model": model}))
    ours = convert(folder, tmp_path / "ours")
    assert (ours / "vocab.txt").read_bytes() == vocab
    file.write_text(json.dumps({"model": model | {"type": "BPE"}}))
    with pytest.raises(ValueError, match="its model is 'BPE'.*--vocab_file"):
        convert(folder, tmp_path / "more")
    file.unlink()
    with pytest.raises(FileNotFoundError, match="neither vocab.txt nor token"):
        convert(folder, tmp_path / "more")
    assert names_in(tmp_path) == ["ours", "theirs"]


def refused(error, message, source, target, **options):
    with pytest.raises(error, match=message):
        convert(source, target, **options)
    assert not list(target.parent.glob(f"{target.name}*"))


def test_what_it_cannot_know_it_asks_for(goldens, config, tmp_path):
    target = tmp_path / "target"
    source = run_dir(
        goldens,
        tmp_path,
        TaskModel(config, "classification", 3),
        labels=["a", "b"],
    )
    refused(
        ValueError,
        "an output layer .of a kind that no.*--kind if it is one of class",
        source,
        target,
    )
    refused(
        ValueError,
        "labels.txt has 2 labels, but .* has 3; .*--labels_file",
        source,
        target,
        kind="tagging",
    )
    (source / "labels.txt").unlink()
    (source / "vocab.txt").unlink()
    refused(
        FileNotFoundError,
        "out: no such vocabulary, neither vocab.txt .*; give --vocab_file",
        source,
        target,
        kind="tagging",
    )
    (source / "bert_config.json").unlink()
    refused(
        FileNotFoundError,
        "bert_config.json: no such .*--bert_config_file",
        source,
        target,
        kind="tagging",
    )


def test_a_head_on_a_frozen_encoder_is_refused(goldens, config, tmp_path):
    head = {"feature_based": "second_to_last", "head": "linear"}
    (tmp_path / "out").mkdir()
    (tmp_path / "out/head.json").write_text(json.dumps(head))
    source = run_dir(goldens, tmp_path, TaskModel(config, "tagging", 3))
    refused(
        ValueError,
        "head.json: the head .*second_to_last.* no counterpart",
        source,
        tmp_path / "target",
        kind="tagging",
    )


def test_weights_of_another_size_are_refused(folder, goldens, tmp_path):
    values = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(
        json.dumps(values | {"intermediate_size": 21})
    )
    refused(ValueError, "does not fit", folder, tmp_path / "target")


def test_a_vocabulary_of_another_size_is_refused(folder, tmp_path):
    (folder / "vocab.txt").write_text("[PAD]\n[UNK]\n")
    refused(ValueError, "has 2 wordpieces, but", folder, tmp_path / "target")


@pytest.mark.parametrize(
    ("target", "link_to"),
    [(".", None), ("out/", None), ("out", "disk"), ("out", "disk/new")],
)
def test_an_empty_folder_is_filled_and_stays(
    folder, tmp_path, monkeypatch, target, link_to
):
    for name in ("here", "disk"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    if link_to:
        os.symlink(tmp_path / link_to, "out")
    elif target != ".":
        os.mkdir("out")
    before = os.path.exists(target) and os.stat(target).st_ino
    convert(folder, target)
    assert before in (False, os.stat(target).st_ino)
    assert os.path.islink(target) == bool(link_to)
    assert sorted(os.listdir(target)) == [
        "bert_config.json",
        "bert_model.ckpt.data-00000-of-00001",
        "bert_model.ckpt.index",
        "tokenizer_config.json",
        "vocab.txt",
    ]
    assert not list(tmp_path.rglob("*incomplete*"))


def test_nothing_is_written_over(folder, tmp_path):
    target = tmp_path / "target"
    convert(folder, target)
    before = {p.name: p.read_bytes() for p in target.iterdir()}
    with pytest.raises(ValueError, match="not empty; nothing was written"):
        convert(folder, target)
    assert {p.name: p.read_bytes() for p in target.iterdir()} == before


def test_a_run_begins_with_their_weights_and_goes_back(
    options, folder, tmp_path
):
    options = dataclasses.replace(
        options,
        bert_config_file=str(folder / "config.json"),
        init_checkpoint=str(folder),
        train=dataclasses.replace(options.train, num_train_steps=1),
    )
    pretraining.run(options)
    out = options.train.output_dir
    back = convert(out, tmp_path / "back", vocab_file=str(folder / "vocab.txt"))
    tensors = load_file(back / "model.safetensors")
    # The rate of the last step is 0: the weights are still theirs.
    for name, value in theirs.tensors_of("BertForPreTraining").items():
        np.testing.assert_array_equal(tensors[name], value)


def test_another_activation_is_warned_of(folder, caplog):
    config = BertConfig.from_json_file(str(folder / "config.json"))
    tanh = dataclasses.replace(config, hidden_act="gelu")
    for model_config in (config, tanh):
        first_weights.compare(Source(str(folder)), model_config)
    (message,) = [m for m in caplog.messages if "bert_config_file" in m]
    assert "says hidden_act gelu, but" in message
    assert "gelu_exact (the erf form; Hugging Face calls it gelu)" in message
    assert f"Give --bert_config_file={folder}/config.json" in message


def test_a_tokenizer_that_is_not_bert_s_is_refused(folder, tmp_path):
    path = folder / "tokenizer_config.json"
    path.write_text('{"tokenize_chinese_chars": false}')
    message = "says tokenize_chinese_chars: false, but here it is true"
    for output_format in conversion.FORMATS:
        refused(
            ValueError,
            message,
            folder,
            tmp_path / "new",
            output_format=output_format,
        )


def test_the_program_converts_and_says_what(folder, pytestconfig, tmp_path):
    done = fork_server.run(
        [
            sys.executable,
            "convert_checkpoint.py",
            f"--model={folder}",
            f"--output_dir={tmp_path}/ours",
        ],
        cwd=pytestconfig.rootpath,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "need --do_lower_case=False" in done.stderr
    assert "ours holds bert_config.json, bert_model.ckpt" in done.stderr
