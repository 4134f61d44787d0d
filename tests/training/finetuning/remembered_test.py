"""A folder remembers what its model was made with: later commands keep it.

A command leaves out every flag that is not in its `given`.
"""

import json
import shutil

import pytest

import bert
import modeling
from data.finetuning.long_text import LongTextOptions
from modeling.checkpoints import model_folder
from modeling.checkpoints.vector_form import VectorForm
from tests.support.classifier_support import write_table
from tests.support.conversion_support import convert, refused
from tests.support.finished_runs import CLASSIFIER
from tests.support.model_folder_support import change_description
from tests.support.model_folders import description_of
from tests.support.run_files import contents_of, write_json_lines
from tests.training.finetuning_support import options_of
from tests.training.squad_support import make_options
from training.config.finetuning_options import TrialOptions
from training.export import loaded_model, saved_model
from training.finetuning.task_scorer import TaskScorer
from training.many_runs import trials
from training.runs import classifier, questions
from training.start import description

TEXT = "The Sentence is longer than a row of wordpieces. " * 5


def run(options):
    return trials.run(options, TrialOptions())


def stop(*args, **kwargs):
    raise KeyboardInterrupt


def of_folder(tmp_path):
    return json.loads((tmp_path / "out/task.json").read_text())


def answers_in(folder):
    return (folder / "out/predictions.tsv").read_bytes()


@pytest.fixture(scope="module")
def stopped(goldens, tmp_path_factory):
    """A classifier with as many unusual settings as possible.

    Its run is stopped after the training.
    """
    folder = tmp_path_factory.mktemp("trained")
    write_table(folder / "data", "single")
    write_json_lines(folder / "data/test.jsonl", [{"text": TEXT}])
    options = options_of(
        goldens,
        folder,
        task_options={"kind": "single", "label_column": "label"},
        finetuning={"save_best": "eval_loss", "eval_every_steps": 3},
        do_lower_case=False,
        never_split=("[MASK]",),
        long_text=LongTextOptions(mode="windows", stride=5, pooling="max"),
    )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(classifier, "write_dev_predictions", stop)
        with pytest.raises(KeyboardInterrupt):
            run(options)
    shutil.copytree(folder / "out", folder / "stopped")
    return folder, options


@pytest.fixture(scope="module")
def trained(stopped):
    """The finished run."""
    run(stopped[1])
    return stopped


def later(options, given=(), **changes):
    """A command without training; what is not given has the usual value."""
    usual = {
        "task_options": {},
        "do_lower_case": True,
        "never_split": (),
        "long_text": LongTextOptions(),
        "max_seq_length": 128,
        "save_best": "",
        "eval_every_steps": 0,
        "init_checkpoint": None,
    }
    return options.replace(
        do_train=False, **(usual | changes), given=frozenset(given)
    )


@pytest.mark.all
def test_the_run_describes_the_folder_of_its_best_weights(trained, tmp_path):
    out = trained[0] / "out"
    assert model_folder.find(out / "best") == model_folder.find(out)
    # A model's own folder may have this name.
    own = shutil.copytree(out, tmp_path / "best")
    (index,) = own.glob("model.ckpt-*.index")
    assert model_folder.find(index.with_suffix("")).path == str(own)


def test_a_given_flag_is_used_once_and_never_written(trained, caplog):
    """A command with fewer flags gives the same answers before and after."""
    folder, options = trained
    before = of_folder(folder)
    kept = "test_results.tsv", "predictions.tsv", "vocab.txt"
    files = {name: (folder / "out" / name).read_bytes() for name in kept}
    changes = {"do_lower_case": True, "max_seq_length": 16}
    run(later(options, changes, do_eval=False, **changes))
    for name in changes:
        assert f"--{name}={changes[name]}, but the model of " in caplog.text
    results = (folder / "out/test_results.tsv").read_bytes()
    assert results != files["test_results.tsv"]
    assert of_folder(folder) == before
    run(later(options))
    for name, content in files.items():
        assert (folder / "out" / name).read_bytes() == content
    assert of_folder(folder) == before
    told = json.loads((folder / "out/metrics.json").read_text())
    names = "do_lower_case", "never_split", "stride", "pooling", *changes
    assert [told[name] for name in names] == [before[name] for name in names]


@pytest.mark.all
def test_a_folder_without_training_tells_the_last_command(trained, tmp_path):
    """What an earlier command said of a model elsewhere, or of another one.

    --save_best is about checkpoints of its own folder, which has none: the
    best weights of the model's folder are taken.
    """
    folder, options = trained
    answers = answers_in(folder)
    (tmp_path / "out").mkdir()
    first = {"init_checkpoint": str(folder / "out")}
    here = {"output_dir": str(tmp_path / "out"), "do_eval": False}
    command = later(options, first, **here, **first)
    short = {"max_seq_length": 16}
    run(command.replace(given=frozenset({*first, *short}), **short))
    assert of_folder(tmp_path)["max_seq_length"] == 16
    assert answers_in(tmp_path) != answers
    short_answers = answers_in(tmp_path)
    run(later(options, **here))  # goes on with that model and length
    assert answers_in(tmp_path) == short_answers
    run(command)  # the model's own length
    assert of_folder(tmp_path)["max_seq_length"] == 24
    assert answers_in(tmp_path) == answers
    # The labels of another model are its own.
    write_table(tmp_path / "data", "single")
    other = shutil.copytree(folder / "out", tmp_path / "other")
    for path in [*(tmp_path / "data").iterdir(), other / "task.json"]:
        path.write_text(path.read_text().replace('"l1"', '"new"'))
    (other / "labels.txt").write_text("l0\nnew\n")
    first = {"init_checkpoint": str(other)}
    here["data_dir"] = str(tmp_path / "data")
    run(later(options, first, **here, **first))
    assert of_folder(tmp_path)["labels"] == ["l0", "new"]


def test_what_was_said_of_another_model_goes_when_a_command_begins(
    trained, tmp_path, monkeypatch
):
    """Else its weights would be loaded with the other's configuration."""
    folder, options = trained
    (tmp_path / "out").mkdir()
    first = {"init_checkpoint": str(folder / "out")}
    here = {"output_dir": str(tmp_path / "out"), "do_predict": False}
    run(later(options, first, **here, **first))
    other = shutil.copytree(folder / "out", tmp_path / "other")
    first = {"init_checkpoint": str(other)}

    monkeypatch.setattr(TaskScorer, "write", stop)
    names = "task.json", "metrics.json"
    for there, changes in (True, {}), (False, first):
        with pytest.raises(KeyboardInterrupt):
            run(later(options, changes, **here, **changes))
        found = [(tmp_path / "out" / name).exists() for name in names]
        assert found == [there, there]


@pytest.mark.all
def test_a_converted_folder_answers_as_the_run(trained, tmp_path):
    """In any spelling of its path, with labels and windows of the run."""
    folder, options = trained
    answers = answers_in(folder)
    for name in "huggingface", "original":
        target = tmp_path / name
        given = {"source": folder / "out", "target": target}
        given["output_format"] = name
        refused("--kind=multilabel, .* leave the", **given, kind="multilabel")
        convert(**given)
        test = {
            "data_dir": None,
            "task_options": {"test_file": str(folder / "data/test.jsonl")},
            "output_dir": str(target),
            "do_eval": False,
        }
        run(later(options, {"test_file"}, **test))
        assert (target / "predictions.tsv").read_bytes() == answers
        first = {"init_checkpoint": f"{target}/../{name}/"}
        run(later(options, {"test_file", *first}, **test, **first))
        assert (target / "predictions.tsv").read_bytes() == answers
        described = json.loads((target / "task.json").read_text())
        assert described["weights"] in (".", "bert_model.ckpt")


def test_another_column_than_the_usual_is_warned_of(trained, tmp_path, caplog):
    """A folder does not name the columns that its command left out."""
    folder = shutil.copytree(trained[0] / "out", tmp_path / "out")
    facts = json.loads((folder / "task.json").read_text())
    del facts["columns"]["label_column"]
    (folder / "task.json").write_text(json.dumps(facts))
    for column in "label", "other":
        other = {"output_dir": str(folder), "do_eval": False}
        other["task_options"] = {"label_column": column}
        classifier.Run(later(trained[1], ["label_column"], **other))
        warning = f"--label_column={column}, but the model of"
        assert (warning in caplog.text) == (column == "other")


def test_a_model_of_single_texts_reads_no_pairs(trained, tmp_path):
    folder, options = trained
    answers = answers_in(folder)
    rows = [{"text_a": TEXT, "text_b": TEXT}]
    write_json_lines(tmp_path / "test.jsonl", rows)
    pair = {"kind": "pair", "test_file": str(tmp_path / "test.jsonl")}
    with pytest.raises(ValueError, match="pairs of texts, .*--text_columns"):
        run(later(options, ["kind"], task_options=pair, do_eval=False))
    # Nor those of a task with a name of its own.
    row = "\t".join(["1", "0", "0", TEXT, TEXT])
    (tmp_path / "dev.tsv").write_text(f"Quality\tid\tid\ta\tb\n{row}\n")
    named = {"task_name": "MRPC", "data_dir": str(tmp_path)}
    with pytest.raises(ValueError, match="pairs of texts, .*--task_name"):
        run(later(options, named, **named, task_options={}, do_predict=False))
    assert answers_in(folder) == answers


def test_questions_are_not_asked_of_a_classifier(trained, goldens):
    # Its rows are too short for a question, but that is not what is wrong.
    options = make_options(goldens, trained[0] / "out", given=frozenset())
    with pytest.raises(ValueError, match="the kind classification, .*span"):
        questions.run(options)


def test_the_usual_stride_is_not_another_one(trained, tmp_path, caplog):
    folder = shutil.copytree(trained[0] / "out", tmp_path / "out")
    windows = LongTextOptions(mode="windows", pooling="max")
    change_description(folder, stride=windows.stride_of(24))
    given = {"long_text": windows, "max_seq_length": 24}
    again = later(trained[1], given, **given, output_dir=str(folder))
    classifier.Run(again)
    assert "--long_text" not in caplog.text
    other = {"long_text": windows.replace(stride=3)}
    given = again.given | {"long_text_stride"}
    classifier.Run(again.replace(**other, given=given))
    assert "--long_text_stride=3, but the model of" in caplog.text
    found = loaded_model.describe(modeling.load(folder), max_seq_length=16)
    assert found.stride == windows.stride_of(16)  # as the program's


def test_one_flag_of_long_texts_leaves_the_others(trained, caplog):
    folder, options = trained
    found = classifier.Run(later(options, {"long_text_pooling"})).options
    assert found.long_text == options.long_text.replace(pooling="mean")
    assert "--long_text_pooling=mean, but the model of" in caplog.text
    windows = {"long_text": LongTextOptions(mode="windows")}
    found = classifier.Run(later(options, windows, **windows)).options
    assert found.long_text == options.long_text


def test_an_export_refuses_flags_that_the_model_is_not_made_with(trained):
    out = str(trained[0] / "out")
    same = {"never_split": ["[MASK]"], "labels": ["l0", "l1"]}
    same |= {"kind": "single", "task_name": "tsv", "separator": "comma"}
    assert saved_model.describes_export(out, same)
    for name, value in (
        ("labels", ["l1", "l0"]),
        ("max_seq_length", 8),
        ("never_split", ["[SEP]"]),
        ("head", "mean"),
        ("kind", "multilabel"),
        ("long_text", "truncate"),
    ):
        with pytest.raises(ValueError, match=f"--{name}=.* Leave the flag out"):
            saved_model.describes_export(out, {name: value})


def test_training_from_random_weights_is_said(goldens, tmp_path, caplog):
    write_table(tmp_path / "data", "single")
    first = {"init_checkpoint": None}
    classifier.Run(options_of(goldens, tmp_path, finetuning=first))
    assert "Training begins with random weights" in caplog.text


def test_an_export_of_vectors_refuses_another_form(goldens, tmp_path):
    """Nothing is trained there, so another --init_checkpoint is described."""
    out, first = str(tmp_path), f"{goldens}/model/trained"
    VectorForm(vector_sizes=(8, 4)).write(out)
    weights = description.place_of_weights(
        model_folder.find(first).weights, out
    )
    facts = {"max_seq_length": 24, "data": {}, "weights": weights}
    description_of("vectors", **facts).write(out, vocab_file=None)
    same = {"init_checkpoint": first, "vector_sizes": ["4", "8"]}
    assert saved_model.describes_export(out, same)
    with pytest.raises(ValueError, match="--vector_sizes=4,16.*_sizes=8,4"):
        saved_model.describes_export(out, same | {"vector_sizes": ["4", "16"]})
    with pytest.raises(ValueError, match="--pooling=cls.*--pooling=mean"):
        saved_model.describes_export(out, same | {"pooling": "cls"})
    other = f"{goldens}/classifier/MRPC/expected/model.ckpt-16"
    changed = {"init_checkpoint": other, "pooling": "cls"}
    assert not saved_model.describes_export(out, changed)


def test_another_vocabulary_of_the_same_size_is_refused(trained, tmp_path):
    folder, options = trained
    kept = (folder / "out/vocab.txt").read_text().splitlines()
    other = tmp_path / "vocab.txt"
    other.write_text("\n".join([*kept[:-2], kept[-1], kept[-2]]) + "\n")
    with pytest.raises(ValueError, match="--vocab_file=.*leave it out"):
        run(later(options, ["vocab_file"], vocab_file=str(other)))
    assert (folder / "out/vocab.txt").read_text().splitlines() == kept


def test_other_training_data_is_refused_and_nothing_is_lost(trained):
    folder, options = trained
    train = folder / "data/train.jsonl"
    kept = contents_of(folder / "out")
    rows = train.read_text()
    try:
        train.write_text(rows.replace('"l0"', '"l1"', 1))
        for epochs in 2.0, 3.0:  # finished, extended
            with pytest.raises(ValueError, match="examples") as error:
                run(options.replace(num_train_epochs=epochs))
            assert f"--init_checkpoint={folder / 'out'}" in str(error.value)
            assert "another --output_dir" in str(error.value)
    finally:
        train.write_text(rows)
    assert contents_of(folder / "out") == kept


def test_another_task_has_its_own_options(trained, goldens):
    """`--kind` of tables, which this command does not give, is none of them."""
    data = str(goldens / "classifier/CoLA")
    with pytest.raises(ValueError, match="labels l0, l1, .*another --outp"):
        run(later(trained[1], ["task_name"], task_name="CoLA", data_dir=data))


def test_a_stopped_run_remembers_too(stopped, tmp_path, caplog):
    out = str(shutil.copytree(stopped[0] / "stopped", tmp_path / "out"))
    with pytest.raises(ValueError, match="not finished"):
        saved_model.describes_export(out, {})
    unfinished = f"{out} holds a run that is not finished"
    bert.load(out)
    assert unfinished in caplog.text
    caplog.clear()
    run(later(stopped[1], output_dir=out, do_eval=False))
    assert unfinished in caplog.text
    with pytest.raises(ValueError, match="not finished"):
        description.read(out)
    found = description.find(out)
    assert (found.do_lower_case, found.max_seq_length) == (False, 24)


def test_what_the_flags_say_describes_a_folder_of_the_original(
    finished_classifier, goldens, tmp_path
):
    """It has checkpoints alone: `--do_export` needs no other work."""
    shutil.copytree(finished_classifier, tmp_path, dirs_exist_ok=True)
    options = options_of(goldens, tmp_path, finetuning=CLASSIFIER)
    for name in "task.json", "vocab.txt", "labels.txt":
        (tmp_path / "out" / name).unlink()
    for path in (tmp_path / "out").glob("*.resume.json"):
        path.unlink()
    works = dict.fromkeys(("do_train", "do_eval", "do_predict"), False)
    # What a later command says replaces what an earlier one guessed.
    for length in 16, 24:
        changes = works | {"do_export": True, "max_seq_length": length}
        run(options.replace(**changes))
        assert of_folder(tmp_path)["max_seq_length"] == length
    assert (tmp_path / "out/vocab.txt").exists()


def test_a_checkpoint_tells_of_lost_windows(trained, tmp_path):
    folder, options = trained
    out = tmp_path / "out"
    shutil.copytree(folder / "out", out)
    (out / "task.json").unlink()
    here = {"do_train": False, "output_dir": str(out), "save_best": ""}
    command = options.replace(**here, given=frozenset({"long_text"}))
    with pytest.raises(ValueError, match="no task.json.* long_text_stride 5"):
        run(command.replace(long_text=LongTextOptions()))
    run(command.replace(do_eval=False))
    assert of_folder(tmp_path)["stride"] == 5


def test_files_of_the_folder_that_were_exchanged_are_refused(trained, tmp_path):
    folder, options = trained
    for name, message in (
        ("labels.txt", "model of the labels .*; undo an edit of labels.txt"),
        ("vocab.txt", "--vocab_file: not the vocab.* put that one back"),
    ):
        out = shutil.copytree(folder / "out", tmp_path / name)
        *lines, one, two = (out / name).read_text("utf-8").splitlines()
        (out / name).write_text("\n".join([*lines, two, one]) + "\n", "utf-8")
        with pytest.raises(ValueError, match=message):
            run(later(options, output_dir=str(out), vocab_file=None))
    for load in bert.load, saved_model.load:
        with pytest.raises(ValueError, match=message):
            load(str(out))
