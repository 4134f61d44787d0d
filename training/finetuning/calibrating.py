"""calibration.json: the calibration of a folder's weights.

The file says which weights it belongs to, so that it is used with no others.
"""

import dataclasses
import hashlib
import os
from typing import Any

from absl import logging

from data.calibration import Calibration
from data.settings import first_change
from data.storage.json_files import find_json, write_json
from modeling import checkpoints
from modeling.checkpoints import model_folder, tf1
from training.config.finetuning_options import ClassifierOptions
from training.finetuning.task_scorer import TaskScorer
from training.start.description import Description

# Left out of the hash, because a conversion may add words and positions.
_CONVERTED = "/embeddings/"
_NAMES = ("weights", "temperature", "thresholds")
# Flags by which the same texts get other answers.
_OF_TEXTS = ("max_seq_length", "do_lower_case", "never_split", "long_text")
_REMEDY = "fit it again with --do_eval --calibrate, or remove it"


def check(options: ClassifierOptions, described: Description | None) -> None:
    """Refuses to replace a model's calibration by one of other texts."""
    is_trained = tf1.has_run(options.output_dir)
    if options.do_train or not (options.calibrate and described and is_trained):
        return
    made_with = described.options()
    for name in _OF_TEXTS:
        now = getattr(options, name, options.find(name))
        if now != made_with[name]:
            name, now, before = first_change(name, now, made_with[name])
            raise ValueError(
                f"--calibrate with --{name}={now}, but the model of "
                f"{options.output_dir} was made with {before}, and its "
                "calibration would be replaced; leave one of the flags out."
            )


def of_run(
    options: ClassifierOptions, weights: str, scorer: TaskScorer
) -> Calibration:
    """Fits and keeps the calibration of a run's model, or finds it.

    `weights` is the prefix of the checkpoint that the model has loaded.
    """
    model = scorer.finetuning.model
    if not options.use_calibration:
        return Calibration()
    if not options.calibrate:
        return find(options.output_dir, weights, model)
    set_name, found = scorer.fit()
    path = os.path.join(options.output_dir, model_folder.CALIBRATION)
    facts = {"weights": _id_of(model), "set": set_name}
    facts["global_step"] = scorer.step
    write_json(path, facts | dataclasses.asdict(found))
    logging.info("Wrote %s", path)
    if found.temperature == 1:
        logging.warning(
            "%s: the log loss on the set %s has no minimum, as without an "
            "error; the temperature is 1. Give a larger dev set.",
            *(path, set_name),
        )
    return found


def find(folder: str, weights: str, model: Any) -> Calibration:
    """Finds the calibration of a model in its folder or beside its weights.

    `weights` is the path of the checkpoint, which the model has loaded. Returns
    the default one if there is none of these weights, which a warning says if
    there is one of others. Raises ValueError if the file is damaged.
    """
    for place in dict.fromkeys((folder, model_folder.beside(weights))):
        path = os.path.join(place, model_folder.CALIBRATION)
        saved = find_json(path, _NAMES, _REMEDY)
        if saved and saved["weights"] == _id_of(model):
            logging.info("Using the calibration of %s.", path)
            try:
                thresholds = tuple(map(float, saved["thresholds"]))
                if len(thresholds) not in (0, model.num_labels):
                    raise ValueError(f"{len(thresholds)} thresholds")
                return Calibration(float(saved["temperature"]), thresholds)
            except (TypeError, ValueError) as error:
                raise ValueError(
                    f"{path} is damaged: {error}; {_REMEDY}."
                ) from None
        if saved:
            logging.warning(
                "%s belongs to other weights and is unused; %s.", path, _REMEDY
            )
    return Calibration()


def _id_of(model: Any) -> str:
    """A hash of the weights, without the embeddings."""
    variables = checkpoints.variables_by_name(model.layers)
    found = hashlib.sha256()
    for name in sorted(variables):
        if _CONVERTED not in name:
            found.update(variables[name].numpy().astype("<f4").tobytes())
    return found.hexdigest()
