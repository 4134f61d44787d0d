"""The part about SIGTERM: a run of run_pretraining.py is ended and resumed."""

import re
import tempfile
from pathlib import Path

from benchmarks.check_gpu.results import GOLDENS, Found, Request
from benchmarks.programs import run_with_log, start
from tests.support.pretraining_support import latest_step
from training.devices.preemption import EXIT_CODE

_PROGRAM = "run_pretraining.py"
# At this step the run sends itself the signal.
_INTERRUPTED = "-m tests.support.self_interrupting SIGTERM training 60".split()
_FLAGS = {
    "do_train": True,
    "input_file": f"{GOLDENS}/pretraining_data/*.tf_record",
    "bert_config_file": f"{GOLDENS}/first_layer.json",
    "max_seq_length": 64,
    "max_predictions_per_seq": 10,
    "train_batch_size": 16,
    "num_train_steps": 10_000,  # the signal comes long before
    "save_checkpoints_steps": 50,
}
_MORE = 10  # steps of the resumed run


def sigterm(request: Request) -> Found:
    """Ends a run by SIGTERM, then starts the command again."""
    found = Found()
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder, "run")
        flags = _FLAGS | {"output_dir": run}
        code = start([*_INTERRUPTED, _PROGRAM], flags).wait()
        label = "exit code of a run that gets SIGTERM"
        found.check(label, code == EXIT_CODE, f"{code}, expected {EXIT_CODE}")
        saved = latest_step(run)
        log = Path(folder, "log")
        run_with_log(log, _PROGRAM, **flags, stop_at_step=saved + _MORE)
        text = log.read_text("utf-8", "replace")
    resumed = re.search(r"Resuming .* at step (\d+)\.", text)
    step = int(resumed[1]) if resumed else 0
    text = f"from step {step}, expected {saved}"
    found.check("the same command resumes and ends", step == saved, text)
    return found
