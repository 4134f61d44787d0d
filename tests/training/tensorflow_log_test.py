"""What of TensorFlow's messages a program prints."""

import glob
import os

import pytest

from tests.support import fork_server
from training.tensorflow_log import LEVEL

# Runs a program whose TensorFlow is a stand-in.
SCRIPT = """
import os, sys
from training import program
def main():
    program.load_tensorflow()
    print(os.environ["TF_CPP_MIN_LOG_LEVEL"])
    os.write(2, b"afterwards\\n")
program.run(main)
"""
STAND_IN = """
import os
os.write(2, b"noise\\n")
{then}
class config:
    list_physical_devices = lambda: os.write(2, b"no CUDA\\n")
"""
NO_GPU = not any(map(glob.glob, ("/dev/nvidia*", "/dev/dxg")))
without_gpu = pytest.mark.skipif(
    not NO_GPU, reason="messages are about the GPU of this machine"
)


@pytest.fixture
def start(tmp_path):
    def start(*flags, then="", code=0, **environment):
        stand_in = tmp_path / "tensorflow/__init__.py"
        stand_in.parent.mkdir()
        stand_in.write_text(STAND_IN.format(then=then), "utf-8")
        kept = {k: v for k, v in os.environ.items() if k != LEVEL}
        paths = os.pathsep.join([str(tmp_path), str(fork_server.ROOT)])
        env = kept | environment | {"PYTHONPATH": paths}
        command = "-c", SCRIPT, *flags
        return fork_server.cold_python(*command, code=code, env=env)

    return start


def test_nvidias_packages_are_found_before_tensorflow_seeks_devices(
    start, tmp_path
):
    tools = tmp_path / "nvidia/cuda_nvcc/bin"
    tools.mkdir(parents=True)
    done = start(then="print(os.environ['PATH'].split(':')[0])")
    assert done.stdout == f"{tools}\n1\n"


@without_gpu
@pytest.mark.parametrize("environment", [{}, {LEVEL: "1"}])  # as of a parent
def test_messages_of_the_import_are_hidden(start, environment):
    done = start(**environment)
    assert done.stdout == "1\n"
    assert done.stderr == "afterwards\n"


@pytest.mark.parametrize(
    ("flags", "environment", "level"),
    [
        (["--verbosity=1"], {}, "0"),
        # The user's own choice.
        ([], {LEVEL: "2"}, "2"),
        (["--verbosity=1"], {LEVEL: "2"}, "2"),
    ],
)
def test_all_messages_are_brought_back(start, flags, environment, level):
    done = start(*flags, **environment)
    assert done.stdout == f"{level}\n"
    assert done.stderr == "noise\nno CUDA\nafterwards\n"


@pytest.mark.parametrize(
    ("then", "code", "lines"),
    [
        ("raise ImportError('broken')", 1, ["noise", "ImportError: broken"]),
        # As on a processor without AVX.
        ("os.write(2, b'no AVX\\n'); os.abort()", -6, ["noise", "no AVX"]),
        ("os.kill(os.getpid(), 9)", -9, ["noise"]),
        ("raise SystemExit(3)", 3, ["noise"]),
    ],
    ids=["raises", "aborts", "killed", "exits"],
)
def test_nothing_is_hidden_of_an_import_that_fails(start, then, code, lines):
    shown = start(then=then, code=code).stderr.splitlines()
    assert [line for line in lines if line in shown] == lines
    assert "afterwards" not in shown


@pytest.mark.all
@without_gpu
def test_a_program_of_the_project_prints_only_its_own(goldens, tmp_path):
    (tmp_path / "text").write_text("the man went to the store\n" * 20)
    done = fork_server.cold_python(
        "extract_features.py",
        f"--init_checkpoint={goldens}/model/trained",
        f"--bert_config_file={goldens}/first_layer.json",
        f"--vocab_file={goldens}/vocab.txt",
        f"--input_file={tmp_path}/text",
        f"--output_file={tmp_path}/out",
        "--layers=-1",
        env={k: v for k, v in os.environ.items() if k != LEVEL},
    )
    for word in ("cuda", "CUDA", "oneDNN", "absl::InitializeLog", "AVX"):
        assert word not in done.stderr
