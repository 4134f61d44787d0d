"""The part about SIGTERM: a run of run_pretraining.py is ended and resumed."""

import re
import signal
import tempfile
import time
from pathlib import Path

from benchmarks.check_gpu.results import GOLDENS, Found, Request
from benchmarks.programs import run_with_log, start
from training.devices.preemption import EXIT_CODE

_PROGRAM = "run_pretraining.py"
_STEPS = 10**9  # it ends by the signal, on any machine
_MORE = 10  # steps of the resumed run
_STARTS_S = 180.0  # most seconds until the first save, with compiling


def sigterm(request: Request) -> Found:
    """Sends SIGTERM after the first save, then starts the command again."""
    found = Found()
    with tempfile.TemporaryDirectory() as folder:
        run, flags = Path(folder, "run"), _flags(folder)
        log = Path(folder, "first.log")
        with log.open("w", encoding="utf-8") as file:
            process = start([_PROGRAM], flags, stderr=file)
            try:
                _wait_for_a_save(process, run, log)
                began = time.perf_counter()
                process.send_signal(signal.SIGTERM)
                code = process.wait(timeout=_STARTS_S)
            finally:
                process.kill()
                process.wait()
        seconds = time.perf_counter() - began
        found.figures["seconds_to_the_end"] = seconds
        text = f"{code} after {seconds:.1f} s, expected {EXIT_CODE}"
        label = "exit code of a run that gets SIGTERM"
        found.check(label, code == EXIT_CODE, text)
        saved = _last_step(run)
        log = Path(folder, "second.log")
        run_with_log(log, _PROGRAM, **flags, stop_at_step=saved + _MORE)
        text = log.read_text("utf-8", "replace")
    resumed = re.search(r"Resuming .* at step (\d+)\.", text)
    step = int(resumed[1]) if resumed else 0
    text = f"from step {step}, expected {saved}"
    found.check("the same command resumes and ends", step == saved, text)
    return found


def _flags(folder):
    return {
        "do_train": True,
        "input_file": f"{GOLDENS}/pretraining_data/*.tf_record",
        "bert_config_file": f"{GOLDENS}/first_layer.json",
        "output_dir": f"{folder}/run",
        "max_seq_length": 64,
        "max_predictions_per_seq": 10,
        "train_batch_size": 16,
        "num_train_steps": _STEPS,
        "save_checkpoints_steps": 50,
    }


def _last_step(run):
    """The step of the newest checkpoint; 0 = there is none."""
    names = [path.stem for path in run.glob("model.ckpt-*.index")]
    return max((int(name.rpartition("-")[2]) for name in names), default=0)


def _wait_for_a_save(process, run, log):
    """Returns after the first steps; raises RuntimeError if there is none."""
    deadline = time.monotonic() + _STARTS_S
    while not _last_step(run):
        if process.poll() is not None or time.monotonic() > deadline:
            text = log.read_text("utf-8", "replace")
            raise RuntimeError(f"no step was made:\n{text[-2000:]}")
        time.sleep(0.05)
