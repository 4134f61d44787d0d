"""Every flag of the original's scripts, with its default.

`original_flags.json` has those of the original's source, script by script (null
= no default); `flags.json` all flags of all programs, which change only on
purpose.
"""

import json
import pathlib

import pytest

from tests.support import flags_support

ORIGINAL, ALL = (
    json.loads(pathlib.Path(__file__).with_name(name).read_text("utf-8"))
    for name in ("original_flags.json", "flags.json")
)


def test_all_programs_are_listed(pytestconfig):
    files = {path.stem for path in pytestconfig.rootpath.glob("*.py")}
    assert {*ALL, "bert"} == files  # bert.py is a module for Python
    assert {*ORIGINAL} <= {*ALL}


@pytest.mark.parametrize("program", ALL)
def test_names_types_defaults_and_choices(program, pytestconfig):
    rows = flags_support.parse(program, [], pytestconfig.rootpath)
    assert rows["described"] == ALL[program]
    assert rows["defaults"].items() >= ORIGINAL.get(program, {}).items()
