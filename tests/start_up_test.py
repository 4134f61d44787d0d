"""Programs answer --help and wrong flags before they load TensorFlow.

It takes seconds, and so does Keras, which loads scikit-learn. Here modules of
these names end a program that imports one of them.
"""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODEL = ["--bert_config_file=config.json", "--vocab_file=vocab.txt"]
MRPC = [*MODEL, "--task_name=MRPC", "--data_dir=mrpc", "--output_dir=out"]


@pytest.fixture
def run(tmp_path):
    for name in ("tensorflow", "keras", "sklearn"):
        text = f"raise SystemExit('{name} is loaded')\n"
        (tmp_path / f"{name}.py").write_text(text, "utf-8")

    def run(program, *flags):
        return subprocess.run(
            [sys.executable, ROOT / program, *flags],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
        )

    return run


@pytest.mark.parametrize(
    "program", [p.name for p in ROOT.glob("*.py") if p.stem != "bert"]
)
def test_help(run, program):
    done = run(program, "--help")
    assert f"{ROOT / program}:" in done.stdout, done.stderr
    assert not done.stderr


@pytest.mark.parametrize(
    "command, message",
    [
        (
            ["run_classifier.py", *MRPC, "--learning_rat=1"],
            "Did you mean: learning_rate",
        ),
        (["run_classifier.py", *MODEL], "--task_name must have a value"),
        (
            ["run_classifier.py", *MRPC, "--do_train", "--vocab_file="],
            "Flag --vocab_file must have a value other than None: there is no "
            "--init_checkpoint to look beside, and nothing yet in "
            "--output_dir=out.",
        ),
        (
            ["run_squad.py", "--do_train", "--train_file=a", "--vocab_file=b"]
            + ["--output_dir=out"],
            "Flag --bert_config_file must have a value other than None",
        ),
        (
            ["run_classifier.py", *MRPC, "--do_train", "--task_name=MPRC"],
            "--task_name=MPRC: no such task (the nearest is mrpc)",
        ),
        (
            ["run_classifier.py", *MRPC, "--do_train", "--num_trials=0"],
            "--num_trials=0; it must be at least 1.",
        ),
        (
            ["run_squad.py", *MODEL, "--output_dir=out", "--do_train"],
            "If `do_train` is True, then `train_file` must be specified.",
        ),
        (
            ["run_squad.py", *MODEL, "--output_dir=out", "--do_train"]
            + ["--train_file=a", "--predict_batch_size=0"],
            "--predict_batch_size=0; it must be at least 1.",
        ),
        (
            ["create_pretraining_data.py", "--output_file=a", "--vocab_file=b"]
            + ["--input_file=c", "--num_processes=-1"],
            "--num_processes=-1; it must be at least 0.",
        ),
        (
            ["run_pretraining.py", *MODEL, "--output_dir=out", "--do_train"],
            "--input_file is needed",
        ),
        (
            ["run_pretraining.py", *MODEL, "--output_dir=out", "--do_export"],
            "--do_export: give --export_dir",
        ),
        (
            ["extract_features.py", *MODEL, "--layers=-1,last"]
            + ["--input_file=a", "--output_file=b", "--init_checkpoint=c"],
            "'last' is no layer",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_wrong_flags(run, command, message):
    done = run(*command)
    assert message in done.stderr
    assert done.returncode == 1
    assert "is loaded" not in done.stderr


def test_flags_that_are_right(run):
    done = run("run_classifier.py", *MRPC, "--do_train")
    assert done.stderr == "tensorflow is loaded\n"
