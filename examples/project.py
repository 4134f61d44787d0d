"""What the notebooks share: the place of the project, and a small model.

Importing this file makes the project's folder the current one, so that a
notebook can write `import bert`. In a notebook elsewhere write instead:

    import sys

    sys.path.insert(0, "/path/to/this/project")
"""

import json
import os
import pathlib
import shlex
import subprocess
import sys

FOLDER = "build/examples"  # all that the notebooks write
_ROOT = pathlib.Path(__file__).resolve().parent.parent
_LOG_LINES = 20

os.chdir(_ROOT)
sys.path.insert(0, str(_ROOT))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # errors of TensorFlow only


def run(*program: str, **flags: object) -> None:
    """Runs a program of the project as in a terminal, and prints the command.

    Args:
      *program: such as `build_vocab.py`, or `-m` and the name of a module.
      **flags: its flags and their values.

    Raises:
      RuntimeError: the program failed; has the end of its log.
    """
    given = [*program, *(f"--{name}={value}" for name, value in flags.items())]
    print("$ python", shlex.join(given))
    done = subprocess.run(
        [sys.executable, *given], capture_output=True, text=True
    )
    if done.returncode:
        log = done.stderr.splitlines()[-_LOG_LINES:]
        raise RuntimeError("\n".join([f"{program[-1]} failed:", *log]))


def small_model() -> str:
    """Returns the folder of the model of pretrain.ipynb; makes it if needed.

    Then the cells of the notebook are run, up to the training.
    """
    folder = f"{FOLDER}/pretrain/model"
    with open("examples/pretrain.ipynb", encoding="utf-8") as file:
        cells = json.load(file)["cells"]
    names: dict[str, object] = {}
    for cell in cells:
        if os.path.exists(f"{folder}/eval_results.txt"):
            break
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    return folder
