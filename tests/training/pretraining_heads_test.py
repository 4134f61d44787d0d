"""Heads that --init_checkpoint lacks: they do not answer before training."""

import json

import pytest

from modeling import checkpoints
from tests.support.pretraining_support import refused
from training.runs import pretraining

MASKED_LM = "cls/predictions/output_bias, cls/predictions/transform/"
PAIR = "cls/seq_relationship/output_bias, cls/seq_relationship/output_weights"


def without(goldens, tmp_path, *prefixes):
    """The golden model without some of its variables."""
    golden = checkpoints.open_checkpoint(str(goldens / "model/trained"))
    path = str(tmp_path / "less/bert_model.ckpt")
    kept = {
        name: golden.read(name)
        for name in golden.shapes
        if not name.startswith(prefixes)
    }
    checkpoints.write(path, kept)
    return path


def asked(options, goldens, tmp_path, init_checkpoint, text="", **changes):
    """The options of an evaluation, or of answers to some queries."""
    (tmp_path / "queries.txt").write_text(text)
    return options.replace(
        **{
            "init_checkpoint": init_checkpoint,
            "do_train": False,
            "do_eval": not text,
            "do_predict": bool(text),
            "predict_file": str(tmp_path / "queries.txt"),
            "vocab_file": str(goldens / "vocab.txt"),
        }
        | changes
    )


@pytest.mark.parametrize(
    ("lacks", "text", "flag", "what", "names"),
    [
        ("cls/", "", "--do_eval", "masked LM and next sentence", MASKED_LM),
        ("cls/predictions", "", "--do_eval", "masked LM", MASKED_LM),
        ("cls/seq", "", "--do_eval", "next sentence", PAIR),
        ("bert/pooler", "", "--do_eval", "next sentence", "bert/pooler/dense"),
        ("cls/", "the [MASK]", "--do_predict", "masked LM", MASKED_LM),
        ("cls/", "a ||| b", "--do_predict", "next sentence", PAIR),
        ("cls/seq", "a ||| [MASK]", "--do_predict", "next sentence", PAIR),
    ],
)
def test_what_is_missing_does_not_answer(
    options, goldens, tmp_path, lacks, text, flag, what, names
):
    path = without(goldens, tmp_path, lacks)
    message = f"{flag} needs the {what}, but --init_checkpoint={path} has no "
    message += f"{names}.*train first .--do_train"
    refused(asked(options, goldens, tmp_path, path, text), f"^{message}")
    assert not (tmp_path / "out/eval_results.txt").exists()


@pytest.mark.parametrize(
    ("lacks", "text"),
    [
        (("cls/seq", "bert/pooler"), "the [MASK] mill"),
        (("cls/predictions",), "the mill ||| snow"),
    ],
)
def test_what_is_there_answers(options, goldens, tmp_path, lacks, text):
    path = without(goldens, tmp_path, *lacks)
    pretraining.run(asked(options, goldens, tmp_path, path, text))
    found = (tmp_path / "out/predict_results.jsonl").read_text()
    assert json.loads(found)["text"] == text


def test_training_gives_the_heads(options, goldens, tmp_path):
    path = without(goldens, tmp_path, "cls/")
    # Two steps: the rate of the last one is 0, and would leave a head of zeros.
    options = options.replace(num_train_steps=2)
    both = {"do_train": True, "do_eval": True, "max_eval_steps": 1}
    pretraining.run(asked(options, goldens, tmp_path, path, **both))
    # The weights of the folder count now, not those of --init_checkpoint.
    text = "the [MASK] ||| snow"
    pretraining.run(asked(options, goldens, tmp_path, path, text))
    assert (tmp_path / "out/predict_results.jsonl").exists()
