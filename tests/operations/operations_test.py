"""docs/operations.md: sizes, exit codes and the examples for schedulers."""

import json
import os
import re
import shlex
import subprocess

import pytest
import yaml

from modeling import BertConfig
from modeling.checkpoints import variables_by_name
from modeling.objectives.pretraining import PretrainingModel
from tests.support import flags_support
from tests.support.docs_support import ROOT, blocks
from training.devices import preemption
from training.devices.workers import cluster_of

PAGE = ROOT / "docs/operations.md"
TEXT = PAGE.read_text("utf-8")


def num_weights(config):
    """Weights of a pretraining model, by the sizes of its layers."""
    size, inner = config.hidden_size, config.intermediate_size
    tables = config.vocab_size + config.max_position_embeddings
    embeddings = (tables + config.type_vocab_size) * size + 2 * size
    attention = 4 * (size * size + size) + 2 * size
    block = attention + 2 * size * inner + inner + size + 2 * size
    pooler = size * size + size
    masked_lm = size * size + size + 2 * size + config.vocab_size
    next_sentence = 2 * size + 2
    blocks = config.num_hidden_layers * block
    return embeddings + blocks + pooler + masked_lm + next_sentence


def test_the_count_of_weights(goldens):
    config = BertConfig.from_json_file(str(goldens / "bert_config.json"))
    weights = variables_by_name(PretrainingModel(config).layers)
    counted = sum(int(w.shape.num_elements()) for w in weights.values())
    assert num_weights(config) == counted


def test_sizes_of_checkpoints():
    rows = re.findall(
        r"^\| `(configs/\S+)` \| ([\d.]+) million \| ([\d,]+) MB "
        r"\| ([\d,]+) MB \| ([\d.]+) GB \|$",
        TEXT,
        re.M,
    )
    assert len(rows) == 4
    for path, *told in rows:
        count = num_weights(BertConfig.from_json_file(str(ROOT / path)))
        assert told == [
            f"{count / 1e6:.1f}",
            f"{count * 4 / 1e6:,.0f}",
            f"{count * 12 / 1e6:,.0f}",
            f"{count * 12 * 6 / 1e9:.1f}",
        ]


def test_the_exit_code_of_a_preempted_run():
    assert f"\n| {preemption.EXIT_CODE} | SIGTERM, and" in TEXT
    for text in (*blocks(PAGE, "shell"), *blocks(PAGE, "yaml")):
        for code in re.findall(r"-eq (\d+)|values: \[(\d\d+)\]", text):
            assert str(preemption.EXIT_CODE) in code


@pytest.fixture
def slurm(tmp_path):
    """Runs the batch script with stand-ins for Slurm's commands."""
    (script,) = [text for text in blocks(PAGE, "shell") if "#SBATCH" in text]
    stand_ins = {
        "scontrol": 'if [ "$1" = show ]; then echo node7; echo node9\n'
        'else echo "$@" >> requeued; fi',
        # Starts each task, as on two nodes.
        "srun": 'for SLURM_PROCID in 0 1; do export SLURM_PROCID; "$@"; done\n'
        "exit $CODE",
        "python": 'printf "%s\\n" "$TF_CONFIG" "$*" >> started',
    }
    for name, text in stand_ins.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)

    def run(code):
        return subprocess.run(
            ["bash", "-c", script],
            cwd=tmp_path,
            env={
                "PATH": f"{tmp_path}:{os.environ['PATH']}",
                "SLURM_JOB_NODELIST": "node[7,9]",
                "SLURM_JOB_ID": "42",
                "CODE": str(code),
            },
            capture_output=True,
            text=True,
        )

    return run


def test_the_batch_script_starts_a_worker_on_each_node(slurm, tmp_path):
    done = slurm(0)
    assert (done.returncode, done.stderr) == (0, "")
    lines = (tmp_path / "started").read_text().splitlines()
    for index, text in enumerate(lines[::2]):
        assert cluster_of({"TF_CONFIG": text}).index == index
        workers = json.loads(text)["cluster"]["worker"]
        assert workers == ["node7:2222", "node9:2222"]
    assert len(lines) == 4
    program, *given = shlex.split(lines[1])
    assert program == "run_pretraining.py"
    assert lines[1] == lines[3]
    flags_support.parse("run_pretraining", [[given, True]], ROOT)
    assert not (tmp_path / "requeued").exists()


@pytest.mark.parametrize("code", [1, 75])
def test_only_a_preempted_run_is_queued_again(slurm, tmp_path, code):
    assert slurm(code).returncode == code
    requeued = tmp_path / "requeued"
    assert requeued.exists() == (code == preemption.EXIT_CODE)
    if requeued.exists():
        assert requeued.read_text() == "requeue 42\n"


def test_the_job_of_kubernetes():
    (text,) = blocks(PAGE, "yaml")
    job = yaml.safe_load(text)
    assert (job["apiVersion"], job["kind"]) == ("batch/v1", "Job")
    pod = job["spec"]["template"]["spec"]
    assert pod["restartPolicy"] == "Never"
    (container,) = pod["containers"]
    by_code = {}
    for rule in job["spec"]["podFailurePolicy"]["rules"]:
        if "onExitCodes" in rule:
            asked = rule["onExitCodes"]
            assert asked["containerName"] == container["name"]
            assert asked["operator"] == "In"
            by_code |= dict.fromkeys(asked["values"], rule["action"])
    assert by_code == {preemption.EXIT_CODE: "Ignore", 1: "FailJob"}
    program, *given = container["args"]
    flags_support.parse(program.removesuffix(".py"), [[given, True]], ROOT)
    mounted = {volume["name"] for volume in pod["volumes"]}
    assert {m["name"] for m in container["volumeMounts"]} == mounted
    # The image has this user, see Dockerfile.gpu.
    group = pod["securityContext"]["fsGroup"]
    assert f"\nUSER {group}\n" in (ROOT / "Dockerfile.gpu").read_text("utf-8")
    for config in re.findall(r"configs/[\w.-]+", TEXT):
        assert (ROOT / config).exists(), config
