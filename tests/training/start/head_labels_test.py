"""A checkpoint's output rows by their names: reordered, refused, warned of."""

import json

import numpy as np
import pytest

import modeling
from modeling import checkpoints
from tests.support import huggingface_support as theirs
from tests.support import rounding
from tests.support.classifier_support import write_table
from tests.support.conversion_support import convert
from tests.support.run_files import contents_of
from tests.training.finetuning_support import make_options, make_run, options_of
from training.runs import classifier
from training.start import first_weights

MNLI = "classifier/MNLI/expected/model.ckpt-16"
TASK = ["contradiction", "entailment", "neutral"]
# As most MNLI models of Hugging Face have it.
THEIRS = ["entailment", "neutral", "contradiction"]
ORDER = [TASK.index(name) for name in THEIRS]


def write_checkpoint(goldens, prefix, order=(0, 1, 2)):
    """MNLI's golden model with the rows of its head in another order."""
    golden = checkpoints.Checkpoint(str(goldens / MNLI))
    values = {name: golden.read(name) for name in golden.shapes}
    for name in ("output_weights", "output_bias"):
        values[name] = values[name][[*order]]
    checkpoints.write(str(prefix), values)
    return str(prefix)


def write_labels(path, names):
    path.parent.mkdir(parents=True)
    path.write_text("".join(f"{name}\n" for name in names))


def original_form(goldens, folder, names, order=(0, 1, 2)):
    """A checkpoint with labels.txt beside it."""
    write_labels(folder / "labels.txt", names)
    return write_checkpoint(goldens, folder / "bert_model.ckpt", order)


def best_of_a_run(goldens, folder, names, order=(0, 1, 2)):
    """The best weights of an output_dir, whose labels.txt is above them."""
    write_labels(folder / "labels.txt", names)
    return write_checkpoint(goldens, folder / "best/model.ckpt-16", order)


def huggingface_form(goldens, folder, names, order=(0, 1, 2)):
    """A folder of Hugging Face with id2label, of the first layer."""
    labels = folder.parent / "names.txt"
    write_labels(labels, names)
    return convert(
        write_checkpoint(goldens, folder.parent / "source", order),
        str(folder),
        bert_config_file=str(goldens / "bert_config.json"),
        vocab_file=str(goldens / "vocab.txt"),
        kind="classification",
        labels_file=str(labels),
        keep_layers=(0,),
    )


def run_mnli(
    goldens, output_dir, init_checkpoint, config="first_layer.json", **changes
):
    """The answers to MNLI's golden test set."""
    finetuning = {
        "output_dir": output_dir,
        "init_checkpoint": init_checkpoint,
        "bert_config_file": str(goldens / config),
        "max_seq_length": 64,
    }
    usual = {"task_name": "mnli", "task_options": {}, "do_train": False}
    usual |= {"data_dir": str(goldens / "classifier/MNLI"), "do_eval": False}
    classifier.run(
        options_of(goldens, None, finetuning=finetuning, **usual | changes)
    )
    return np.loadtxt(output_dir / "test_results.tsv")


def assert_head(run, goldens, order=(0, 1, 2)):
    """The rows of the head are those of the golden one."""
    golden = checkpoints.Checkpoint(str(goldens / MNLI))
    for name in ("output_weights", "output_bias"):
        rows = golden.read(name)[[*order]]
        np.testing.assert_array_equal(run._weights[name], rows)


def run_from(source, goldens, tmp_path, labels=TASK, kind="classification"):
    """A run of MNLI, or of another task, that starts from a checkpoint."""
    options = make_options(goldens, tmp_path / "run", init_checkpoint=source)
    return make_run(options, kind, num_labels=len(labels), labels=labels)


def test_a_run_answers_by_the_names_of_the_rows(goldens, tmp_path):
    source = original_form(goldens, tmp_path / "source/model", THEIRS, ORDER)
    expected = np.loadtxt(goldens / "classifier/MNLI/expected/test_results.tsv")
    found = run_mnli(goldens, tmp_path / "out", source, "bert_config.json")
    rounding.assert_equal(found, expected)


@pytest.mark.parametrize(
    ("form", "names"),
    [
        (original_form, THEIRS),
        # Case makes no other label.
        (best_of_a_run, [name.upper() for name in THEIRS]),
        (huggingface_form, THEIRS),
    ],
)
def test_rows_in_another_order_are_put_in_that_of_the_task(
    goldens, tmp_path, logged, form, names
):
    source = form(goldens, tmp_path / "source/model", names, ORDER)
    assert_head(run_from(source, goldens, tmp_path), goldens)
    assert f"layer are reordered from {', '.join(names)} (" in logged.text
    assert ") to the order of the task: contradiction, entail" in logged.text


def test_rows_in_the_order_of_the_task_stay(goldens, tmp_path, logged):
    source = original_form(goldens, tmp_path / "source", TASK)
    assert_head(run_from(source, goldens, tmp_path), goldens)
    assert "output layer" not in logged.text


@pytest.mark.all
def test_answers_of_reordered_rows_stay_the_same_in_the_next_run(
    goldens, tmp_path
):
    # The first run trains nothing; the second one starts from its folder.
    source = original_form(goldens, tmp_path / "source", THEIRS, ORDER)
    first = run_mnli(goldens, tmp_path / "a", source)
    again = run_mnli(goldens, tmp_path / "b", str(tmp_path / "a"))
    np.testing.assert_array_equal(again, first)
    facts = json.loads((tmp_path / "a/task.json").read_text())
    assert facts["labels"] == [*TASK]
    loaded = modeling.load(str(tmp_path / "a"))
    assert loaded.labels == TASK
    golden = checkpoints.Checkpoint(str(goldens / MNLI)).read("output_weights")
    np.testing.assert_array_equal(loaded.model.head.output_weights, golden)


@pytest.mark.parametrize("form", [original_form, huggingface_form])
def test_a_model_keeps_the_order_of_its_labels_in_its_folder(
    goldens, tmp_path, form
):
    source = form(goldens, tmp_path / "source/model", THEIRS, ORDER)
    folder = tmp_path / "source/model"
    before = contents_of(folder)
    with pytest.raises(ValueError, match="--labels.*--output_dir"):
        run_mnli(goldens, folder, source)
    assert contents_of(folder) == before


def test_other_labels_are_not_trained_in_a_models_own_folder(goldens, tmp_path):
    folder = tmp_path / "model"
    source = original_form(goldens, folder, "abc")
    with pytest.raises(ValueError, match="in its own folder.*--output_dir"):
        run_mnli(goldens, folder, source, do_train=True)
    assert (folder / "labels.txt").read_text() == "a\nb\nc\n"


@pytest.mark.parametrize("names", [("yes", "no", "maybe"), ("0", "1", "2")])
def test_other_labels_do_not_answer(goldens, tmp_path, names):
    source = original_form(goldens, tmp_path / "source", names)
    said = ", ".join(names)
    message = rf"has the labels {said} \(.*task has contr.*--do_train"
    with pytest.raises(ValueError, match=message):
        run_mnli(goldens, tmp_path / "out", source)


def assert_weights(run, goldens, tmp_path, places):
    """The encoder is the golden one; `places` are row -> golden row."""
    options = make_options(goldens, tmp_path / "fresh", init_checkpoint=None)
    fresh = make_run(options, num_labels=run._weights["output_bias"].shape[0])
    golden = checkpoints.Checkpoint(str(goldens / MNLI))
    for name, value in run._weights.items():
        want = golden.read(name)
        if not name.startswith("bert/"):
            theirs, want = want, fresh._weights[name].numpy()
            want[[*places]] = theirs[[*places.values()]]
        np.testing.assert_array_equal(value, want)


@pytest.mark.parametrize(
    "form, labels, places, said",
    [
        (
            original_form,
            ["neutral", "other", "ENTAILMENT", "spam"],
            {0: 1, 2: 0},
            "other, spam",
        ),
        (best_of_a_run, ["neutral", "other", "more"], {0: 1}, "other, more"),
        (original_form, ["a", "b", "c"], {}, "a, b, c"),
        (huggingface_form, ["contradiction", "neutral"], {0: 2, 1: 1}, ""),
    ],
)
def test_a_label_that_both_have_keeps_its_row(
    goldens, tmp_path, caplog, form, labels, places, said
):
    source = form(goldens, tmp_path / "source/model", THEIRS)
    run = run_from(source, goldens, tmp_path, labels)
    assert_weights(run, goldens, tmp_path, places)
    assert {*range(len(labels))} - {*run.first.new_labels} == places.keys()
    assert (
        f"its output layer has the labels {', '.join(THEIRS)} (" in caplog.text
    )
    assert f"but the task has {', '.join(labels)}." in caplog.text
    left = f"The rows of {said} start from random values."
    assert (left if said else "The other rows are left out.") in caplog.text
    with pytest.raises(ValueError, match="but the task has.*--do_train"):
        run.first.require_heads("classification")


def test_names_that_are_more_than_the_rows_name_none(goldens, tmp_path, caplog):
    source = original_form(goldens, tmp_path / "source", [*THEIRS, "more"])
    run = run_from(source, goldens, tmp_path, ["neutral", "more"])
    assert "all but the head is taken" in caplog.text
    assert_weights(run, goldens, tmp_path, {})


def test_a_head_of_another_size_is_left_out(goldens, tmp_path, caplog):
    source = str(goldens / MNLI)
    options = make_options(goldens, tmp_path / "a", init_checkpoint=source)
    run = make_run(options, num_labels=2)
    assert "all but the head is taken" in caplog.text
    assert "output_weights: (3, 32) in the checkpoint, (2, 32)" in caplog.text
    assert_weights(run, goldens, tmp_path, {})
    with pytest.raises(ValueError, match="no output_weights and output_bias"):
        run.first.require_heads("classification")


def test_numbers_for_names_are_warned_of(goldens, tmp_path, caplog):
    names = ["LABEL_0", "LABEL_1", "LABEL_2"]
    source = original_form(goldens, tmp_path / "source", names)
    assert_head(run_from(source, goldens, tmp_path), goldens)
    assert f"has only the numbers {', '.join(names)} (" in caplog.text
    assert "assumed to be contradiction, entailment, neutral" in caplog.text


def test_rows_without_names_are_warned_of(goldens, tmp_path, caplog):
    source = write_checkpoint(goldens, tmp_path / "bert_model.ckpt")
    run_from(source, goldens, tmp_path)
    assert "has no names for the rows of its output layer; " in caplog.text
    assert "assumed to be contradiction, entailment, neutral" in caplog.text


def test_a_released_model_has_no_rows_to_warn_of(goldens, tmp_path, caplog):
    make_run(make_options(goldens, tmp_path), num_labels=3, labels=TASK)
    assert "output layer" not in caplog.text


@pytest.mark.parametrize("kind", ["tagging", "multilabel"])
def test_all_kinds_with_a_row_a_label_are_compared(goldens, tmp_path, kind):
    source = original_form(goldens, tmp_path / "source", "cab")
    run = run_from(source, goldens, tmp_path, ["a", "b", "c"], kind)
    assert_head(run, goldens, (1, 2, 0))


@pytest.mark.parametrize("kind", ["choice", "regression"])
def test_one_row_has_no_order(goldens, tmp_path, kind, caplog):
    """Whatever labels a folder of such a model has; nothing is answered."""
    tensors = theirs.tensors_of("BertForMultipleChoice")
    folder = theirs.write_folder(
        tmp_path / "theirs", tensors, id2label={"0": "LABEL_0", "1": "LABEL_1"}
    )
    write_table(tmp_path / "data", kind)
    finetuning = {
        "bert_config_file": f"{folder}/config.json",
        "init_checkpoint": folder,
        "max_seq_length": 16,
    }
    works = {"do_train": False, "do_predict": False}
    opened = classifier.Run(
        options_of(goldens, tmp_path, kind, finetuning, **works)
    )
    opened.finish(classifier.Inputs(opened.task, None, {}, {}))
    assert "output layer" not in caplog.text


@pytest.mark.parametrize(
    ("labels", "names", "places"),
    [
        (["Yes", "no"], ["no ", "yes"], (1, 0)),
        (["a", "A", "b"], ["A", "a"], (1, 0, None)),
        (["good", "good "], ["good ", "good"], (1, 0)),
    ],
)
def test_labels_are_matched_by_as_much_as_tells_them_apart(
    labels, names, places
):
    assert first_weights._places(labels, names) == places
