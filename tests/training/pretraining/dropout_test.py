"""--dropout_prob: dropout of this run, not of the configuration."""

import json

import numpy as np
import pytest

from tests.support.finished_runs import pretraining_options
from tests.support.model_folders import write_config
from tests.support.pretraining_support import assert_same_checkpoint, read_all
from training.runs import pretraining

_NAMES = ("hidden_dropout_prob", "attention_probs_dropout_prob")


def _train(goldens, folder, configured, dropout_prob, **changes):
    """With a dropout in the configuration; returns the weights."""
    folder.mkdir(exist_ok=True)
    names = dict.fromkeys(_NAMES, configured)
    options = pretraining_options(goldens, folder).replace(
        bert_config_file=write_config(goldens, folder / "config.json", **names),
        dropout_prob=dropout_prob,
        **changes,
    )
    pretraining.run(options)
    return read_all(folder)


@pytest.mark.all
def test_the_flag_stands_for_both_of_the_configuration(
    goldens, finished_pretraining, tmp_path
):
    # The configuration of the finished run is without dropout.
    _train(goldens, tmp_path / "off", 0.5, dropout_prob=0.0)
    assert_same_checkpoint(tmp_path / "off", finished_pretraining)
    switched_on = _train(goldens, tmp_path / "on", 0.0, dropout_prob=0.5)
    table = "bert/embeddings/word_embeddings"
    without = read_all(finished_pretraining)
    assert not np.array_equal(switched_on[table], without[table])
    # Fine-tuning finds the configuration unchanged.
    kept = json.loads((tmp_path / "off/bert_config.json").read_text())
    assert [kept[name] for name in _NAMES] == [0.5, 0.5]


def test_a_run_that_resumes_with_another_dropout_says_so(
    goldens, tmp_path, caplog
):
    _train(goldens, tmp_path, 0.5, dropout_prob=0.0)
    _train(goldens, tmp_path, 0.5, dropout_prob=None, num_train_steps=3)
    assert "hidden_dropout_prob 0.0 -> 0.5; num_train_steps" in caplog.text
