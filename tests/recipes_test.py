"""Every command of docs/recipes.md is one that its program takes."""

import json
import shlex
import subprocess
import sys

import pytest

PROGRAMS = ("create_pretraining_data", "run_pretraining")
SCRIPT = """
import json, sys
from absl import flags
program = __import__(sys.argv[1])
program.define_flags()
parsed = []
for command in json.loads(sys.argv[2]):
    for name in flags.FLAGS:
        flags.FLAGS[name].unparse()
    flags.FLAGS.unparse_flags()
    rest = flags.FLAGS(command)
    assert len(rest) == 1, rest
    parsed.append({n: flags.FLAGS[n].value for n in flags.FLAGS
                   if flags.FLAGS[n].present})
    if hasattr(program, "_options"):
        program._options()  # refuses what contradicts itself
print(json.dumps(parsed))
"""


@pytest.fixture(scope="module")
def commands(pytestconfig):
    text = (pytestconfig.rootpath / "docs/recipes.md").read_text()
    blocks = text.split("```shell\n")[1:]
    lines = [line for b in blocks for line in b.split("```")[0].splitlines()]
    return [shlex.split(line) for line in lines]


@pytest.fixture(scope="module")
def parsed(commands, pytestconfig):
    """Program -> the flags of each of its commands."""
    result = {}
    for program in PROGRAMS:
        some = [c[1:] for c in commands if c[1] == f"{program}.py"]
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, program, json.dumps(some)],
            cwd=pytestconfig.rootpath,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        result[program] = json.loads(done.stdout.splitlines()[-1])
    return result


def test_every_command_is_one_of_a_program(commands, parsed):
    assert {command[0] for command in commands} == {"python"}
    assert sum(map(len, parsed.values())) == len(commands) == 10


def test_the_phases_fit_each_other_and_their_records(parsed, pytestconfig):
    records = {
        flags["output_file"]: flags
        for flags in parsed["create_pretraining_data"]
    }
    runs = {flags["output_dir"]: flags for flags in parsed["run_pretraining"]}
    for run in runs.values():
        made = records[run["input_file"]]
        for name in ("max_seq_length", "max_predictions_per_seq"):
            assert run[name] == made[name]
        assert (pytestconfig.rootpath / run["bert_config_file"]).exists()
        before = runs.get(run.get("continue_from"))
        if before:
            assert before["stop_at_step"] == 0.9 * before["num_train_steps"]
            for name in (
                "num_train_steps",
                "num_warmup_steps",
                "learning_rate",
                "train_batch_size",
                "bert_config_file",
            ):
                assert run[name] == before[name]
    continued = [run for run in runs.values() if "continue_from" in run]
    started = [run for run in runs.values() if "init_checkpoint" in run]
    assert len(continued) == 2
    assert [run["init_checkpoint"] in runs for run in started] == [True]
