"""Commands of README, docs/ and the other pages: their flags and targets exist.

Nothing is run: commands are parsed by their program's own flags.
"""

import ast
import pathlib
import re
import shlex

import pytest

from tests.support import flags_support
from tests.support.docs_support import (
    MODULE,
    PAGES,
    ROOT,
    blocks,
    on_pages,
    page_id,
    prose,
)

PROGRAMS = sorted({path.stem for path in ROOT.glob("*.py")} - {MODULE})
# Flags of absl, TensorBoard, pytest, Docker and Slurm.
OTHERS_FLAGS = {
    *("helpfull", "version", "logdir", "all", "slow", "real_data"),
    *("batching_parameters_file", "durations", "enable_batching"),
    *("gpu", "gpus", "signal"),
}


def shell_lines(text):
    """The commands of a block of shell, each as a list of words."""
    pending = ""
    for line in text.replace("\\\n", " ").splitlines():
        pending += line + "\n"
        try:
            words = shlex.split(pending, comments=True)
        except ValueError:  # a quotation continues
            continue
        pending = ""
        yield words
    assert not pending, f"a quotation does not end: {pending}"


def our_commands(text):
    """(program, flags, whether all flags are there) of our programs' starts."""
    for words in shell_lines(text):
        for number, word in enumerate(words):
            name = pathlib.PurePath(word).name.removesuffix(".py")
            starts = number and words[number - 1].endswith(
                ("python", "python3")
            )
            if not starts or not word.endswith(".py"):
                continue
            if name in PROGRAMS:
                given = [w for w in words[number + 1 :] if w != "..."]
                yield name, given, len(given) == len(words) - number - 1
            else:
                assert (ROOT / word).exists(), f"{word} is not there"


def docstring_commands(program):
    text = ast.get_docstring(ast.parse((ROOT / f"{program}.py").read_text()))
    indented = re.findall(r"^  +.*(?:\n.+)*", text, re.M)
    return "\n".join(t for t in indented if t.lstrip().startswith("python "))


@pytest.fixture(scope="module")
def commands():
    """Every start of one of our programs: (page, program, flags, whole)."""
    sources = [
        (page_id(page), block)
        for page in PAGES
        for block in blocks(page, "shell")
    ]
    sources += [(f"{p}.py", docstring_commands(p)) for p in PROGRAMS]
    return [
        (page, *command)
        for page, text in sources
        for command in our_commands(text)
    ]


@pytest.fixture(scope="module")
def parsed(commands):
    """Program -> its default flags, and the flags of each command."""
    result = {}
    for program in PROGRAMS:
        mine = [command for command in commands if command[1] == program]
        result[program] = flags_support.parse(
            program, [command[2:] for command in mine], ROOT
        )
        result[program]["pages"] = [command[0] for command in mine]
    return result


def of_page(parsed, program, page):
    rows = parsed[program]
    return [
        given
        for given, where in zip(rows["parsed"], rows["pages"], strict=True)
        if where == page
    ]


def test_every_command_is_one_that_its_program_takes(commands, parsed):
    # Parsing refuses it otherwise, in the fixture.
    for program in PROGRAMS:
        assert f"{program}.py" in parsed[program]["pages"], program
    in_pages = [c for c in commands if c[0].endswith(".md")]
    assert len(in_pages) > 20
    for _, _, given, _ in in_pages:
        for config in re.findall(r"configs/[\w.-]+", " ".join(given)):
            assert (ROOT / config).exists(), config


def test_phases_of_a_recipe_fit_each_other_and_their_records(parsed):
    page = "docs/recipes.md"
    records = {
        given["output_file"]: given
        for given in of_page(parsed, "create_pretraining_data", page)
    }
    runs = {
        given["output_dir"]: given
        for given in of_page(parsed, "run_pretraining", page)
    }
    assert (len(records), len(runs)) == (4, 6)
    for run in runs.values():
        made = records[run["input_file"]]
        for name in ("max_seq_length", "max_predictions_per_seq"):
            assert run[name] == made[name]
        before = runs.get(run.get("continue_from"))
        if before:
            assert before["stop_at_step"] == 0.9 * before["num_train_steps"]
            for name in (
                *("num_train_steps", "num_warmup_steps", "learning_rate"),
                *("bert_config_file", "train_batch_size"),
            ):
                assert run.get(name) == before.get(name)
    started = [run for run in runs.values() if "init_checkpoint" in run]
    assert len([run for run in runs.values() if "continue_from" in run]) == 1
    assert [run["init_checkpoint"] in runs for run in started] == [True]


def test_every_flag_that_a_page_names_exists(parsed):
    ours = {name for rows in parsed.values() for name in rows["defaults"]}
    benchmarks = "".join(
        path.read_text("utf-8") for path in ROOT.glob("benchmarks/**/*.py")
    )

    def exists(name):
        return (
            name in ours
            or name.removeprefix("no") in ours
            or name in OTHERS_FLAGS
            or f'"--{name}"' in benchmarks
            or f'"{name}"' in benchmarks
            or re.search(
                rf"^ +{name}: .* = (?:setting|optional|switch)\(",
                benchmarks,
                re.M,
            )
        )

    def unknown(page):
        names = re.findall(r"(?<![\w-])--([a-z][\w-]*\w)", prose(page))
        return [name for name in names if not exists(name)]

    assert not on_pages(unknown)


def test_make_targets_that_pages_name_exist():
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = set(re.findall(r"^([a-z][\w-]*):", makefile, re.M))
    pattern = re.compile(r"(?:^|^    |`)make ([a-z][\w-]*)", re.M)
    named = [x for p in PAGES for x in pattern.findall(p.read_text("utf-8"))]
    assert len(named) > 5
    assert set(named) <= targets
