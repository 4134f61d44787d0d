import json
import math
import shutil

import pytest

import modeling
from data.pretraining.data_options import PretrainingDataOptions
from modeling import checkpoints
from tests.support import fork_server, rounding
from tests.support.model_folder_support import write_weights
from tests.support.objectives_support import (
    CONFIG,
    LENGTH,
    PREDICTIONS,
    VOCAB,
    write_records,
    write_vocab,
)
from tests.support.pretraining_support import refused
from tests.support.run_files import results_in
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


def train_twice(tmp_path, config_file, *flags, first=()):
    """Two steps and two more; the results of the first, and a checkpoint."""
    out = tmp_path / "out"
    command = [
        "run_pretraining.py",
        f"--input_file={write_records(tmp_path / 'plain.tf_record')}",
        f"--output_dir={out}",
        f"--max_seq_length={LENGTH}",
        *("--train_batch_size=8", "--max_eval_steps=2"),
        *("--do_train", "--do_eval"),
        *flags,
    ]
    first = [f"--bert_config_file={config_file}", *first]
    done = fork_server.python(*command, *first, "--num_train_steps=2")
    assert "16 examples, no pairs.\n" in done.stderr
    results = results_in(out)
    kept = json.loads((out / "bert_config.json").read_text())
    assert kept == CONFIG | kept
    # Configuration and vocabulary are found in the folder.
    done = fork_server.python(*command, "--num_train_steps=4")
    assert "at step 2" in done.stderr
    return results, checkpoints.Checkpoint(str(out / "model.ckpt-4"))


@pytest.mark.all
def test_the_program_trains_resumes_and_tells_perplexity(config_file, tmp_path):
    flags = "--objective=left_to_right", "--num_predicted_positions=4"
    results, saved = train_twice(tmp_path, config_file, *flags)
    assert results["perplexity"] == pytest.approx(
        math.exp(results["next_token_loss"]), rel=rounding.EQUAL
    )
    assert {"loss", "next_token_accuracy"} < results.keys()
    # Random weights know nothing: each of the 40 words is as likely.
    assert results["perplexity"] == pytest.approx(VOCAB, rel=0.1)
    assert "cls/predictions/output_bias/adam_m" in saved.shapes
    assert not [n for n in saved.shapes if "seq_relationship" in n]
    encoder = modeling.BertModel.from_folder(str(tmp_path / "out"))
    assert encoder.config.left_to_right is True


@pytest.mark.all
def test_the_program_trains_resumes_and_scores_an_electra(
    config_file, tmp_path
):
    results, saved = train_twice(
        tmp_path,
        config_file,
        "--objective=replaced_tokens",
        "--generator_size=0.5",
        first=[f"--vocab_file={write_vocab(tmp_path / 'vocab.txt')}"],
    )
    # Random weights know nothing.
    assert results["masked_lm_loss"] == pytest.approx(math.log(VOCAB), rel=0.1)
    assert results["disc_loss"] == pytest.approx(math.log(2), rel=0.1)
    # The mean of two batches, in which other numbers of wordpieces are real.
    assert results["loss"] == pytest.approx(
        results["masked_lm_loss"] + 50 * results["disc_loss"], rel=1e-3
    )
    assert "generator/embeddings_project/kernel/adam_m" in saved.shapes
    assert "discriminator_predictions/dense_1/kernel" in saved.shapes
    encoder = modeling.BertModel.from_folder(str(tmp_path / "out"))
    assert encoder.config.electra is True


def write_encoder(options, folder):
    """Writes an encoder of the options' sizes alone; returns its prefix."""
    config = modeling.BertConfig.from_json_file(options.bert_config_file)
    return write_weights(folder / "bert_model.ckpt", modeling.BertModel(config))


@pytest.mark.parametrize(
    ("flag", "kind", "message"),
    [
        ("input_file", "masked", "are masked, .* --masking=dynamic"),
        ("eval_file", "pairs", "are .* pairs, .* --next_sentence_predict"),
    ],
)
def test_records_that_do_not_fit_the_objective(
    plain, tmp_path, flag, kind, message
):
    path = write_records(tmp_path / "other.tf_record", **{kind: True})
    message = f"^{path}: its records {message}"
    refused(plain, message, do_eval=True, **{flag: path})


DYNAMIC = PretrainingDataOptions(masking="dynamic")
FIVE = ObjectiveOptions(
    left_to_right=LeftToRightOptions(num_predicted_positions=5)
)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"masking": DYNAMIC, "vocab_file": "vocab.txt"},
            "--masking=dynamic .* --objective=left_to_right .*; leave --mask",
        ),
        (
            {"do_predict": True, "predict_file": "a", "vocab_file": "b"},
            "--do_predict .* --objective=left_to_right .*; leave --do_predict",
        ),
        (
            {"objective": "pretraining", "objectives": FIVE},
            "--num_predicted_positions=5 is for --objective=left_to_right, ",
        ),
        # It is refused before a file is read.
        (
            dict.fromkeys(("input_file", "bert_config_file"), "none")
            | {"do_export": True, "vocab_file": "none"},
            "--do_export .*left_to_right does not predict; leave --do_export",
        ),
        ({"objective": "rtl"}, "--objective=rtl; it must be one of pretrain"),
    ],
)
def test_options_that_do_not_fit_the_objective(plain, changes, message):
    refused(plain, f"^{message}", **changes)


def test_a_run_does_not_change_its_objective(plain, tmp_path, caplog):
    pretraining.run(plain.replace(objectives=FIVE))
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
        "^--do_eval needs .*, but --init_checkpoint=.* no cls/predictions/out",
        do_train=False,
        do_eval=True,
        init_checkpoint=write_encoder(plain, tmp_path / "encoder"),
    )


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


def test_what_does_not_fit_an_electra(electra, tmp_path):
    message = "^--generator_size=0.5 is for --objective=replaced_tokens, .*; le"
    refused(electra, message, objective="left_to_right")
    bert = write_encoder(electra, tmp_path / "bert")
    message = f"{bert} is a BERT, but .* an ELECTRA .*out --objective=replaced"
    refused(electra, message, init_checkpoint=bert)


def test_an_electra_needs_the_vocabulary_of_its_records(electra, tmp_path):
    refused(electra, "^Flag --vocab_file must have a value", vocab_file=None)
    other = tmp_path / "other.txt"
    tokens = (tmp_path / "vocab.txt").read_text("utf-8").splitlines()
    tokens[1:3] = "[CLS]", "[UNK]"
    other.write_text("\n".join(tokens) + "\n")
    message = f"was not made with --vocab_file={other}; give the vocabulary"
    refused(electra, message, vocab_file=str(other))


@pytest.mark.parametrize("objective", ["pretraining", "left_to_right"])
def test_an_electra_is_trained_by_its_own_objective(plain, tmp_path, objective):
    path = tmp_path / "electra.json"
    path.write_text(json.dumps(CONFIG | {"electra": True}))
    message = "an ELECTRA .*--objective=replaced_tokens trains; give this obje"
    changes = {"objective": objective, "bert_config_file": str(path)}
    refused(plain, message, **changes)


@pytest.mark.all
def test_a_discriminator_without_generator_is_trained_on_not_evaluated(
    electra, tmp_path, logged
):
    pretraining.run(electra)
    saved = checkpoints.Checkpoint(str(tmp_path / "out/model.ckpt-2"))
    prefix = str(tmp_path / "alone/model.ckpt")
    checkpoints.write(
        prefix,
        {n: saved.read(n) for n in saved.shapes if n.startswith("electra/")},
    )
    other = electra.replace(
        init_checkpoint=prefix, output_dir=str(tmp_path / "second")
    )
    message = "^--do_eval needs the generator and discriminator, but --init_ch"
    refused(other, message, do_train=False, do_eval=True)
    pretraining.run(other)
    assert "missing: generator/encoder/layer_0" in logged.text
