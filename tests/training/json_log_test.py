"""--log_format=json."""

import datetime
import json
import logging
import sys

import pytest

from tests.support import fork_server
from training.json_log import JsonFormatter


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--input_file=/nope", "--output_file=/nope/v"], "--input_file"),
        (["--inputfile=x"], "inputfile"),
    ],
)
def test_an_error_that_ends_a_program_is_one_object(flags, said):
    command = "build_vocab.py", "--log_format=json", *flags
    entry = json.loads(fork_server.cold_python(*command, code=1).stderr)
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


SCRIPT = """
import os, warnings
from absl import flags, logging
from training import json_log
logging.use_absl_handler()
flags.FLAGS.mark_as_parsed()
json_log.start()
os.write(2, b"from\\nC++\\n")
warnings.warn("old")
logging.error("last")
"""


def test_all_that_is_written_to_standard_error_is_objects():
    done = fork_server.cold_python("-c", SCRIPT)
    found = [json.loads(line) for line in done.stderr.splitlines()]
    (text,) = [x for x in found if x["place"] == "stderr"]
    assert text["message"] == "from\nC++"
    assert any("UserWarning: old" in x["message"] for x in found)
    assert any(x["message"] == "last" for x in found)
