"""run_pretraining.py --objective: what a run writes, and what it refuses."""

import json
import math
import shutil

import pytest

import modeling
from data.pretraining.data_options import PretrainingDataOptions
from modeling import checkpoints
from tests.support import fork_server, rounding
from tests.support.objectives_support import (
    CONFIG,
    LENGTH,
    PREDICTIONS,
    VOCAB,
    write_records,
    write_vocab,
)
from training.config.objective_options import (
    LeftToRightOptions,
    ObjectiveOptions,
    ReplacedTokensOptions,
)
from training.runs import pretraining


@pytest.fixture
def config_file(tmp_path):
    path = tmp_path / "small.json"
    path.write_text(json.dumps(CONFIG))
    return str(path)


@pytest.fixture
def plain(options, config_file, tmp_path):
    """Two steps of left_to_right on records without masks and pairs."""
    return options.replace(
        objective="left_to_right",
        bert_config_file=config_file,
        init_checkpoint=None,
        input_file=write_records(tmp_path / "plain.tf_record"),
        max_seq_length=LENGTH,
        max_predictions_per_seq=PREDICTIONS,
    )


@pytest.fixture
def electra(plain, tmp_path):
    """Two steps of replaced_tokens on the same records."""
    return plain.replace(
        objective="replaced_tokens",
        vocab_file=write_vocab(tmp_path / "vocab.txt"),
        objectives=ObjectiveOptions(
            replaced_tokens=ReplacedTokensOptions(generator_size=0.5)
        ),
    )


def test_the_program_trains_resumes_and_reports_perplexity(
    config_file, tmp_path
):
    out = tmp_path / "out"
    flags = [
        "--objective=left_to_right",
        "--num_predicted_positions=4",
        f"--input_file={write_records(tmp_path / 'plain.tf_record')}",
        f"--output_dir={out}",
        f"--max_seq_length={LENGTH}",
        *("--train_batch_size=8", "--max_eval_steps=2"),
        *("--do_train", "--do_eval"),
    ]
    first = [f"--bert_config_file={config_file}", "--num_train_steps=2"]
    done = fork_server.python("run_pretraining.py", *first, *flags)
    assert "16 examples, no pairs.\n" in done.stderr
    lines = (out / "eval_results.txt").read_text().splitlines()
    results = {name: float(x) for name, x in (v.split(" = ") for v in lines)}
    loss = results["next_token_loss"]
    assert results["perplexity"] == pytest.approx(
        math.exp(loss), rel=rounding.EQUAL
    )
    assert {"loss", "next_token_accuracy"} < results.keys()
    # Random weights know nothing: each of the 40 words is as likely.
    assert results["perplexity"] == pytest.approx(VOCAB, rel=0.1)
    kept = json.loads((out / "bert_config.json").read_text())
    assert kept == CONFIG | kept | {"left_to_right": True}
    # The configuration of the folder is found, and fits the objective.
    done = fork_server.python(
        "run_pretraining.py", "--num_train_steps=4", *flags
    )
    assert "at step 2" in done.stderr
    saved = checkpoints.Checkpoint(str(out / "model.ckpt-4"))
    assert "cls/predictions/output_bias/adam_m" in saved.shapes
    assert not [n for n in saved.shapes if "seq_relationship" in n]
    encoder = modeling.BertModel.from_folder(str(out))
    assert encoder.config.left_to_right


@pytest.mark.all
def test_the_program_trains_resumes_and_evaluates_an_electra(
    config_file, tmp_path
):
    out = tmp_path / "out"
    flags = [
        "--objective=replaced_tokens",
        "--generator_size=0.5",
        f"--input_file={write_records(tmp_path / 'plain.tf_record')}",
        f"--output_dir={out}",
        f"--max_seq_length={LENGTH}",
        *("--train_batch_size=8", "--max_eval_steps=2"),
        *("--do_train", "--do_eval"),
    ]
    first = [
        f"--bert_config_file={config_file}",
        f"--vocab_file={write_vocab(tmp_path / 'vocab.txt')}",
        "--num_train_steps=2",
    ]
    fork_server.python("run_pretraining.py", *first, *flags)
    lines = (out / "eval_results.txt").read_text().splitlines()
    results = {name: float(x) for name, x in (v.split(" = ") for v in lines)}
    # Random weights know nothing.
    assert results["masked_lm_loss"] == pytest.approx(math.log(VOCAB), rel=0.1)
    assert results["disc_loss"] == pytest.approx(math.log(2), rel=0.1)
    # The mean of two batches, in which other numbers of wordpieces are real.
    assert results["loss"] == pytest.approx(
        results["masked_lm_loss"] + 50 * results["disc_loss"], rel=1e-3
    )
    kept = json.loads((out / "bert_config.json").read_text())
    assert kept == CONFIG | kept | {"electra": True}
    # Configuration and vocabulary are found in the folder.
    done = fork_server.python(
        "run_pretraining.py", "--num_train_steps=4", *flags
    )
    assert "at step 2" in done.stderr
    saved = checkpoints.Checkpoint(str(out / "model.ckpt-4"))
    assert "generator/embeddings_project/kernel/adam_m" in saved.shapes
    assert "discriminator_predictions/dense_1/kernel" in saved.shapes
    encoder = modeling.BertModel.from_folder(str(out))
    assert encoder.config.electra


def write_encoder(options, folder):
    """Writes an encoder of the options' sizes alone; returns its prefix."""
    config = modeling.BertConfig.from_json_file(options.bert_config_file)
    encoder = checkpoints.variables_by_name([modeling.BertModel(config)])
    prefix = str(folder / "bert_model.ckpt")
    checkpoints.write(prefix, {n: v.numpy() for n, v in encoder.items()})
    return prefix


def refused(options, message, **changes):
    """The run ends with this error before it trains or writes a result."""
    with pytest.raises(ValueError, match=message):
        pretraining.run(options.replace(**changes))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (
            {"masked": True},
            "its records are masked, but --objective=left_to_right .*; write "
            "them with .* --masking=dynamic",
        ),
        (
            {"pairs": True},
            "its records are sentence pairs, but --objective=left_to_right .*; "
            "write them with .* --next_sentence_prediction=false",
        ),
    ],
)
@pytest.mark.parametrize("flag", ["input_file", "eval_file"])
def test_records_that_do_not_fit_the_objective(
    plain, tmp_path, flag, kind, message
):
    path = write_records(tmp_path / "other.tf_record", **kind)
    refused(plain, f"^{path}: {message}", do_eval=True, **{flag: path})


def test_masking_records_that_are_not_to_be_masked(plain, goldens):
    refused(
        plain,
        "^--masking=dynamic .* --objective=left_to_right .*; leave --masking",
        masking=PretrainingDataOptions(masking="dynamic"),
        vocab_file=str(goldens / "vocab.txt"),
    )


def test_queries_to_an_objective_without_answers(plain, goldens):
    refused(
        plain,
        "^--do_predict .* --objective=left_to_right .*; leave --do_predict out",
        do_predict=True,
        predict_file="queries.txt",
        vocab_file=str(goldens / "vocab.txt"),
    )


def test_an_option_of_another_objective(plain, electra):
    options = ObjectiveOptions(
        left_to_right=LeftToRightOptions(num_predicted_positions=5)
    )
    message = "^--num_predicted_positions=5 is for --objective=left_to_right, "
    refused(plain, message, objective="pretraining", objectives=options)
    message = "^--generator_size=0.5 is for --objective=replaced_tokens, .*; le"
    refused(electra, message, objective="left_to_right")


def test_an_unknown_objective_and_an_impossible_number(plain):
    refused(
        plain,
        "--objective=rtl; it must be one of pretraining, left_to_right",
        objective="rtl",
    )
    with pytest.raises(
        ValueError, match="--num_predicted_positions=-1; it must be at least 0"
    ):
        LeftToRightOptions(num_predicted_positions=-1)


def test_a_run_does_not_change_its_objective(plain, tmp_path, caplog):
    some = LeftToRightOptions(num_predicted_positions=5)
    some = ObjectiveOptions(left_to_right=some)
    pretraining.run(plain.replace(objectives=some))
    # An evaluation predicts all positions, whatever the flag says.
    pretraining.run(plain.replace(do_train=False, do_eval=True))
    assert "with other settings than this evaluation" not in caplog.text
    masked = write_records(tmp_path / "masked.tf_record", masked=True)
    changes = {"objective": "pretraining", "input_file": masked}
    message = "holds a run with --objective=left_to_right; give this flag"
    refused(plain, message, **changes)
    changes["bert_config_file"] = str(tmp_path / "out/bert_config.json")
    refused(plain, message, **changes)


def test_an_evaluation_needs_the_head(plain, tmp_path):
    refused(
        plain,
        "^--do_eval needs the left-to-right LM, but --init_checkpoint=.* has "
        "no cls/predictions/output_bias",
        do_train=False,
        do_eval=True,
        init_checkpoint=write_encoder(plain, tmp_path / "encoder"),
    )


def test_an_export_of_an_objective_without_answers(config_file, tmp_path):
    done = fork_server.python(
        "run_pretraining.py",
        "--objective=left_to_right",
        "--do_train",
        "--do_export",
        f"--export_dir={tmp_path / 'export'}",
        f"--input_file={write_records(tmp_path / 'plain.tf_record')}",
        f"--bert_config_file={config_file}",
        f"--output_dir={tmp_path / 'out'}",
        code=1,
    )
    assert "--objective=left_to_right does not predict; leave --do_export" in (
        done.stderr
    )
    assert not list(tmp_path.glob("out/model.ckpt*"))


@pytest.mark.all
def test_a_model_of_both_directions_is_trained_on_and_resumed(
    plain, tmp_path, caplog
):
    folder = tmp_path / "encoder"
    write_encoder(plain, folder)
    shutil.copy(plain.bert_config_file, folder / "bert_config.json")
    # The configuration is found beside the weights, and at last in both places.
    options = plain.replace(
        bert_config_file=None, init_checkpoint=str(folder), num_train_steps=2
    )
    pretraining.run(options)
    pretraining.run(options.replace(num_train_steps=4))
    assert "says left_to_right" not in caplog.text
    out = tmp_path / "out"
    assert (out / "model.ckpt-4.index").exists()
    masked = write_records(tmp_path / "masked.tf_record", masked=True)
    back = {"objective": "pretraining", "input_file": masked}
    back |= {"output_dir": str(tmp_path / "back"), "init_checkpoint": str(out)}
    pretraining.run(plain.replace(**back))
    assert f"says left_to_right False, but the weights of {out}" in caplog.text
    assert f"Give --bert_config_file={out}/bert_config.json" in caplog.text


def test_an_electra_needs_the_vocabulary_of_its_records(
    electra, goldens, tmp_path
):
    refused(
        electra,
        "^Flag --vocab_file must have a value other than None",
        vocab_file=None,
    )
    path = tmp_path / "other.txt"
    words = [f"word{i}" for i in range(VOCAB - 5)]
    first = ["[PAD]", "[CLS]", "[UNK]", "[SEP]", "[MASK]"]
    path.write_text("\n".join([*first, *words]) + "\n")
    refused(
        electra,
        f"was not made with --vocab_file={path}; give the vocabulary that",
        vocab_file=str(path),
    )


def test_masked_records_are_not_for_an_electra(electra, tmp_path):
    path = write_records(tmp_path / "masked.tf_record", masked=True)
    refused(
        electra,
        f"^{path}: its records are masked, but --objective=replaced_tokens ",
        input_file=path,
    )


@pytest.mark.parametrize("objective", ["pretraining", "left_to_right"])
def test_an_electra_is_trained_by_its_own_objective(plain, tmp_path, objective):
    path = tmp_path / "electra.json"
    path.write_text(json.dumps(CONFIG | {"electra": True}))
    refused(
        plain,
        'that of an ELECTRA .*"electra": true.*--objective=replaced_tokens '
        "trains; give this objective, or the configuration of a BERT",
        objective=objective,
        bert_config_file=str(path),
    )


def test_a_bert_is_no_first_electra(electra, tmp_path):
    refused(
        electra,
        "bert_model.ckpt is a BERT, but the configuration is that of an "
        'ELECTRA .its "electra" is true.*another --init_checkpoint',
        init_checkpoint=write_encoder(electra, tmp_path / "bert"),
    )


@pytest.mark.all
def test_a_discriminator_without_generator_is_trained_on_not_evaluated(
    electra, tmp_path, caplog
):
    pretraining.run(electra)
    saved = checkpoints.Checkpoint(str(tmp_path / "out/model.ckpt-2"))
    prefix = str(tmp_path / "alone/model.ckpt")
    checkpoints.write(
        prefix,
        {n: saved.read(n) for n in saved.shapes if n.startswith("electra/")},
    )
    other = {
        "init_checkpoint": prefix,
        "output_dir": str(tmp_path / "second"),
    }
    refused(
        electra.replace(**other),
        "^--do_eval needs the generator and discriminator, but "
        "--init_checkpoint=.* has no discriminator_predictions/dense/bias|"
        "has no generator",
        do_train=False,
        do_eval=True,
    )
    caplog.set_level("INFO", logger="absl")
    pretraining.run(electra.replace(**other))
    assert "missing: generator/encoder/layer_0" in caplog.text
