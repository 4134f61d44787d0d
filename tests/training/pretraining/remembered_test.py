"""What a pretraining run remembers of its records, for later commands."""

import json
import shutil

import pytest

from data.pretraining.data_options import PretrainingDataOptions
from data.text.tokenizer_files import read_settings
from data.text.vocabulary import load_vocab
from modeling.checkpoints import model_folder
from tests.data.pretraining.support import recipe_of, write
from tests.support import fork_server
from tests.support.model_folders import description_of
from tests.support.pretraining_support import make_options, refused
from training.pretraining import run_records
from training.runs import pretraining


@pytest.fixture(scope="module")
def vocab_file(goldens, tmp_path_factory):
    """The vocabulary without its last newline, as some editors leave it."""
    path = tmp_path_factory.mktemp("given") / "vocab.txt"
    path.write_text((goldens / "vocab.txt").read_text().rstrip("\n"))
    return path


def records_of(vocab_file, folder, **recipe):
    """Writes records of a short text; returns their file."""
    text = folder / "text.txt"
    text.write_text("The old Clock\nstood in the harbour\n\nit was\nthe end\n")
    write([text], folder, recipe_of(vocab_file).replace(**recipe), 1)
    return str(folder / "out-00000-of-00001")


def reordered(vocab_file, folder):
    """The vocabulary with its last two tokens in the other order."""
    *others, last, first = vocab_file.read_text().splitlines()
    path = folder / "vocab.txt"
    path.write_text("\n".join([*others, first, last]) + "\n")
    return path


@pytest.fixture(scope="module")
def finished(goldens, vocab_file, tmp_path_factory):
    """Options of a run on cased records, in whose command nothing says so."""
    folder = tmp_path_factory.mktemp("finished")
    options = make_options(goldens, folder / "out").replace(
        input_file=records_of(vocab_file, folder, do_lower_case=False),
        vocab_file=str(vocab_file),
        train_batch_size=2,
        given=frozenset(),
    )
    pretraining.run(options)
    return options


@pytest.fixture
def trained(finished, tmp_path):
    """Options of the same run, in a folder of the test."""
    out = shutil.copytree(finished.train.output_dir, tmp_path / "out")
    return finished.replace(output_dir=str(out))


def begin(options):
    """Checks the input of a run and keeps its files; trains nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pretraining.Run, "_train_and_score", lambda *_: 0)
        pretraining.run(options)


def test_the_command_that_trains_reads_queries_as_its_records_were(
    finished, tmp_path
):
    queries = tmp_path / "queries.txt"
    queries.write_text("The [MASK]\n")
    asks = {"do_predict": True, "predict_file": str(queries)}
    new = finished.replace(output_dir=str(tmp_path / "new"), **asks)
    assert not pretraining.Run(new)._tokenizer.basic_tokenizer.do_lower_case


@pytest.mark.all
def test_the_command_that_trains_exports_what_its_records_were(
    finished, tmp_path
):
    done = fork_server.python(
        *("run_pretraining.py", "--do_train", "--do_export"),
        *("--export_signatures=ids", f"--export_dir={tmp_path}/export"),
        f"--input_file={finished.input_file}",
        f"--vocab_file={finished.vocab_file}",
        f"--bert_config_file={finished.bert_config_file}",
        *("--max_seq_length=64", "--max_predictions_per_seq=10"),
        *("--train_batch_size=2", "--num_train_steps=1"),
        f"--output_dir={tmp_path}/out",
    )
    described = json.loads((tmp_path / "out/task.json").read_text())
    assert described["do_lower_case"] is False
    assert done.stderr.count("--do_lower_case=False, as ") == 1


def test_a_later_command_splits_text_as_the_records_were(
    trained, tmp_path, logged
):
    assert read_settings(str(tmp_path / "out")).do_lower_case is False
    queries = tmp_path / "queries.txt"
    queries.write_text("The [MASK]\n")
    later = trained.replace(
        do_train=False,
        do_predict=True,
        predict_file=str(queries),
        vocab_file=None,
        init_checkpoint=None,
    )
    pretraining.run(later)
    assert "--do_lower_case=False, as " in logged.text
    # A vocabulary elsewhere, which says nothing, changes nothing.
    evaluated = later.replace(do_predict=False, do_eval=True)
    begin(evaluated.replace(vocab_file=trained.vocab_file))
    assert read_settings(str(tmp_path / "out")).do_lower_case is False
    # Its own vocabulary, in a file with a last newline, fits its records.
    pretraining.run(evaluated)
    assert "The evaluation reads the records that are trained on" in logged.text


def test_a_vocabulary_that_the_records_did_not_have_is_refused(
    trained, vocab_file, tmp_path
):
    other = reordered(vocab_file, tmp_path)
    later = trained.replace(vocab_file=str(other), do_train=False, do_eval=True)
    message = "--vocab_file=.*(the same vocabulary|the model was made with)"
    refused(later, message)
    # Also if the run has kept none.
    (tmp_path / "out/vocab.txt").unlink()
    refused(later, "not have the same vocabulary")
    assert not (tmp_path / "out/vocab.txt").exists()


def test_an_exchanged_vocabulary_is_refused_unless_it_is_given(
    trained, vocab_file, tmp_path
):
    other = reordered(vocab_file, tmp_path)
    shutil.copy(other, tmp_path / "out/vocab.txt")
    queries = tmp_path / "queries.txt"
    queries.write_text("The [MASK]\n")
    asks = {"do_predict": True, "predict_file": str(queries)}
    later = {"do_train": False, "vocab_file": None, "init_checkpoint": None}
    first = asks | {"init_checkpoint": str(tmp_path / "out")}
    first["output_dir"] = str(tmp_path / "new")
    for work in {"do_eval": True}, {"do_export": True}, asks, first:
        refused(trained, "--vocab_file.* the.* vocabular", **later | work)
    first["vocab_file"] = str(other)
    pretraining.run(trained.replace(**later | first))


def test_another_run_continues_with_the_same_vocabulary(
    trained, vocab_file, tmp_path
):
    """The command of the second run need not name it."""
    later = trained.replace(
        output_dir=str(tmp_path / "second"),
        continue_from=str(tmp_path / "out"),
        num_train_steps=trained.train.num_train_steps + 1,
        bert_config_file=None,
        vocab_file=None,
        init_checkpoint=None,
    )
    begin(later)
    kept = tmp_path / "second/vocab.txt"
    assert load_vocab(str(kept)) == load_vocab(str(vocab_file))
    assert read_settings(str(kept.parent)).do_lower_case is False
    named = later.replace(vocab_file=str(vocab_file))
    begin(named.replace(output_dir=str(tmp_path / "named")))
    assert read_settings(str(tmp_path / "named")).do_lower_case is False
    third = later.replace(output_dir=str(tmp_path / "third"))
    other = {"vocab_file": str(vocab_file), "objective": "left_to_right"}
    refused(third, "--objective=pretraining; give this", **other)
    other = reordered(vocab_file, tmp_path)
    for vocab, lower, what in (
        (other, False, "vocabulary"),
        (vocab_file, True, "--do_lower_case"),
    ):
        records = records_of(vocab, tmp_path, do_lower_case=lower)
        refused(third, f"not have the same {what}", input_file=records)


def test_records_of_another_vocabulary_are_refused_wherever_they_are_read(
    trained, vocab_file, tmp_path
):
    """No command names a vocabulary: the manifests and the run know it."""
    records = records_of(reordered(vocab_file, tmp_path), tmp_path)
    (tmp_path / "out/vocab.txt").unlink()  # as of a run without one
    first = trained.replace(vocab_file=None, init_checkpoint=None)
    step = first.train.num_train_steps
    for changes in (
        {"input_file": records, "do_train": False, "do_eval": True},
        {"input_file": records, "num_train_steps": step + 1},
        {"eval_file": records, "do_eval": True, "num_train_steps": step + 1},
        {"input_file": records, "continue_from": first.train.output_dir}
        | {"output_dir": str(tmp_path / "c"), "num_train_steps": step + 1},
        {"input_file": f"{first.input_file},{records}"}
        | {"output_dir": str(tmp_path / "c")},
    ):
        refused(first, "vocabular.*--vocab_file", **changes)


def test_records_of_another_case_or_kind_of_pairs_are_told(
    trained, vocab_file, tmp_path, caplog
):
    order, case = "sentence_order_prediction", "do_lower_case"
    for name, made in (
        (order, {order: True, case: False}),
        (case, {order: True}),
    ):
        records = records_of(vocab_file, tmp_path, **made)
        both = trained.replace(eval_file=records, do_eval=True)
        refused(both, f"the same --{name}, ")
        mixed = f"{trained.input_file},{records}"
        refused(both, f"the same --{name}, ", input_file=mixed)
    pretraining.run(both.replace(do_train=False))
    changed = "do_lower_case False -> True; sentence_order_prediction False ->"
    assert changed in caplog.text
    # An export would describe the folder by its own case.
    asks = {"do_train": False, "do_export": True, "do_lower_case": True}
    asks["given"] = frozenset(asks)
    refused(trained, "a run with --do_lower_case=False; give this", **asks)


def test_each_setting_of_the_masks_is_remembered(finished):
    masking = PretrainingDataOptions(masked_lm_prob=0.3, masking="dynamic")
    dynamic = finished.replace(masking=masking)
    static, now = (run_records.made_from(x, None) for x in (finished, dynamic))
    assert "masked_lm_prob" not in static
    assert now["masked_lm_prob"] == 0.3
    assert [static["masking"], now["masking"]] == ["in the records", "dynamic"]


def test_what_an_earlier_command_left_does_not_describe_the_model(
    trained, tmp_path, caplog
):
    folder = tmp_path / "left"
    folder.mkdir()
    facts = {"max_seq_length": 8, "weights": str(tmp_path / "out/model.ckpt-1")}
    described = description_of("classification", labels=["a"], **facts)
    described.write(str(folder), None)
    (folder / "labels.txt").write_text("a\n")
    begin(trained.replace(output_dir=str(folder)))
    shutil.copytree(tmp_path / "out", folder, dirs_exist_ok=True)
    found = model_folder.find(str(folder))
    assert found.weights.startswith(str(folder))
    assert (found.kind, found.labels, found.description) == (None, (), None)
    facts["weights"] = "model.ckpt-1"
    described = description_of("vectors", data={}, **facts)
    described.write(str(tmp_path / "out"), None)
    refused(trained, "kind vectors, .*another folder")
    # Nor do weights and answers of fewer steps stay unnoticed.
    left = [f"bert_model.ckpt{x}" for x in (".index", ".data-00000-of-00001")]
    for name in (*left, "predict_results.jsonl"):
        (folder / name).touch()
    caplog.clear()
    again = trained.replace(output_dir=str(folder))
    pretraining.run(again)  # nothing to train
    assert "written before" not in caplog.text
    description_of("pretraining", top_k=5, **facts).write(str(folder), None)
    pretraining.run(again.replace(num_train_steps=again.train.last_step + 1))
    said = json.loads((folder / "task.json").read_text())
    assert said["max_seq_length"] == again.max_seq_length
    for name in ("bert_model.ckpt.index", "predict_results.jsonl"):
        assert f"{name} was written before step" in caplog.text


def test_an_export_that_cannot_be_leaves_the_folder_alone(trained, tmp_path):
    later = trained.replace(do_train=False, do_export=True, given=None)
    for changes in (
        {"max_seq_length": 129},  # of 128 positions
        {"predict_top_k": 1201},
    ):
        refused(later, f"--{min(changes)}=", **changes)
        assert not (tmp_path / "out/task.json").exists()


def test_a_later_command_has_the_length_of_the_records(
    trained, tmp_path, logged
):
    """A length that a command gives is for this command alone."""
    later = trained.replace(do_train=False, do_export=True, max_seq_length=128)
    given = later.replace(given=frozenset({"max_seq_length"}))
    for command, length in (later, 64), (given, 128), (later, 64):
        pretraining.run(command)
        described = json.loads((tmp_path / "out/task.json").read_text())
        assert (described["max_seq_length"], described["top_k"]) == (length, 5)
    assert logged.text.count("--max_seq_length=64, as ") == 2
    assert "with 64; this command uses 128" in logged.text


def test_a_model_of_another_kind_or_objective_is_not_exported(
    trained, monkeypatch
):
    later = trained.replace(do_train=False, do_export=True)
    facts = {"objective": "left_to_right"}
    monkeypatch.setattr(
        pretraining.CheckpointManager, "made_from", lambda self: facts
    )
    refused(later, "--objective=left_to_right")
    refused(later, "predict; leave --do_export out", **facts)


def test_the_objective_that_a_run_had_is_named(trained, monkeypatch):
    facts = {"objective": "replaced_tokens", "generator_size": 0.5}
    monkeypatch.setattr(
        pretraining.CheckpointManager, "made_from", lambda self: facts
    )
    for name in facts:  # with the first one, the second is asked for
        refused(trained, f"--{name}=.*give this flag")
        facts["objective"] = trained.objective
