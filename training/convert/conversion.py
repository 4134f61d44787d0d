"""Converts all files of a model to Hugging Face's format, and back.

A model may get more words and positions on the way, see `growth`, or fewer
words and layers, see `cutting`.
"""

import contextlib
import dataclasses
import json
import os
import secrets
from collections.abc import Collection, Mapping
from typing import Any

import tensorflow as tf
from absl import logging

from data.storage import files
from data.text import tokenizer_files, vocabulary
from data.text.tokenizer_files import TokenizerSettings
from modeling import checkpoints
from modeling.bert import BertModel
from modeling.checkpoints import huggingface, huggingface_names, model_folder
from modeling.checkpoints.model_folder import ModelFolder
from modeling.checkpoints.tf1 import is_weight
from modeling.config import BertConfig, to_huggingface
from training.config.conversion_options import FORMATS, ConversionOptions
from training.convert import cutting, descriptions, generator, growth
from training.convert.changed_model import ChangedModel
from training.start.description import warn_if_unfinished

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

    Raises:
      ValueError, OSError: something is missing or has no counterpart, or
        output_dir holds files already; nothing was written then.
    """
    output_dir = options.output_dir.rstrip("/") or "/"
    found = _find(options)
    is_theirs = huggingface.is_folder(found.weights)
    target = options.output_format or FORMATS[0 if is_theirs else 1]
    is_there = files.exists(output_dir)
    if is_there and (
        not files.is_folder(output_dir) or tf.io.gfile.listdir(output_dir)
    ):
        raise ValueError(
            f"--output_dir={output_dir} is there already and not empty; "
            "nothing was written. Give a new folder."
        )
    # A new folder appears complete or not at all. An empty one stays, because
    # it may be a link, a mounted disk or the current folder. The temporary name
    # is random, so that no other user can put something else in its place.
    name = os.path.join(output_dir, "model") if is_there else output_dir
    staging = files.incomplete(name, secrets.token_hex(8))
    files.check_writable(staging)
    try:
        model = _open(options, found)
        _write_tokenizer(staging, model)
        descriptions.write_form(staging, model, target)
        descriptions.copy_calibration(staging, model)
        if target == "original":
            _write_original(staging, model)
        else:
            _write_huggingface(staging, model)
        if is_there:
            _move_files(staging, output_dir)
        else:
            files.rename(staging, output_dir)
    finally:
        with contextlib.suppress(tf.errors.OpError):
            tf.io.gfile.rmtree(staging)
    names = ", ".join(sorted(tf.io.gfile.listdir(output_dir)))
    logging.info("%s holds %s.", output_dir, names)


def _find(options: ConversionOptions) -> ModelFolder:
    found = model_folder.find(options.model)
    warn_if_unfinished(found.path, found.description)
    if found.head:
        raise ValueError(
            f"{os.path.join(found.path, model_folder.HEAD)}: this head "
            f"({json.dumps(found.head)}) has no counterpart elsewhere; such a "
            "model stays here."
        )
    said = (found.description or {}).get("kind")
    if options.kind and said and options.kind != said:
        raise ValueError(
            f"--kind={options.kind}, but {found.path}/task.json says {said}; "
            "leave the flag out."
        )
    if options.labels_file:
        labels = tuple(files.read_lines(options.labels_file))
        if labels != found.labels and sorted(labels) == sorted(found.labels):
            raise ValueError(
                f"--labels_file={options.labels_file} has the labels "
                f"{', '.join(labels)}, but the model's rows are, in this "
                f"order, {', '.join(found.labels)} ({found.labels_file}); "
                "leave the flag out, or correct that file."
            )
        found = dataclasses.replace(found, labels=labels)
    return found


def _move_files(source: str, folder: str) -> None:
    """Moves the files of a model; the one that makes it a model is last."""
    last = (huggingface.CONFIG, "bert_model.ckpt.index")
    names = tf.io.gfile.listdir(source)
    for name in sorted(names, key=lambda name: name in last):
        files.rename(os.path.join(source, name), os.path.join(folder, name))


def _write_original(folder: str, model: ChangedModel) -> None:
    """Writes bert_model.ckpt, bert_config.json, task.json and labels.txt."""
    ours = {name: huggingface_names.of_encoder(name) for name in model.values}
    names = [n for n, x in ours.items() if huggingface_names.their_name(x)]
    if left_out := sorted(model.values.keys() - {*names}):
        logging.warning(
            "%d tensors have no counterpart and are left out: %s",
            *(len(left_out), ", ".join(left_out)),
        )
    config_file = os.path.join(folder, model_folder.CONFIG)
    files.write_text(config_file, model.config.to_json_string())
    descriptions.write_task(folder, model, "bert_model.ckpt")
    labels, has_head = list(model.found.labels), "output_weights" in names
    if has_head and model.options.labels_file and model.kind != "choice":
        _labels(model)
    if has_head and labels != descriptions.numbered(len(labels)):
        path = os.path.join(folder, model_folder.LABELS)
        files.write_text(path, "".join(f"{label}\n" for label in labels))
    name_of = huggingface_names.of_generator if model.is_generator else str
    values = {name_of(name): model.values[name] for name in names}
    checkpoints.write(os.path.join(folder, "bert_model.ckpt"), values)
    lower = model.texts.do_lower_case
    logging.info("The original's programs need --do_lower_case=%s.", lower)


def _write_huggingface(folder: str, model: ChangedModel) -> None:
    """Writes model.safetensors, config.json and special_tokens_map.json."""
    names = [*model.values]
    if not model.is_generator:
        names = [n for n in names if not n.startswith(generator.SCOPES)]
    if len(names) < len(model.values):
        logging.info(
            "The generator is left out; --electra_part=generator converts it."
        )
    if model.is_generator and model.config.hidden_act != "gelu_exact":
        raise ValueError(
            f"hidden_act is {model.config.hidden_act!r}, but the generator's "
            "head always has gelu_exact in Hugging Face's class; such a "
            "generator stays here."
        )
    values = to_huggingface(model.config.to_dict()) | _head(model, names)
    ids, special = model.ids, tokenizer_files.SPECIAL_TOKENS
    vocabulary.require_tokens(ids, [*special.values()], "vocab.txt")
    if model.texts.never_split:
        special = special | {tokenizer_files.WHOLE[0]: model.texts.never_split}
    _write_json(folder, tokenizer_files.SPECIAL, special)
    values["pad_token_id"] = ids["[PAD]"]
    _write_json(folder, huggingface.CONFIG, values)
    # Transformers does not read it; a later conversion or command here does.
    descriptions.write_task(folder, model, ".")
    weights = {name: model.values[name] for name in names}
    (name,) = values["architectures"]
    is_alone = name.endswith("Model")
    tensors = huggingface.to_tensors(weights, is_encoder_alone=is_alone)
    huggingface.write(folder, tensors)
    logging.info("Its class in transformers is %s.", name)


def _open(options: ConversionOptions, found: ModelFolder) -> ChangedModel:
    """Opens a model; adds and takes away what the options say."""
    logging.info("Converting %s.", found.weights)
    config_file = options.bert_config_file or found.config_file
    config_file = config_file or os.path.join(found.path, model_folder.CONFIG)
    config = BertConfig.from_json_file(config_file)
    vocab_file = options.vocab_file or found.vocab_file
    if not vocab_file or not files.exists(vocab_file):
        raise FileNotFoundError(
            f"{vocab_file or found.path}: no such vocabulary, neither "
            f"{' nor '.join(model_folder.VOCABULARIES)} beside the weights; "
            "give --vocab_file, the one that the model was trained with."
        )
    vocab = vocabulary.load_vocab(vocab_file)
    if options.vocab_file and found.vocab_file and found.description:
        vocabulary.require_same(found.vocab_file, vocab_file)
    tokens = list(vocabulary.read_tokens(vocab_file))
    texts = _texts(options, found, vocab)
    checkpoint = checkpoints.open_checkpoint(found.weights)
    prefix, names = checkpoint.prefix, filter(is_weight, checkpoint.shapes)
    values = {name: checkpoint.read(name) for name in names}
    model = ChangedModel(options, found, prefix, config, tokens, texts, values)
    generator.choose_part(model)
    # The encoder is whole and fits the configuration.
    encoder = checkpoints.variables_by_name([BertModel(model.config)])
    for name in checkpoints.require_fit(model, encoder).missing:
        logging.warning("%s has no %s.", model.prefix, name)
    vocabulary.require_size(vocab, vocab_file, config.vocab_size, config_file)
    if options.max_position_embeddings:
        growth.add_positions(model, options.max_position_embeddings)
    if options.extra_words:
        growth.add_words(model)
    if options.keep_layers or options.keep_words:
        cutting.cut(model)
    return model


def _texts(
    options: ConversionOptions, found: ModelFolder, vocab: Mapping[str, int]
) -> TokenizerSettings:
    """How the model's texts become wordpieces."""
    settings = tokenizer_files.read_settings(found.path, found.facts)
    lower = options.do_lower_case
    if lower is None:
        lower = settings.lower_case(vocab)
    whole = dict.fromkeys((*settings.never_split, *options.never_split))
    return TokenizerSettings(do_lower_case=lower, never_split=tuple(whole))


def _write_tokenizer(folder: str, model: ChangedModel) -> None:
    """Writes the vocabulary and its settings."""
    # The settings are Hugging Face's in both formats, because the original has
    # no file for them.
    vocabulary.write_vocab(os.path.join(folder, "vocab.txt"), model.tokens)
    remedy = "name in --never_split only tokens that it has, or --extra_words"
    whole = model.texts.never_split
    vocabulary.require_tokens(model.ids, whole, "vocab.txt", remedy)
    length = {"model_max_length": model.config.max_position_embeddings}
    content = model.texts.to_dict() | length
    _write_json(folder, tokenizer_files.CONFIG, content)


def _write_json(folder: str, name: str, content: Mapping[str, Any]) -> None:
    """Writes a JSON file as transformers does."""
    text = json.dumps(content, indent=2, sort_keys=True)
    files.write_text(os.path.join(folder, name), text + "\n")


def _head(model: ChangedModel, names: Collection[str]) -> dict[str, Any]:
    """Returns what config.json says about the layers above the encoder."""
    classes, tasks = _BERT, huggingface.TASKS
    if model.config.electra:
        classes, tasks = _ELECTRA, huggingface.ELECTRA_TASKS
    if "output_weights" not in names:
        for name, needed in classes.items():
            if needed <= {*names}:
                return {"architectures": [name]}
    kind = model.kind
    if kind not in tasks:
        raise ValueError(
            f"{model.prefix} has an output layer "
            f"({kind or 'of a kind that no file says'}). Give --kind if it is "
            f"one of {', '.join(tasks)}: other layers have no counterpart "
            "(those of an ELECTRA have one more dense layer)."
        )
    architecture, problem_type = tasks[kind]
    values = {"architectures": [architecture]}
    if problem_type:
        values["problem_type"] = problem_type
    if kind != "choice":
        values |= _labels(model)
    return values


def _labels(model: ChangedModel) -> dict[str, dict[str, Any]]:
    """Returns id2label and label2id; LABEL_0, ... if there are no labels."""
    found, num_labels = model.found, model.shapes["output_weights"][0]
    labels = list(found.labels) or descriptions.numbered(num_labels)
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
