"""Paths and checkpoints that do not fit are refused before records are made."""

import shutil

import pytest

from tests.support.classifier_support import write_table
from tests.support.model_folders import write_config
from tests.training import squad_support
from tests.training.finetuning_support import MRPC, options_of
from training.config.finetuning_options import TrialOptions
from training.many_runs import suite, trials
from training.runs import classifier, questions

MNLI = "classifier/MNLI/expected/model.ckpt-16"


def refused(call, message, tmp_path):
    """The call ends with an error, and no record file is there."""
    with pytest.raises((ValueError, OSError), match=message):
        call()
    assert not list(tmp_path.rglob("*.tf_record*"))


def refused_task(goldens, tmp_path, message, kind="single", **changes):
    """Likewise of run_classifier.py on a table, which may be there."""
    if not (tmp_path / "data").exists():
        write_table(tmp_path / "data", kind)
    options = options_of(goldens, tmp_path, kind).replace(**changes)
    refused(lambda: classifier.run(options), message, tmp_path)


def refused_questions(goldens, tmp_path, message, **changes):
    """Likewise of run_squad.py."""
    asked = squad_support.make_options(goldens, tmp_path / "squad", **changes)
    refused(lambda: questions.run(asked), message, tmp_path)


METRIC = {"kind": "single", "metrics": ["f2"]}
HEAD = "has no output_weights and output_bias"
PARTS = {"train_batch_size": 7, "gradient_accumulation_steps": 2}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"init_checkpoint": "/no/bert.ckpt"}, "^/no/bert.ckpt: no checkpoint"),
        ({"task_options": METRIC}, "--metrics=f2: .*classification are acc"),
        ({"class_weights": {"l9": 2.0}}, "--class_weights .*'l9'.*l0, l1"),
        (PARTS, "--train_batch_size=7 cannot be divided into 2 parts"),
        # A head that is not trained.
        ({"do_train": False}, f"{HEAD} for this task"),
        ({"do_train": False, "init_checkpoint": None}, "no checkpoint; train"),
        ({"do_train": False, "init_checkpoint": MNLI}, HEAD),
        # An encoder that would keep its random weights.
        (
            {
                "kind": "tagging",
                "feature_based": "last",
                "init_checkpoint": None,
            },
            "--feature_based=last never trains the encoder",
        ),
    ],
    ids=str,
)
def test_what_does_not_fit_a_task_is_refused(
    goldens, tmp_path, changes, message
):
    if first := changes.get("init_checkpoint"):
        changes = changes | {"init_checkpoint": str(goldens / first)}
    refused_task(goldens, tmp_path, message, **changes)


@pytest.mark.parametrize(
    ("kind", "name"), [("single", "dev"), ("tagging", "test")]
)
def test_a_missing_file_is_refused(goldens, tmp_path, kind, name):
    write_table(tmp_path / "data", kind)
    (tmp_path / f"data/{name}.jsonl").unlink()
    message = f"--task_name=tsv, {name} set: .*/data"
    refused_task(goldens, tmp_path, message, kind)


def test_an_encoder_of_another_size_is_refused(goldens, tmp_path):
    path = write_config(goldens, tmp_path / "wide.json", intermediate_size=80)
    message = "does not fit the configuration:\n.*intermediate/dense/kernel"
    refused_task(goldens, tmp_path, message, bert_config_file=path)


OTHER = "out holds a run of another model: "


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("labels", "out holds a model of the labels l1, l0"),
        ("kind", rf"{OTHER}.*\(output_weights: "),
        ("config", f"{OTHER}num_attention_heads"),
        ("head", f"{OTHER}--head 'linear' -> 'bil"),
    ],
)
def test_a_folder_of_another_model_is_refused(
    goldens, tmp_path, change, message
):
    kind = "regression" if change == "kind" else "single"
    write_table(tmp_path / "data", kind)
    out = tmp_path / "out"
    out.mkdir()
    for path in (goldens / MRPC).parent.glob("model.ckpt-16.*"):
        shutil.copy(path, out)
    labels = {"labels": "l1\nl0\n", "kind": ""}.get(change, "l0\nl1\n")
    (out / "labels.txt").write_text(labels)
    if change == "config":
        write_config(goldens, out / "bert_config.json", num_attention_heads=2)
    changes = {"head": "bilstm"} if change == "head" else {}
    if change != "labels":  # without training, the order of labels.txt counts
        refused_task(
            goldens, tmp_path, message, kind, do_train=False, **changes
        )
    refused_task(goldens, tmp_path, message, kind, **changes)


def test_a_run_that_has_begun_needs_no_first_checkpoint(
    goldens, tmp_path, finished_classifier
):
    shutil.copytree(finished_classifier, tmp_path, dirs_exist_ok=True)
    for path in (tmp_path / "out").glob("*.tf_record*"):
        path.unlink()
    again = {"init_checkpoint": "/no/bert_model.ckpt"}
    options = options_of(goldens, tmp_path, finetuning=again, do_predict=False)
    other = options.replace(optimizer="lamb")
    refused(lambda: classifier.run(other), "--optimizer=lamb, but", tmp_path)
    assert classifier.run(options).step == 6


def test_trials_are_refused_before_any(goldens, tmp_path):
    write_table(tmp_path / "data", "single")
    asked = TrialOptions(num_trials=2)
    options = options_of(goldens, tmp_path)
    lost = options.replace(init_checkpoint="/no/model.ckpt")
    refused(lambda: trials.run(lost, asked), "no checkpoint there", tmp_path)
    (tmp_path / "data/test.jsonl").unlink()
    message = "--task_name=tsv, test set: "
    refused(lambda: trials.run(options, asked), message, tmp_path)


@pytest.mark.parametrize(
    ("num_trials", "missing", "init_checkpoint", "message"),
    [
        (1, "MRPC/dev.tsv", "model/trained", "--task_name=mrpc, dev set: "),
        (2, "CoLA/test.tsv", "model/trained", "--task_name=cola, test set: "),
        (1, None, "no/model.ckpt", "no/model.ckpt: no checkpoint there"),
    ],
)
def test_several_tasks_are_refused_before_any(
    goldens, tmp_path, num_trials, missing, init_checkpoint, message
):
    shutil.copytree(
        goldens / "classifier",
        tmp_path / "data",
        ignore=shutil.ignore_patterns("expected"),
    )
    if missing:
        (tmp_path / "data" / missing).unlink()
    options = options_of(
        goldens,
        tmp_path,
        finetuning={"init_checkpoint": str(goldens / init_checkpoint)},
        task_name="MNLI,CoLA,MRPC",
        task_options={},
    )
    asked = TrialOptions(num_trials=num_trials)
    refused(lambda: suite.run(options, asked), message, tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train_file": "/no.json"}, "^/no.json: no such SQuAD file"),
        ({"predict_file": "/no.json"}, "^/no.json: no such SQuAD file"),
        ({"max_query_length": 93}, r"^The max_seq_length \(96\) must be great"),
        ({"max_seq_length": 384}, "^--max_seq_length=384, but the model of "),
        (PARTS, "--train_batch_size=7 cannot be divided into 2 parts"),
        (
            {"do_train": False, "init_checkpoint": "model/trained"},
            "has no cls/squad/output_weights and cls/squad/output_bias for",
        ),
    ],
)
def test_questions_are_refused_before_their_records(
    goldens, tmp_path, changes, message
):
    if first := changes.get("init_checkpoint"):
        changes = changes | {"init_checkpoint": str(goldens / first)}
    changes = {"do_train": True} | changes
    refused_questions(goldens, tmp_path, message, **changes)


def test_pairs_for_one_segment_type_are_refused(goldens, tmp_path):
    path = write_config(goldens, tmp_path / "one.json", type_vocab_size=1)
    given = {"bert_config_file": path, "init_checkpoint": None}
    message = "needs two segment types.*type_vocab_size 1"
    of_task = {"kind": "pair", "do_predict": False, **given}
    refused_task(goldens, tmp_path, message, **of_task)
    refused_questions(goldens, tmp_path, message, do_train=True, **given)


def test_an_unknown_metric_is_refused(goldens, tmp_path):
    watched = {"save_best": "f9", "eval_every_steps": 2}
    message = "--save_best=f9: evaluations give no such metric, but"
    refused_task(goldens, tmp_path, message, **watched)
    refused_questions(goldens, tmp_path, message, do_train=True, **watched)


def test_an_input_that_would_be_replaced_is_refused(goldens, tmp_path):
    asked = {"kind": "single", "test_file": "predictions.tsv"}
    changes = {"output_dir": str(tmp_path / "data"), "task_options": asked}
    message = "predictions.tsv is a file of --test_file, too; give another path"
    refused_task(goldens, tmp_path, message, **changes)
    predicted = str(tmp_path / "squad/predictions.json")
    message = "predictions.json is a file of --predict_file, too"
    refused_questions(goldens, tmp_path, message, predict_file=predicted)
