"""--log_format=json."""

import datetime
import json
import logging
import pathlib
import subprocess
import sys

import pytest

from training.json_log import JsonFormatter

ROOT = pathlib.Path(__file__).parents[2]


def entries(*flags):
    done = subprocess.run(
        [sys.executable, ROOT / "build_vocab.py", "--log_format=json", *flags],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    return [json.loads(line) for line in done.stderr.splitlines()]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--input_file=/nope", "--output_file=/nope/v"], "--input_file"),
        (["--inputfile=x"], "inputfile"),
    ],
)
def test_an_error_that_ends_a_program_is_one_object(flags, said):
    (entry,) = entries(*flags)
    assert said in entry["message"]
    assert entry["level"] == "ERROR"
    assert datetime.datetime.fromisoformat(entry["time"]).tzinfo
    assert entry["place"].startswith("program.py:")


def test_lines_and_tracebacks_are_fields():
    try:
        1 / 0  # noqa: B018
    except ZeroDivisionError:
        info = sys.exc_info()
    record = logging.LogRecord("x", 20, "a/b.py", 7, "a\n%s", ("b",), info)
    text = JsonFormatter().format(record)
    assert "\n" not in text
    entry = json.loads(text)
    assert entry["message"] == "a\nb"
    assert entry["place"] == "b.py:7"
    assert "ZeroDivisionError" in entry["exception"]
