"""Programs answer --help and wrong flags before they load TensorFlow.

It takes seconds, and so does Keras, which loads scikit-learn. Here modules of
these names end a program that imports one of them.
"""

import ast
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
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
    assert done.returncode == 0
    assert not done.stderr
    docstring = ast.get_docstring(ast.parse((ROOT / program).read_text()))
    assert done.stdout.startswith(docstring.splitlines()[0])
    described = json.loads(
        ROOT.joinpath("tests/programs/flags.json").read_text("utf-8")
    )
    places = {
        name: re.search(rf"^  --(\[no\])?{name}: ", done.stdout, re.M).start()
        for name in described[program.removesuffix(".py")]
    }
    needed = {
        name
        for name, flag in described[program.removesuffix(".py")].items()
        if flag["is_required"]
    }
    # The required flags come first.
    assert set(sorted(places, key=places.get)[: len(needed)]) == needed
    assert ("\nRequired:\n" in done.stdout) == bool(needed)
    assert "--logtostderr" not in done.stdout


def test_full_help_is_in_groups(run):
    text = run("run_squad.py", "--helpfull").stdout
    titles = re.findall(r"^(\S.*):$", text, re.M)
    assert titles[:1] == ["Required"]
    for title in ("How a model is trained", "Sizes of the windows"):
        assert title in titles
    # A flag is in the group of its class.
    group = text.split("How a model is trained:\n")[1].split("\n\n")[0]
    assert "--train_batch_size: " in group
    assert "--doc_stride: " not in group
    assert "--[no]do_train: Whether to train. Default: false." in text
    joined = " ".join(text.split())
    assert "Default: ids,examples,text." in joined
    assert re.search(r"--optimizer: <adamw\|lamb\|muon>:[^-]+ adamw\.", joined)


def test_help_has_a_line_for_each_new_flag_after_the_original_s(run):
    text = run("run_classifier.py", "--help").stdout
    originals, ours = text.split("\n[new] ", 1)
    assert "--num_tpu_cores: Cores of the TPU; only compared, with" in originals
    assert "[new]" not in originals
    assert "Examples of one eval batch. Default: 8." in originals
    lines = [x for x in ours.splitlines() if x.startswith("  --")]
    assert any(x.startswith("  --log_steps: Updates between") for x in lines)
    assert len(lines) > 50
    assert max(map(len, text.splitlines())) <= 80
    assert not re.search("^      ", ours, re.M)


@pytest.mark.parametrize("flag", ["-h", "-?", "-help", "--helpshort"])
def test_other_names_of_help(run, flag):
    done = run("ask.py", "--format=text", flag)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == run("ask.py", "--help").stdout


def test_full_help_has_the_flags_of_the_log(run):
    done = run("ask.py", "--helpfull")
    assert (done.returncode, done.stderr) == (0, "")
    for flag in ("--model: ", "--[no]logtostderr:", "-v,--verbosity:"):
        assert f" {flag}" in done.stdout


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("run_classifier.py' --help", "Fine-tunes BERT"),
        ("run_study.py' --scale=paper --study=masking --output_dir=x", "# "),
    ],
)
def test_a_pipe_that_closes(command, text):
    command = f"'{sys.executable}' '{ROOT}/{command} | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert not done.stderr
    assert done.stdout.startswith(text)


@pytest.mark.parametrize(
    "command, message",
    [
        (
            ["run_classifier.py", *MRPC, "--learning_rat=1"],
            "Did you mean: learning_rate",
        ),
        (["run_classifier.py", *MODEL], "--output_dir must have a value"),
        (
            ["run_classifier.py", "--do_train", "true", *MRPC],
            "error: unexpected argument 'true' after --do_train; give "
            "--do_train=true as one word.",
        ),
        (
            ["run_classifier.py", *MRPC, "--do_train", "mrpc"],
            "error: unexpected argument 'mrpc'; flags look like --name=value",
        ),
        (
            ["run_classifier.py", *MRPC, "stray", "--do_train"],
            "error: unexpected argument 'stray'; flags look like --name=value",
        ),
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
            ["run_pretraining.py", *MODEL, "--output_dir=out", "--do_export"]
            + ["--export_dir=export", "--serving_like_original"],
            "--serving_like_original and --export_format=litert are for fine-",
        ),
        (
            ["run_pretraining.py", *MODEL, "--output_dir=out", "--do_export"]
            + ["--export_dir=export", "--export_format=litert"],
            "--serving_like_original and --export_format=litert are for fine-",
        ),
        (
            ["run_squad.py", *MODEL, "--output_dir=out", "--do_export"]
            + ["--export_dir=export", "--export_format=litert"]
            + ["--export_signatures=text"],
            "--export_format=litert has files for ids alone",
        ),
        (
            ["run_squad.py", *MODEL, "--output_dir=out", "--do_export"]
            + ["--export_dir=export", "--export_signatures=text,id"],
            "--export_signatures=text,id; it must be some of ids,examples,text",
        ),
        (
            ["extract_features.py", *MODEL, "--layers=-1,last"]
            + ["--input_file=a", "--output_file=b", "--init_checkpoint=c"],
            "'last' is not a layer",
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


def test_importing_modeling_loads_no_tensorflow(pytestconfig):
    code = (
        "import sys, modeling\n"
        "assert 'load' in dir(modeling)\n"
        "print({'tensorflow', 'keras'} & sys.modules.keys())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=pytestconfig.rootpath,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "set()\n", done.stderr
