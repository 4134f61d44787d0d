"""Programs answer --help and wrong flags before they load TensorFlow.

It takes seconds, and so does Keras, which loads scikit-learn. Here modules of
these names end a program that imports one of them.
"""

import ast
import json
import os
import re
import subprocess
import sys

import pytest

from tests.support import fork_server
from tests.support.fork_server import ROOT

FLAGS = ROOT / "tests/programs/flags.json"
MODEL = ["--bert_config_file=config.json", "--vocab_file=vocab.txt"]
OUT = "--output_dir=out"
MRPC = ["run_classifier.py", *MODEL, "--task_name=MRPC", "--data_dir=mrpc", OUT]
SQUAD = ["run_squad.py", *MODEL, OUT]
PRETRAINING = ["run_pretraining.py", *MODEL, OUT]
TRAIN = ["--do_train", "--train_file=a"]
EXPORT = ["--do_export", "--export_dir=export"]


@pytest.fixture
def run(tmp_path):
    for name in "tensorflow keras sklearn tensorflow_datasets etils".split():
        text = f"raise SystemExit('{name} is loaded')\n"
        (tmp_path / f"{name}.py").write_text(text, "utf-8")

    def run(program, *flags, code=0):
        return fork_server.cold_python(
            ROOT / program,
            *flags,
            code=code,
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(tmp_path)},
        )

    return run


@pytest.mark.parametrize(
    "program", [p.name for p in ROOT.glob("*.py") if p.stem != "bert"]
)
def test_help(run, program):
    done = run(program, "--help")
    assert not done.stderr
    docstring = ast.get_docstring(ast.parse((ROOT / program).read_text()))
    assert done.stdout.startswith(docstring.splitlines()[0])
    flags = json.loads(FLAGS.read_text("utf-8"))[program.removesuffix(".py")]
    places = {
        name: re.search(rf"^  --(\[no\])?{name}: ", done.stdout, re.M).start()
        for name in flags
    }
    needed = {name for name, flag in flags.items() if flag["is_required"]}
    # The required flags come first.
    assert set(sorted(places, key=places.get)[: len(needed)]) == needed
    assert ("\nRequired:\n" in done.stdout) == bool(needed)
    assert "--logtostderr" not in done.stdout


def test_full_help_is_in_groups(run):
    done = run("run_squad.py", "--helpfull")
    assert done.stderr == ""
    text = done.stdout
    titles = re.findall(r"^(\S.*):$", text, re.M)
    assert titles[:1] == ["Required"]
    for title in ("How a model is trained", "Sizes of the windows"):
        assert title in titles
    # A flag is in the group of its class.
    group = text.split("How a model is trained:\n")[1].split("\n\n")[0]
    assert "--train_batch_size: " in group
    assert "--doc_stride: " not in group
    assert "--[no]do_train: Whether to train. Default: false." in text
    for flag in "--[no]logtostderr:", "-v,--verbosity:":  # of the log
        assert f" {flag}" in text
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


def test_other_names_of_help(run):
    expected = run("ask.py", "--help").stdout
    for flag in "-h", "-?", "-help", "--helpshort":
        done = run("ask.py", "--format=text", flag)
        assert (done.stdout, done.stderr) == (expected, "")


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
    ("command", "message"),
    [
        ([*MRPC, "--learning_rat=1"], "Did you mean: learning_rate"),
        (["run_classifier.py", *MODEL], "--output_dir must have a value"),
        (
            ["run_classifier.py", "--do_train", "true", *MRPC[1:]],
            "unexpected argument 'true' after --do_train; give --do_train=true",
        ),
        ([*MRPC, "stray", "--do_train"], "unexpected argument 'stray'; flags"),
        (
            [*MRPC, "--do_train", "--vocab_file="],
            "--vocab_file must have a value other than None: there is no "
            "--init_checkpoint to look beside, and nothing yet in --output_dir",
        ),
        (["run_squad.py", *TRAIN, MODEL[1], OUT], "--bert_config_file must"),
        ([*MRPC, "--do_train", "--task_name=MPRC"], "(the nearest is mrpc)"),
        ([*SQUAD, "--do_train"], "then `train_file` must be specified."),
        (
            ["create_pretraining_data.py", "--output_file=a", MODEL[1]]
            + ["--input_file=c", "--num_processes=-1"],
            "--num_processes=-1; it must be at least 0.",
        ),
        ([*PRETRAINING, "--do_train"], "--input_file is needed"),
        ([*PRETRAINING, "--do_export"], "--do_export: give --export_dir"),
        ([*PRETRAINING, *EXPORT, "--serving_like_original"], "are for fine-"),
        ([*PRETRAINING, *EXPORT, "--export_format=litert"], "are for fine-"),
        ([*MRPC, *EXPORT, "--task_name=MRPC,CoLA"], "--do_export exports one"),
        (
            [*PRETRAINING, "--do_train", "--input_file=a"]
            + ["--masked_lm_prob=0.3"],
            "--masked_lm_prob is for records without masks; give --masking=dyn",
        ),
        (
            ["build_vocab.py", "--input_file=/nowhere", "--output_file=v"]
            + ["--reserved_tokens=[UNK]"],
            "--reserved_tokens=[UNK]; they must begin",
        ),
        (
            ["extract_features.py", *MODEL, "--layers=-1,last"]
            + ["--input_file=a", "--output_file=b", "--init_checkpoint=c"],
            "'last' is not a layer",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_wrong_flags(run, tmp_path, command, message):
    done = run(*command, code=1)
    assert message in done.stderr
    assert "is loaded" not in done.stderr
    assert not (tmp_path / "out").exists()


def test_flags_that_are_right(run):
    assert run(*MRPC, "--do_train", code=1).stderr == "tensorflow is loaded\n"


def test_records_are_made_without_tensorflow(run, goldens, tmp_path):
    run(
        "create_pretraining_data.py",
        f"--input_file={goldens}/pretraining_data/corpus.txt",
        f"--output_file={tmp_path}/out",
        f"--vocab_file={goldens}/vocab.txt",
    )
    assert (tmp_path / "out").exists()


def test_importing_the_modules_loads_no_tensorflow():
    code = (
        "import bert, modeling, sys, tests.conftest\n"
        "assert 'load' in dir(modeling)\n"
        "print({'tensorflow', 'keras', 'sklearn'} & sys.modules.keys())"
    )
    assert fork_server.cold_python("-c", code).stdout == "set()\n"
