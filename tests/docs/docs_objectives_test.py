"""The example of docs/objectives.md: an objective in three steps."""

import json
import re
import shutil

import pytest

from tests.support import fork_server
from tests.support.docs_support import ROOT, blocks
from tests.support.objectives_support import CONFIG, LENGTH, write_records
from tests.support.run_files import results_in

# Runs the program of this folder with its sources, not with what is loaded.
SCRIPT = """
import os, runpy, sys
for name in [*sys.modules]:
    if name.partition(".")[0] in ("data", "modeling", "training"):
        del sys.modules[name]
sys.path[0] = os.getcwd()
sys.argv[0] = "run_pretraining.py"
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def replaced(path, old, new):
    """Replaces what is in a file once."""
    changed, count = re.subn(old, new, path.read_text("utf-8"), flags=re.M)
    assert count == 1, (path, old)
    path.write_text(changed, "utf-8")


@pytest.mark.all
def test_the_example_trains_and_is_evaluated(tmp_path):
    page, copy = ROOT / "docs/objectives.md", tmp_path / "sources"
    (code,) = blocks(page, "python")
    names, contents, command = blocks(page, "text")
    shutil.copytree(ROOT / "modeling", copy / "modeling")
    for folder in ("data", "training"):
        (copy / folder).symlink_to(ROOT / folder)
    shutil.copy(ROOT / "run_pretraining.py", copy)
    folder = copy / "modeling/objectives"
    (folder / "reversed_segment.py").write_text(code, "utf-8")
    replaced(copy / "modeling/choices.py", r"^OBJECTIVES = .*\n", names)
    replaced(folder / "__init__.py", r"^(?=left_to_right )", contents)
    assert command.startswith("python run_pretraining.py ")
    config = tmp_path / "small.json"
    config.write_text(json.dumps(CONFIG))
    records = write_records(tmp_path / "pairs.tf_record", pairs=True)
    fork_server.python(
        *("-c", SCRIPT, *command.split()[2:-1]),
        f"--input_file={records}",
        f"--bert_config_file={config}",
        f"--output_dir={tmp_path / 'out'}",
        f"--max_seq_length={LENGTH}",
        *("--train_batch_size=16", "--num_train_steps=200"),
        *("--num_warmup_steps=0", "--learning_rate=1e-2"),
        *("--max_eval_steps=2", "--nofuse"),
        cwd=copy,
    )
    results = results_in(tmp_path / "out")
    assert results["reversed_accuracy"] == 1  # it knows its 16 records by heart
    assert results["reversed_loss"] < 0.1
