"""--recipe=budget: the rate is that of the model's hidden size."""

import json
import re

from tests.support import fork_server
from tests.support.objectives_support import CONFIG

CHECKPOINT = "model.ckpt-1.index"


def rate(*flags):
    """The rate that the program announces."""
    command = ["run_pretraining.py", "--recipe=budget", "--do_train"]
    # It ends where it looks for the records.
    command += ["--input_file=none", *flags]
    done = fork_server.python(*command, code=1)
    return float(re.search(r"--learning_rate=(\S+)", done.stderr)[1])


def make_folder(path, hidden_size, *names):
    path.mkdir()
    facts = CONFIG | {"hidden_size": hidden_size}
    (path / "bert_config.json").write_text(json.dumps(facts))
    for name in names:
        (path / name).write_text("")
    return path


def test_a_run_that_resumes_has_the_rate_of_its_beginning(tmp_path):
    config = f"--bert_config_file={make_folder(tmp_path / 'c', 128)}"
    out = make_folder(tmp_path / "out", 128, CHECKPOINT)
    first = rate(f"{config}/bert_config.json", f"--output_dir={tmp_path}/new")
    assert first == rate(f"--output_dir={out}") == 1e-3


def test_a_second_phase_has_the_rate_of_the_run_it_continues(tmp_path):
    before = f"--continue_from={make_folder(tmp_path / 'p', 128, CHECKPOINT)}"
    out = make_folder(tmp_path / "out", 128)
    assert rate(before, f"--output_dir={tmp_path}/new") == 1e-3
    (out / CHECKPOINT).write_text("")
    assert rate(before, f"--output_dir={out}") == 1e-3


def test_the_first_weights_decide_whatever_the_folder_holds(tmp_path):
    first = make_folder(tmp_path / "first", 512)
    for name, *files in ("stale", "checkpoint"), ("resumed", CHECKPOINT):
        out = make_folder(tmp_path / name, 1024, *files)
        flags = f"--init_checkpoint={first}", f"--output_dir={out}"
        assert rate(*flags) == 2.5e-4
    prefix = f"--init_checkpoint={first}/bert_model.ckpt"
    assert rate(prefix, f"--output_dir={tmp_path}/new") == 2.5e-4


def test_the_folder_says_what_nothing_else_does(tmp_path):
    """As for the model itself: the first weights may be gone."""
    for name, *files in ("stale",), ("resumed", CHECKPOINT):
        out = f"--output_dir={make_folder(tmp_path / name, 1024, *files)}"
        assert rate(out) == rate(out, "--init_checkpoint=/gone") == 1.25e-4
