"""Converts all files of a model to Hugging Face's format, and back.

A model may get other words, positions and layers on the way, see `sizes`.
"""

import contextlib
import dataclasses
import os
import secrets
from collections.abc import Collection
from typing import Any

import tensorflow as tf
from absl import logging

from data.storage import files
from data.storage.json_files import write_json
from data.tasks import KINDS
from data.text import tokenizer_files, vocabulary
from modeling import checkpoints
from modeling.checkpoints import huggingface, huggingface_names, model_folder
from modeling.checkpoints.vector_form import VectorForm, write_theirs
from modeling.config import to_huggingface
from modeling.loading import max_seq_length_of
from training.config.conversion_options import FORMATS, ConversionOptions
from training.convert import changed_model, sizes
from training.convert.changed_model import GENERATOR, ChangedModel
from training.start.description import of_facts

# Class of transformers -> the variables that it needs; the first that fits.
_QUESTIONS = {"cls/squad/output_weights"}
_NEXT = {"cls/seq_relationship/output_weights"}
_MASKED = {"cls/predictions/output_bias"}
_BERT = {
    "BertForQuestionAnswering": _QUESTIONS,
    "BertForPreTraining": _NEXT | _MASKED,
    "BertForNextSentencePrediction": _NEXT,
    "BertForMaskedLM": _MASKED,
    "BertModel": set(),
}
_ELECTRA = {
    "ElectraForQuestionAnswering": _QUESTIONS,
    "ElectraForMaskedLM": {"generator_predictions/output_bias"},
    "ElectraForPreTraining": {"discriminator_predictions/dense/kernel"},
    "ElectraModel": set(),
}


def run(options: ConversionOptions) -> None:
    """Converts a model to the other format, or to the one in the options.

    Raises ValueError or OSError if something is missing or has no counterpart,
    or output_dir holds files already; nothing was written then.
    """
    path = options.output_dir.rstrip("/") or "/"
    found = changed_model.find(options)
    target = options.output_format or FORMATS[not found.is_huggingface]
    is_empty = files.is_folder(path) and not tf.io.gfile.listdir(path)
    if files.exists(path) and not is_empty:
        raise ValueError(
            f"--output_dir={path} exists and is not empty; nothing was "
            "written. Give a new folder. Anything with .incomplete- in its "
            "name is from a killed conversion and may be removed."
        )
    # A new folder appears complete or not at all. An empty one stays, because
    # it may be a link, a mounted disk or the current folder. The temporary name
    # is random, so that no other user can put something else in its place.
    name = os.path.join(path, "model") if is_empty else path
    staging = files.incomplete(name, secrets.token_hex(8))
    files.check_writable(staging)
    try:
        model = changed_model.open_model(options, found)
        sizes.change(model)
        _write_tokenizer(staging, model)
        _write_form(staging, model, target)
        _copy_calibration(staging, model)
        write = _write_original if target == "original" else _write_huggingface
        write(staging, model)
        move = _move_files if is_empty else files.rename
        move(staging, path)
    finally:
        with contextlib.suppress(tf.errors.OpError):
            tf.io.gfile.rmtree(staging)
    names = ", ".join(sorted(tf.io.gfile.listdir(path)))
    logging.info("%s holds %s.", path, names)


def _move_files(source: str, folder: str) -> None:
    """Moves the files of a model; the one that makes it a model is last."""
    last = (huggingface.CONFIG, "bert_model.ckpt.index")
    names = tf.io.gfile.listdir(source)
    for name in sorted(names, key=lambda name: name in last):
        files.rename(os.path.join(source, name), os.path.join(folder, name))


def _write_original(folder: str, model: ChangedModel) -> None:
    """Writes bert_model.ckpt, bert_config.json, task.json and labels.txt."""
    ours = huggingface_names.of_encoder
    names = [n for n in model.values if huggingface_names.their_name(ours(n))]
    if left_out := sorted(model.values.keys() - {*names}):
        logging.warning(
            f"{len(left_out)} tensors have no counterpart and are left out: "
            f"{', '.join(left_out)}"
        )
    config_file = os.path.join(folder, model_folder.CONFIG)
    files.write_text(config_file, model.config.to_json_string())
    _write_task(folder, model, "bert_model.ckpt")
    labels, has_head = list(model.found.labels), "output_weights" in names
    if has_head and model.options.labels_file and model.kind != "choice":
        _labels(model)
    if has_head and labels != huggingface.numbered(len(labels)):
        path = os.path.join(folder, model_folder.LABELS)
        files.write_text(path, "".join(f"{label}\n" for label in labels))
    name_of = huggingface_names.of_generator if model.is_generator else str
    values = {name_of(name): model.values[name] for name in names}
    checkpoints.write(os.path.join(folder, "bert_model.ckpt"), values)
    lower = model.texts.do_lower_case
    logging.info("The original's programs need --do_lower_case=%s.", lower)


def _write_huggingface(folder: str, model: ChangedModel) -> None:
    """Writes model.safetensors, config.json and special_tokens_map.json."""
    left_out = () if model.is_generator else GENERATOR
    of_all = model.values.items()
    weights = {n: x for n, x in of_all if not n.startswith(left_out)}
    if len(weights) < len(model.values):
        logging.info("The generator is left out, see --electra_part=generator.")
    if model.is_generator and model.config.hidden_act != "gelu_exact":
        raise ValueError(
            f"hidden_act is {model.config.hidden_act!r}, but a generator of "
            "Hugging Face always has gelu_exact; pretrain one with that."
        )
    values = to_huggingface(model.config.to_dict()) | _head(model, weights)
    ids, special = model.ids, tokenizer_files.SPECIAL_TOKENS
    vocabulary.require_tokens(ids, [*special.values()], "vocab.txt")
    if model.texts.never_split:
        special = special | {tokenizer_files.WHOLE[0]: model.texts.never_split}
    write_json(os.path.join(folder, tokenizer_files.SPECIAL), special)
    values["pad_token_id"] = ids["[PAD]"]
    write_json(os.path.join(folder, huggingface.CONFIG), values)
    # Transformers does not read it; a later conversion or command here does.
    _write_task(folder, model, ".")
    (name,) = values["architectures"]
    is_alone = name.endswith("Model")
    tensors = huggingface.to_tensors(weights, is_encoder_alone=is_alone)
    huggingface.write(folder, tensors)
    logging.info("Its class in transformers is %s.", name)


def _write_tokenizer(folder: str, model: ChangedModel) -> None:
    """Writes the vocabulary and its settings."""
    # The settings are Hugging Face's in both formats, because the original has
    # no file for them.
    vocabulary.write_vocab(os.path.join(folder, "vocab.txt"), model.tokens)
    remedy = "name in --never_split only tokens that it has, or --extra_words"
    whole = model.texts.never_split
    vocabulary.require_tokens(model.ids, whole, "vocab.txt", remedy)
    content = model.texts.to_dict()
    content["model_max_length"] = model.config.max_position_embeddings
    write_json(os.path.join(folder, tokenizer_files.CONFIG), content)


def _head(model: ChangedModel, names: Collection[str]) -> dict[str, Any]:
    """Returns what config.json says about the layers above the encoder."""
    classes, tasks = _BERT, huggingface.TASKS
    if model.config.electra:
        classes, tasks = _ELECTRA, huggingface.ELECTRA_TASKS
    if "output_weights" not in names:
        fits = (name for name, needed in classes.items() if needed <= {*names})
        return {"architectures": [next(fits)]}
    kind = model.kind
    if kind not in tasks:
        raise ValueError(
            f"{model.prefix} has an output layer "
            f"({kind or 'of a kind that no file says'}). Give --kind if it is "
            f"one of {', '.join(tasks)}: other layers have no counterpart "
            "(those of an ELECTRA have one more dense layer)."
        )
    architecture, problem_type = tasks[kind]
    problem = {"problem_type": problem_type} if problem_type else {}
    labels = _labels(model) if kind != "choice" else {}
    return {"architectures": [architecture], **problem, **labels}


def _labels(model: ChangedModel) -> dict[str, dict[str, Any]]:
    """Returns id2label and label2id; LABEL_0, ... if there are no labels."""
    found, num_labels = model.found, model.shapes["output_weights"][0]
    labels = list(found.labels) or huggingface.numbered(num_labels)
    if len(labels) != num_labels:
        path = model.options.labels_file or found.labels_file
        raise ValueError(
            f"{path} has {len(labels)} labels, but the output layer has "
            f"{num_labels}; give the right one by --labels_file."
        )
    return {
        "id2label": {str(i): label for i, label in enumerate(labels)},
        "label2id": {label: i for i, label in enumerate(labels)},
    }


def _write_task(folder: str, model: ChangedModel, weights: str) -> None:
    """Writes the task.json of a run, or of a fine-tuned model of a known kind.

    `weights` are the field of that name; "." = those of Hugging Face's folder,
    whose config.json has all that is known without a run.
    """
    found, kind, facts = model.found, model.kind, None
    changes = {"weights": weights, "save_best": "", **vars(model.texts)}
    if found.description and found.description["kind"] == kind:
        facts = found.description
        changes["max_seq_length"] = max_seq_length_of(found, model.config)
        if model.options.labels_file and kind in KINDS:
            changes["labels"] = found.labels
    elif weights != "." and kind in KINDS and "output_weights" in model.shapes:
        facts = _of_head(model)
    if facts:
        of_facts({**facts, **changes}, found.path).write(folder, None)


def _of_head(model: ChangedModel) -> dict[str, Any] | None:
    """Returns the facts about a head that no run describes."""
    kind, labels = model.kind, model.found.labels
    num_labels = model.shapes["output_weights"][0]
    if kind == "choice":
        num_labels = len(labels)
        if [*labels] == huggingface.numbered(num_labels):
            return None  # transformers writes two if the user gave no names
    head = {"kind": kind, "num_labels": num_labels}
    return {
        "task_name": "tsv",
        "kind": kind,
        "labels": () if kind == "regression" else labels,
        "max_seq_length": model.config.max_position_embeddings,
        "model": head | {"feature_based": "", "head": "linear"},
        # Nothing says whether texts are single or pairs.
        "columns": {} if kind == "classification" else {"kind": kind},
    }


def _write_form(folder: str, model: ChangedModel, target: str) -> None:
    """Writes the form of a model of sentence vectors.

    For Hugging Face these are the files of sentence-transformers.
    """
    if not (form := VectorForm.find(model.found.path)):
        return
    length = max_seq_length_of(model.found, model.config)
    length = length or model.config.max_position_embeddings
    form = dataclasses.replace(form, max_seq_length=length)
    if target == "huggingface":
        write_theirs(folder, form, model.config.hidden_size)
    else:
        form.write(folder)


def _copy_calibration(folder: str, model: ChangedModel) -> None:
    """Copies the calibration of a model whose answers stay the same."""
    path = os.path.join(model.found.path, model_folder.CALIBRATION)
    is_smaller = model.options.keep_layers or model.options.keep_words
    if is_smaller and files.exists(path):
        logging.warning(
            f"{path} is left out, because the smaller model answers "
            "differently; fit it again with --do_eval --calibrate."
        )
    elif model.kind == model.found.kind and files.exists(path):
        # Its hash says whether it belongs to these weights.
        files.copy(path, os.path.join(folder, model_folder.CALIBRATION))
