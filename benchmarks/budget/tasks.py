"""Fine-tunes pretrained models: is a lower loss also a better model?"""

from pathlib import Path

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
    flags |= flags.pop("task_options", {})
    flags |= {"init_checkpoint": model, "output_dir": folder, "seed": seed}
    if task == "spans":
        program, evaluation = "run_squad.py", "do_predict"
        del flags["eval_batch_size"]  # its evaluation is prediction
    else:
        program, evaluation = "run_classifier.py", "do_eval"
    flags |= {"do_train": True, evaluation: True}
    run_with_log(Path(f"{folder}.log"), program, **flags)
    found = read_json(str(folder / "metrics.json"))
    return {"value": measure.factor * found.get("dev", found)[measure.metric]}
