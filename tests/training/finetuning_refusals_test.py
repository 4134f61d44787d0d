"""What fine-tuning refuses, and how it counts its steps."""

import re
import shutil

import pytest

from modeling import BertConfig, TaskModel, checkpoints
from tests.support.model_folder_support import change_description
from tests.training.finetuning_support import (
    MRPC,
    make_options,
    make_run,
    options_of,
)
from training.finetuning import finetuner
from training.start.first_weights import FirstWeights
from training.start.source import Source

NO_EVAL = {"do_eval": False}
FROZEN = {"feature_based": "last"}
BOTH = "feature_based=last contradicts"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"save_best": "f1"}, "save_best needs --eval_every_steps; give"),
        ({"early_stopping_patience": 2}, "_patience needs --save_best; give"),
        ({"eval_checkpoints": "x"}, "eval_checkpoints=x; it must be last, all"),
        ({"eval_checkpoints": "all"} | NO_EVAL, "checkpoints needs --do_eval"),
        ({"explain_errors": 3} | NO_EVAL, "explain_errors needs --do_eval"),
        ({"calibrate": True} | NO_EVAL, "calibrate needs --do_eval"),
        (
            {"calibrate": True, "use_calibration": False},
            "use_calibration=False; drop",
        ),
        (
            {"write_texts": True, "do_predict": False},
            "write_texts needs --do_predict;",
        ),
        (FROZEN | {"trainable_layers": 0}, f"{BOTH} --trainable_layers=.*; d"),
        (FROZEN | {"layerwise_lr_decay": 0.9}, f"{BOTH} --layerwise_lr_decay="),
    ],
)
def test_flags_that_do_not_fit_each_other(goldens, tmp_path, changes, message):
    options = options_of(goldens, tmp_path)
    with pytest.raises(ValueError, match=f"--.*{message}"):
        options.replace(**changes)


def test_a_head_that_reads_the_pooler_needs_it(goldens, tmp_path, caplog):
    full = checkpoints.Checkpoint(str(goldens / MRPC))
    names = [n for n in full.shapes if not n.startswith("bert/pooler/")]
    path = str(tmp_path / "bert_model.ckpt")
    checkpoints.write(path, {n: full.read(n) for n in names})
    options = make_options(goldens, tmp_path / "run", init_checkpoint=path)
    run = make_run(options)
    message = "has no bert/pooler/dense/.* which the output layer reads: it st"
    assert re.search(message, caplog.text)
    message = "has no bert/pooler/dense/.* for this task; train first"
    with pytest.raises(ValueError, match=message):
        run.first.require_heads("classification")


def test_heads_of_another_kind_do_not_answer(finished_classifier, tmp_path):
    out = shutil.copytree(finished_classifier / "out", tmp_path / "out")
    config = BertConfig.from_json_file(str(out / "bert_config.json"))
    change_description(out, kind="multilabel")
    variables = checkpoints.variables_by_name(
        TaskModel(config, "classification", 2).layers
    )
    first = FirstWeights(Source(str(out)), variables, ["output_bias"], (), True)
    first.require_heads("multilabel")
    with pytest.raises(
        ValueError, match="the kind multilabel, not class.*--do"
    ):
        first.require_heads("classification")


def test_steps_are_rounded_down(goldens, tmp_path):
    # The README of the original: MRPC, int(3668 / 32 * 3) = 343.
    options = make_options(
        goldens, tmp_path, num_train_epochs=3.0, train_batch_size=32
    )
    train = finetuner.with_steps(options, 3668)
    assert (train.num_train_steps, train.num_warmup_steps) == (343, 34)
    message = "^10 training examples .* batches of 32, .*--train_batch_size"
    with pytest.raises(ValueError, match=message):
        finetuner.with_steps(options, 10)
