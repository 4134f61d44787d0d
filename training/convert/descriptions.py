"""What a converted folder says of its model, beside the configuration."""

import dataclasses
import os

from absl import logging

from data.storage import files
from data.tasks import KINDS
from modeling.checkpoints import model_folder
from modeling.checkpoints.vector_form import VectorForm, write_theirs
from training.convert.changed_model import ChangedModel
from training.start.description import TaskDescription, of_facts


def write_task(folder: str, model: ChangedModel, weights: str) -> None:
    """Writes the task.json of a run, or of a fine-tuned model of a known kind.

    `weights` are the field of that name; "." = those of Hugging Face's folder,
    whose config.json has all that is known without a run.
    """
    found, kind = model.found, model.kind
    facts, described = found.description or {}, None
    if facts.get("kind") == kind and kind:
        if model.options.labels_file and kind in KINDS:
            facts = {**facts, "labels": found.labels}
        described = of_facts(facts, found.path)
    elif weights != "." and kind in KINDS and "output_weights" in model.shapes:
        described = _of_head(model)
    if described:
        changes = {"weights": weights, "save_best": "", **vars(model.texts)}
        dataclasses.replace(described, **changes).write(folder, None)


def _of_head(model: ChangedModel) -> TaskDescription | None:
    """Describes a model that no run describes."""
    kind, labels = model.kind, model.found.labels
    num_labels = model.shapes["output_weights"][0]
    if kind == "choice":
        num_labels = len(labels)
        if [*labels] == numbered(num_labels):
            return None  # transformers writes two if the user gave no names
    head = {"kind": kind, "num_labels": num_labels}
    return TaskDescription(
        task_name="tsv",
        kind=kind,
        labels=() if kind == "regression" else labels,
        max_seq_length=model.config.max_position_embeddings,
        do_lower_case=model.texts.do_lower_case,
        model=head | {"feature_based": "", "head": "linear"},
        weights="",
        # Nothing says whether texts are single or pairs.
        columns={} if kind == "classification" else {"kind": kind},
    )


def numbered(count: int) -> list[str]:
    """The names of labels that transformers writes if there are none."""
    return [f"LABEL_{i}" for i in range(count)]


def write_form(folder: str, model: ChangedModel, target: str) -> None:
    """Writes the form of a model of sentence vectors.

    For Hugging Face these are the files of sentence-transformers.
    """
    found, form = model.found, VectorForm.find(model.found.path)
    if not form:
        return
    most = model.config.max_position_embeddings
    length = found.facts.get("max_seq_length") or form.max_seq_length or most
    form = dataclasses.replace(form, max_seq_length=min(length, most))
    if target == "huggingface":
        write_theirs(folder, form, model.config.hidden_size)
    else:
        form.write(folder)


def copy_calibration(folder: str, model: ChangedModel) -> None:
    """Copies the calibration of a model whose answers stay the same."""
    path = os.path.join(model.found.path, model_folder.CALIBRATION)
    if not files.exists(path):
        return
    if model.options.keep_layers or model.options.keep_words:
        logging.warning(
            "%s is left out, because the smaller model answers differently; "
            "fit it again with --do_eval --calibrate.",
            path,
        )
    elif model.kind == model.found.kind:
        # Its hash says whether it belongs to these weights.
        files.copy(path, os.path.join(folder, model_folder.CALIBRATION))
