"""Runs the notebooks of examples/ and saves them with their outputs.

    .venv/bin/python -m tests.support.notebooks pretrain fill_mask

Without names it runs all. The outputs have no logs and no times, so that a
notebook changes only where its results do.
"""

import pathlib
import sys

import nbformat
from nbclient import NotebookClient

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
# pretrain.ipynb is the first: the others take its model if it is there.
NAMES = ("pretrain", "fill_mask", "classify", "questions", "search")
_SECONDS = 1800  # for each cell


def execute(path: pathlib.Path) -> nbformat.NotebookNode:
    """Runs a notebook in its folder and returns it with its outputs."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(
        notebook,
        timeout=_SECONDS,
        record_timing=False,
        resources={"metadata": {"path": str(path.parent)}},
    ).execute()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [
                x for x in cell.outputs if x.get("name") != "stderr"
            ]
    notebook.metadata.language_info = {"name": "python"}
    return notebook


if __name__ == "__main__":
    for name in sys.argv[1:] or NAMES:
        notebook_file = EXAMPLES / f"{name}.ipynb"
        nbformat.write(execute(notebook_file), notebook_file)
