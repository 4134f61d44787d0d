"""Fine-tunes pretrained models: is a lower loss also a better model?"""

from pathlib import Path
from typing import Any

from benchmarks.programs import run_with_log
from data.storage.json_files import read_json
from modeling.checkpoints.model_folder import weights_sha256
from studies.engine.inputs import task_flags
from studies.engine.measures import MEASURES
from studies.engine.study_options import StudyData

NAMES = ("similarity", "tags", "spans")
SEED = 12345


def finetune(
    task: str, data: StudyData, folder: Path, seed: int, **flags: Any
) -> float:
    """Fine-tunes on one of `NAMES`; returns its metric, from 0 to 100."""
    measure, place = MEASURES[task], task_flags(task, data)
    found = run_task(folder, do_train=True, seed=seed, **flags, **place)
    return measure.factor * found[measure.metric]


def run_task(folder: Path, **flags: Any) -> dict[str, float]:
    """Runs the program of a task; returns metric -> value on the dev set.

    `folder` is its output_dir, with the log beside it. `flags` name the data as
    `task_flags` does.
    """
    flags |= flags.pop("task_options", {})
    if "task_name" in flags:
        own = {"do_eval": True, "eval_batch_size": 64, "explain_errors": 0}
        program = "run_classifier.py"
    else:
        own, program = {"do_predict": True}, "run_squad.py"
    flags |= own | {"output_dir": folder}
    run_with_log(Path(f"{folder}.log"), program, **flags)
    found = read_json(str(folder / "metrics.json"))
    return found.get("dev", found)


def checksums(data: StudyData) -> dict[str, Any]:
    """Returns the checksums of what is given: of a model, and of the tasks."""
    found = {task: data.checksums(task) for task in NAMES}
    if data.init_checkpoint:
        found["init_checkpoint"] = weights_sha256(data.init_checkpoint)
    return {name: checksum for name, checksum in found.items() if checksum}
