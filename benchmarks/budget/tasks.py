"""Fine-tunes pretrained models: is a lower loss also a better model?"""

import os
from pathlib import Path

from benchmarks.programs import run_with_log
from data.storage.json_files import read_json
from studies.engine.measures import FINETUNING, MEASURES
from studies.engine.options import StudyData

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
    flags = {**FINETUNING, **measure.flags, "do_train": True, "seed": seed}
    flags |= {"init_checkpoint": model, "output_dir": folder}
    if task == "spans":
        train, dev = data.squad_files
        flags |= {"train_file": train, "predict_file": dev, "do_predict": True}
        del flags["eval_batch_size"]  # its evaluation is prediction
        program = "run_squad.py"
    else:
        program, flags["do_eval"] = "run_classifier.py", True
    if task == "similarity":
        place = os.path.dirname(data.glue_files[0])
        flags |= {"task_name": "STS-B", "data_dir": place}
    if task == "tags":
        train, dev = data.conllu_files
        flags |= {"task_name": "conllu", "data_dir": data.conllu_dir}
        flags |= {"train_file": train, "dev_file": dev}
    run_with_log(Path(f"{folder}.log"), program, **flags)
    found = read_json(str(folder / "metrics.json"))
    return {"value": measure.factor * found.get("dev", found)[measure.metric]}
