"""Fine-tunes pretrained models: is a lower loss also a better model?"""

from pathlib import Path
from typing import Any

from benchmarks.programs import run_with_log
from data.storage.json_files import read_json
from studies.engine.inputs import task_flags
from studies.engine.measures import FINETUNING, MEASURES
from studies.engine.study_options import StudyData

NAMES = ("similarity", "tags", "spans")


def finetune(
    task: str, model: str, data: StudyData, folder: Path, seed: int
) -> dict[str, float]:
    """Fine-tunes a model on a task and scores it.

    Args:
      task: one of `NAMES`.
      model: folder of the pretrained model, with its vocabulary.
      data: where the tasks are.
      folder: for the result.
      seed: of the run.

    Returns:
      `value`: of the task's metric, from 0 to 100.
    """
    measure = MEASURES[task]
    flags = {**FINETUNING, **measure.flags, **task_flags(task, data)}
    flags |= {"init_checkpoint": model, "seed": seed, "do_train": True}
    if task == "spans":
        del flags["eval_batch_size"]  # its evaluation is prediction
    found = run_task(folder, **flags)
    return {"value": measure.factor * found[measure.metric]}


def run_task(folder: Path, **flags: Any) -> dict[str, float]:
    """Runs the program of a task; returns metric -> value on the dev set.

    Args:
      folder: its output_dir; the log is beside it.
      **flags: those of the data as `task_flags` names them, and others.
    """
    flags |= flags.pop("task_options", {})
    if "task_name" in flags:
        program, evaluation = "run_classifier.py", "do_eval"
    else:
        program, evaluation = "run_squad.py", "do_predict"
    flags |= {"output_dir": folder, evaluation: True}
    run_with_log(Path(f"{folder}.log"), program, **flags)
    found = read_json(str(folder / "metrics.json"))
    return found.get("dev", found)
