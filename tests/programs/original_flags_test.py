"""Every flag of the original's scripts, with its default.

`flags.json` holds all flags of all programs: they change only on purpose.
"""

import json
import pathlib

import pytest

from tests.support import flags_support

ALL = json.loads(
    pathlib.Path(__file__).with_name("flags.json").read_text("utf-8")
)
# From the original's source, script by script (None: no default).
ORIGINAL = {
    "create_pretraining_data": {
        "input_file": None,
        "output_file": None,
        "vocab_file": None,
        "do_lower_case": True,
        "do_whole_word_mask": False,
        "max_seq_length": 128,
        "max_predictions_per_seq": 20,
        "random_seed": 12345,
        "dupe_factor": 10,
        "masked_lm_prob": 0.15,
        "short_seq_prob": 0.1,
    },
    "run_pretraining": {
        "bert_config_file": None,
        "input_file": None,
        "output_dir": None,
        "init_checkpoint": None,
        "max_seq_length": 128,
        "max_predictions_per_seq": 20,
        "do_train": False,
        "do_eval": False,
        "train_batch_size": 32,
        "eval_batch_size": 8,
        "learning_rate": 5e-5,
        "num_train_steps": 100000,
        "num_warmup_steps": 10000,
        "save_checkpoints_steps": 1000,
        "iterations_per_loop": 1000,
        "max_eval_steps": 100,
        "use_tpu": False,
        "tpu_name": None,
        "tpu_zone": None,
        "gcp_project": None,
        "master": None,
        "num_tpu_cores": 8,
    },
    "run_classifier": {
        "data_dir": None,
        "bert_config_file": None,
        "task_name": None,
        "vocab_file": None,
        "output_dir": None,
        "init_checkpoint": None,
        "do_lower_case": True,
        "max_seq_length": 128,
        "do_train": False,
        "do_eval": False,
        "do_predict": False,
        "train_batch_size": 32,
        "eval_batch_size": 8,
        "predict_batch_size": 8,
        "learning_rate": 5e-5,
        "num_train_epochs": 3.0,
        "warmup_proportion": 0.1,
        "save_checkpoints_steps": 1000,
        "iterations_per_loop": 1000,
        "use_tpu": False,
        "tpu_name": None,
        "tpu_zone": None,
        "gcp_project": None,
        "master": None,
        "num_tpu_cores": 8,
    },
    "run_squad": {
        "bert_config_file": None,
        "vocab_file": None,
        "output_dir": None,
        "train_file": None,
        "predict_file": None,
        "init_checkpoint": None,
        "do_lower_case": True,
        "max_seq_length": 384,
        "doc_stride": 128,
        "max_query_length": 64,
        "do_train": False,
        "do_predict": False,
        "train_batch_size": 32,
        "predict_batch_size": 8,
        "learning_rate": 5e-5,
        "num_train_epochs": 3.0,
        "warmup_proportion": 0.1,
        "save_checkpoints_steps": 1000,
        "iterations_per_loop": 1000,
        "n_best_size": 20,
        "max_answer_length": 30,
        "verbose_logging": False,
        "version_2_with_negative": False,
        "null_score_diff_threshold": 0.0,
        "use_tpu": False,
        "tpu_name": None,
        "tpu_zone": None,
        "gcp_project": None,
        "master": None,
        "num_tpu_cores": 8,
    },
    "extract_features": {
        "input_file": None,
        "output_file": None,
        "bert_config_file": None,
        "init_checkpoint": None,
        "vocab_file": None,
        "layers": "-1,-2,-3,-4",
        "max_seq_length": 128,
        "do_lower_case": True,
        "batch_size": 32,
        "use_tpu": False,
        "master": None,
        "num_tpu_cores": 8,
        "use_one_hot_embeddings": False,
    },
}


@pytest.mark.parametrize("program", ORIGINAL)
def test_flags_and_defaults(program, pytestconfig):
    expected = ORIGINAL[program]
    rows = flags_support.parse(program, [], pytestconfig.rootpath)
    assert {name: rows["defaults"][name] for name in expected} == expected


def test_all_programs_are_listed(pytestconfig):
    files = {path.stem for path in pytestconfig.rootpath.glob("*.py")}
    assert {*ALL, "bert"} == files  # bert.py is a module for Python


@pytest.mark.parametrize("program", ALL)
def test_names_types_defaults_and_choices(program, pytestconfig):
    rows = flags_support.parse(program, [], pytestconfig.rootpath)
    assert rows["described"] == ALL[program]
