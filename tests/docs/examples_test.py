"""The notebooks of examples/: whole, with their outputs, and they run."""

import ast
import json
import re
import shutil
from importlib.util import find_spec

import nbformat
import pytest

from tests.support import notebooks
from tests.support.docs_support import ROOT, defined, imports_in
from tests.support.notebooks import EXAMPLES, NAMES

MOST_BYTES = 150_000
OURS = ("bert", "project", "made_questions")


def read(name):
    return nbformat.read(EXAMPLES / f"{name}.ipynb", as_version=4)


def cells(name, kind="code"):
    return [cell for cell in read(name).cells if cell.cell_type == kind]


def tree(name):
    """The code of a notebook, which is Python without magic."""
    return ast.parse("\n".join(cell.source for cell in cells(name)))


def calls(name, function):
    return [
        node
        for node in ast.walk(tree(name))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == function
    ]


def file_of(module):
    """The file of a module of ours or of examples/; None = another's."""
    path = ROOT.joinpath(*module.split(".")).with_suffix(".py")
    beside = EXAMPLES / f"{module}.py"
    return next((p for p in (path, beside) if p.exists()), None)


def test_all_notebooks_are_tested():
    assert {path.stem for path in EXAMPLES.glob("*.ipynb")} == {*NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_is_whole_and_was_run_from_top_to_bottom(name):
    notebook = read(name)
    nbformat.validate(notebook)
    code = cells(name)
    counts = [cell.execution_count for cell in code]
    assert counts == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell.outputs]
    assert not [x for x in outputs if x.output_type == "error"]
    assert any("image/png" in x.get("data", ()) for x in outputs)
    # A cell that only states what the notebook is about prints nothing.
    silent = [cell for cell in code if not cell.outputs]
    assert len(silent) <= 1, [cell.source for cell in silent]
    # No progress bars, logs, times, or paths of a machine.
    assert not [x for x in outputs if x.get("name") == "stderr"]
    assert not [cell for cell in notebook.cells if cell.metadata]
    text = (EXAMPLES / f"{name}.ipynb").read_text("utf-8")
    text = re.sub(r'"image/png": "[^"]*"', "", text)
    assert not re.findall(r"(?<![\w.])/(?:tmp|home|root|work|Users|opt)/", text)
    assert len(text) < MOST_BYTES
    assert (EXAMPLES / f"{name}.ipynb").stat().st_size < MOST_BYTES


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_says_where_other_data_goes(name):
    text = [cell.source for cell in cells(name, "markdown")]
    assert "**Your own data.**" in text[0] or "**A released model.**" in text[0]
    for link in re.findall(r"\]\(([^)]+)\)", "\n".join(text)):
        assert (EXAMPLES / link).exists(), link
    for named in re.findall(r"`((?:docs|configs)/[^`]*)`", "\n".join(text)):
        assert (ROOT / named).exists(), named


@pytest.mark.parametrize("name", NAMES)
def test_what_a_notebook_imports_and_uses_exists(name, monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    for imported in imports_in(tree(name)):
        module, _, last = imported.rpartition(".")
        path = file_of(module) if module else None
        found = last in defined(path) if path else find_spec(imported)
        assert found, imported
    for node in ast.walk(tree(name)):
        if isinstance(node, ast.Attribute):
            module = ast.unparse(node.value)
            if module in OURS:
                assert node.attr in defined(file_of(module)), node.attr


@pytest.mark.parametrize("name", NAMES)
def test_the_flags_that_a_notebook_gives_exist(name):
    flags = json.loads((ROOT / "tests/programs/flags.json").read_text("utf-8"))
    for call in calls(name, "project.run"):
        program = ast.literal_eval(call.args[0]).removesuffix(".py")
        for keyword in call.keywords:
            if program in flags and keyword.arg:
                assert keyword.arg in flags[program], keyword.arg
    functions = {
        getattr(node, "name", ""): node
        for node in ast.parse((ROOT / "bert.py").read_text("utf-8")).body
    }
    for function, program in (
        ("finetune", "run_classifier"),
        ("train_vectors", "run_sentence_vectors"),
    ):
        arguments = {x.arg for x in functions[function].args.kwonlyargs}
        for call in calls(name, f"bert.{function}"):
            for keyword in call.keywords:
                assert keyword.arg in arguments | {*flags[program]}


def shown(notebook):
    """The kinds of outputs of each cell, without what it prints.

    A cell prints more if it makes the model.
    """
    return [
        [x.output_type for x in cell.outputs if x.output_type != "stream"]
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


@pytest.mark.slow
def test_the_notebooks_run(tmp_path):
    # What they write to build/ is not in the project's folder.
    for path in ROOT.iterdir():
        if path.name != "build" and path.name[0] != ".":
            (tmp_path / path.name).symlink_to(path)
    (tmp_path / "examples").unlink()
    shutil.copytree(EXAMPLES, tmp_path / "examples")
    # The first of the others makes the model, by cells of pretrain.ipynb,
    # which then finds it.
    for name in [*NAMES[1:], NAMES[0]]:
        notebook = notebooks.execute(tmp_path / f"examples/{name}.ipynb")
        assert shown(notebook) == shown(read(name))
    built = tmp_path / "build/examples"
    metrics = json.loads((built / "packages/metrics.json").read_text())
    # Four packages; the largest has two sentences in five.
    assert metrics["dev"]["accuracy"] > 0.6
    assert (built / "pretrain/model/eval_results.txt").exists()
