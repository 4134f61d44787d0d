"""How a program ends."""

import os

import pytest

from tests.support import fork_server
from training import program
from training.devices.precision import FROZEN

SCRIPT = """
import sys
from training import program
def main():
    raise {error}
program.run(main)
"""


@pytest.mark.parametrize(
    ("error", "code", "last_line"),
    [
        ("ValueError('what to mend')", 1, "error: what to mend"),
        ("OSError('disk')", 1, "error: disk"),
        ("FloatingPointError('nan')", 1, "error: nan"),
        (
            "__import__('tensorflow').errors.DataLossError(None, None, 'cut')",
            1,
            "error: cut",
        ),
        ("KeyboardInterrupt", 130, "interrupted: files appear whole"),
        (
            "__import__('os').kill(__import__('os').getpid(), 15)",
            75,
            "preempted by SIGTERM: files appear whole or not at all",
        ),
        (
            "__import__('tensorflow').errors.UnavailableError(None, None, 'x')",
            75,
            "a TPU or another machine went away; the same command",
        ),
        # Our own mistakes are not dressed up.
        ("TypeError('a bug')", 1, "TypeError: a bug"),
    ],
)
def test_what_a_user_sees_last(error, code, last_line):
    done = fork_server.python("-c", SCRIPT.format(error=error), code=code)
    assert done.stderr.splitlines()[-1].startswith(last_line)
    assert ("Traceback" in done.stderr) == ("TypeError" in error)


def test_sigterm_has_no_effect_on_a_program_that_is_done():
    # While the interpreter ends, Python takes handlers away.
    script = """
import atexit, os, signal
from training import program
atexit.register(os.kill, os.getpid(), signal.SIGTERM)
program.run(lambda: None)
"""
    assert not fork_server.cold_python("-c", script).stderr


def test_a_stray_word_of_a_file_of_flags_is_named(tmp_path):
    (tmp_path / "flags.txt").write_text("word\n")
    flags = f"--flagfile={tmp_path / 'flags.txt'}", "--runs=a", "--png=b.png"
    done = fork_server.python("run_plot.py", *flags, code=1)
    last = done.stderr.splitlines()[-1]
    assert last.startswith("error: unexpected argument 'word'; flags look like")


@pytest.mark.parametrize(
    ("precision", "is_frozen"), [("", "0"), ("float32", "0"), ("bfloat16", "1")]
)
def test_only_a_process_that_never_trains_lays_out_its_weights_once(
    monkeypatch, precision, is_frozen
):
    monkeypatch.setenv(FROZEN, "1")  # as for a server
    monkeypatch.setattr(program.tensorflow_log, "load", lambda is_verbose: None)
    program.load_tensorflow(infers_in=precision)
    assert os.environ[FROZEN] == is_frozen
