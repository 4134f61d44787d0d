"""Converts all files of a model to Hugging Face's format, and back."""

import contextlib
import dataclasses
import json
import os
import secrets
from collections.abc import Mapping
from typing import Any

import tensorflow as tf
from absl import logging

from data.storage import files
from data.storage.json_files import read_json
from data.tasks import KINDS
from data.text import vocabulary
from modeling import checkpoints
from modeling.bert import BertModel
from modeling.checkpoints import huggingface
from modeling.checkpoints.tf1 import is_weight
from modeling.config import BertConfig, label_names, to_huggingface
from training.config.conversion_options import ConversionOptions
from training.model_files import description, head_labels
from training.model_files.tokenizer import check_vocabulary

# kind -> transformers' class of a model with `output_weights`, problem_type.
_TASKS = {
    "classification": (
        "BertForSequenceClassification",
        "single_label_classification",
    ),
    "multilabel": (
        "BertForSequenceClassification",
        "multi_label_classification",
    ),
    "regression": ("BertForSequenceClassification", "regression"),
    "tagging": ("BertForTokenClassification", None),
    "choice": ("BertForMultipleChoice", None),
}
# `frozen_encoder` writes this file. No variable shows which layers most of its
# heads read, and transformers has no such head.
_HEAD_FILE = "head.json"
_SPECIAL_TOKENS = {
    "unk_token": "[UNK]",
    "sep_token": "[SEP]",
    "pad_token": "[PAD]",
    "cls_token": "[CLS]",
    "mask_token": "[MASK]",
}


def run(options: ConversionOptions) -> None:
    """Converts a model; a folder of Hugging Face becomes the original's files.

    Args:
      options: what to convert.

    Raises:
      ValueError, OSError: something is missing or has no counterpart, or
        output_dir holds files already; nothing was written then.
    """
    output_dir = options.output_dir.rstrip("/")
    if tf.io.gfile.exists(output_dir) and (
        not tf.io.gfile.isdir(output_dir) or tf.io.gfile.listdir(output_dir)
    ):
        raise ValueError(
            f"--output_dir={output_dir} is there already and not empty; "
            "nothing was written. Give a new folder."
        )
    # The folder appears complete or not at all. Its temporary name is random,
    # so that no other user can put something else in its place.
    staging = files.incomplete(output_dir, secrets.token_hex(8))
    files.check_writable(staging)
    try:
        if huggingface.is_folder(options.model):
            _to_original(options, staging)
        else:
            _to_huggingface(options, staging)
        tf.io.gfile.rename(staging, output_dir, overwrite=True)
    finally:
        with contextlib.suppress(tf.errors.OpError):
            tf.io.gfile.rmtree(staging)
    logging.info(
        "%s holds %s.",
        output_dir,
        ", ".join(sorted(tf.io.gfile.listdir(output_dir))),
    )


def _to_original(options: ConversionOptions, folder: str) -> None:
    """Hugging Face -> bert_model.ckpt, bert_config.json, vocab.txt."""
    config_file = os.path.join(options.model, huggingface.CONFIG)
    config = BertConfig.from_json_file(config_file)
    checkpoint = _checked(options.model, config)
    weights = {
        name: checkpoint.read(name)
        for name in checkpoint.shapes
        if huggingface.their_name(name)
    }
    left_out = sorted(checkpoint.shapes.keys() - weights.keys())
    if left_out:
        logging.warning(
            "%d tensors have no counterpart and are left out: %s",
            len(left_out),
            ", ".join(left_out),
        )
    if options.vocab_file:
        vocab = _read_text(options.vocab_file)
    else:
        vocab = _their_vocabulary(options.model)
    files.write_text(
        os.path.join(folder, "bert_config.json"), config.to_json_string()
    )
    _write_vocabulary(folder, vocab, config)
    labels = label_names(read_json(config_file), config_file)
    # Transformers writes these if there are no names.
    numbered = [f"LABEL_{i}" for i in range(len(labels))]
    if "output_weights" in weights and labels != numbered:
        files.write_text(
            os.path.join(folder, head_labels.FILE),
            "".join(f"{label}\n" for label in labels),
        )
    checkpoints.write(os.path.join(folder, "bert_model.ckpt"), weights)
    lower_case = _their_case(options.model)
    if lower_case is not None:
        logging.info("Its tokenizer says: use --do_lower_case=%s.", lower_case)


def _to_huggingface(options: ConversionOptions, folder: str) -> None:
    """A checkpoint -> model.safetensors, config.json and a tokenizer."""
    prefix, beside, facts = _find(options.model)
    logging.info("Converting %s.", prefix)
    config = BertConfig.from_json_file(
        options.bert_config_file or os.path.join(beside, "bert_config.json")
    )
    values = to_huggingface(config.to_dict())
    checkpoint = _checked(prefix, config)
    shapes = {n: s for n, s in checkpoint.shapes.items() if is_weight(n)}
    values |= _head(options, shapes, facts, beside, prefix)
    lower_case = options.do_lower_case
    if lower_case is None:
        lower_case = facts.get("do_lower_case", True)
    vocab_file = options.vocab_file or os.path.join(beside, "vocab.txt")
    vocab = _write_tokenizer(folder, vocab_file, config, lower_case)
    values["pad_token_id"] = vocab["[PAD]"]
    _write_sorted_json(folder, huggingface.CONFIG, values)
    weights = {name: checkpoint.read(name) for name in shapes}
    huggingface.write(
        folder,
        huggingface.to_tensors(
            weights, is_encoder_alone=values["architectures"] == ["BertModel"]
        ),
    )
    logging.info("For transformers it is a %s.", values["architectures"][0])


def _write_tokenizer(
    folder: str, vocab_file: str, config: BertConfig, do_lower_case: bool
) -> dict[str, int]:
    """Writes the files of Hugging Face's tokenizer; returns the vocabulary."""
    if not files.exists(vocab_file):
        raise FileNotFoundError(
            f"{vocab_file}: no such vocabulary; give --vocab_file, the one "
            "that the model was trained with."
        )
    vocab = _write_vocabulary(folder, _read_text(vocab_file), config)
    vocabulary.require_tokens(vocab, [*_SPECIAL_TOKENS.values()], vocab_file)
    tokenizer = _SPECIAL_TOKENS | {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": do_lower_case,
        "model_max_length": config.max_position_embeddings,
        "strip_accents": None,  # None = as do_lower_case
        "tokenize_chinese_chars": True,
    }
    _write_sorted_json(folder, "tokenizer_config.json", tokenizer)
    _write_sorted_json(folder, "special_tokens_map.json", _SPECIAL_TOKENS)
    return vocab


def _write_sorted_json(
    folder: str, name: str, content: Mapping[str, Any]
) -> None:
    """Writes a JSON file as transformers does."""
    text = json.dumps(content, indent=2, sort_keys=True)
    files.write_text(os.path.join(folder, name), text + "\n")


def _find(model: str) -> tuple[str, str, dict[str, Any]]:
    """Returns a checkpoint's prefix, the folder of its other files, facts."""
    folder = description.model_folder(model)
    # task.json of a pretrained model describes the checkpoint that was exported
    # last, which need not be the newest one.
    if description.is_finished(folder):
        found = description.read(folder)
        if found.kind != "pretraining":
            facts = dataclasses.asdict(found)
            return description.weights_of(folder, found), folder, facts
    prefix = checkpoints.Checkpoint(folder).prefix
    beside = os.path.dirname(prefix)
    return prefix, beside, _records_made(beside)


def _checked(path: str, config: BertConfig) -> Any:
    """Opens a checkpoint whose encoder is whole and fits the configuration."""
    encoder = checkpoints.variables_by_name([BertModel(config)])
    report = checkpoints.init_from_checkpoint(path, encoder)
    for name in report.missing:
        logging.warning("%s has no %s.", path, name)
    return checkpoints.open_checkpoint(path)


def _head(
    options: ConversionOptions,
    shapes: Mapping[str, tuple[int, ...]],
    facts: Mapping[str, Any],
    beside: str,
    prefix: str,
) -> dict[str, Any]:
    """Returns what config.json says of the layers above the encoder."""
    head_file = os.path.join(beside, _HEAD_FILE)
    if files.exists(head_file):
        raise ValueError(
            f"{head_file}: a head on a frozen encoder ("
            f"{json.dumps(read_json(head_file))}) has no counterpart among "
            "Hugging Face's classes; such a model stays here."
        )
    if "output_weights" not in shapes:
        return {"architectures": [_architecture(shapes)]}
    kind = options.kind or facts.get("kind")
    if kind not in _TASKS:
        raise ValueError(
            f"{prefix} has an output layer ({shapes['output_weights'][0]} x "
            f"{shapes['output_weights'][1]}) that does not say what it "
            f"answers; give --kind, one of {', '.join(KINDS)}."
        )
    architecture, problem_type = _TASKS[kind]
    values = {"architectures": [architecture]}
    if problem_type:
        values["problem_type"] = problem_type
    if kind != "choice":
        num_labels = shapes["output_weights"][0]
        values |= _labels(options, beside, num_labels)
    return values


def _architecture(names: Mapping[str, Any]) -> str:
    """Returns transformers' class of a model without `output_weights`."""
    if "cls/squad/output_weights" in names:
        return "BertForQuestionAnswering"
    has_masked_lm = "cls/predictions/output_bias" in names
    if "cls/seq_relationship/output_weights" in names:
        return (
            "BertForPreTraining"
            if has_masked_lm
            else "BertForNextSentencePrediction"
        )
    return "BertForMaskedLM" if has_masked_lm else "BertModel"


def _labels(
    options: ConversionOptions, beside: str, num_labels: int
) -> dict[str, dict[str, Any]]:
    """Returns id2label and label2id; LABEL_0, ... if there are no labels."""
    path = options.labels_file or os.path.join(beside, head_labels.FILE)
    labels = []
    if options.labels_file or files.exists(path):
        labels = _read_text(path).splitlines()
    labels = labels or [f"LABEL_{i}" for i in range(num_labels)]
    if len(labels) != num_labels:
        raise ValueError(
            f"{path} has {len(labels)} labels, but the output layer has "
            f"{num_labels}; give the right one by --labels_file."
        )
    return {
        "id2label": {str(i): label for i, label in enumerate(labels)},
        "label2id": {label: i for i, label in enumerate(labels)},
    }


def _records_made(folder: str) -> dict[str, Any]:
    """Returns what an output_dir's records were made from; {} = no records."""
    pattern = os.path.join(folder, "*.tf_record" + files.MANIFEST_SUFFIX)
    for path in files.find(pattern):
        made_from = read_json(path).get("made_from")
        if made_from:
            return made_from
    return {}


def _write_vocabulary(
    folder: str, text: str, config: BertConfig
) -> dict[str, int]:
    """Writes vocab.txt and returns its tokens, if they fit the model."""
    path = os.path.join(folder, "vocab.txt")
    files.write_text(path, text)
    vocab = vocabulary.load_vocab(path)
    check_vocabulary(vocab, "the vocabulary", config)
    return vocab


def _their_vocabulary(folder: str) -> str:
    """Reads the vocabulary of a folder of Hugging Face, a token a line."""
    path = os.path.join(folder, "vocab.txt")
    if files.exists(path):
        return _read_text(path)
    # Version 5 of transformers writes only this file.
    path = os.path.join(folder, "tokenizer.json")
    if not files.exists(path):
        raise FileNotFoundError(
            f"{folder}: neither vocab.txt nor tokenizer.json is there; give "
            "--vocab_file."
        )
    model = read_json(path).get("model", {})
    ids = model.get("vocab", {})
    if model.get("type") != "WordPiece" or sorted(ids.values()) != list(
        range(len(ids))
    ):
        raise ValueError(
            f"{path}: its model is {model.get('type')!r}; expected 'WordPiece' "
            "with ids from 0 without a gap. Give --vocab_file."
        )
    return "".join(f"{token}\n" for token in sorted(ids, key=ids.get))


def _their_case(folder: str) -> bool | None:
    """Reads do_lower_case of a folder of Hugging Face; None = not given."""
    path = os.path.join(folder, "tokenizer_config.json")
    return read_json(path).get("do_lower_case") if files.exists(path) else None


def _read_text(path: str) -> str:
    """Reads a UTF-8 file."""
    return "".join(f"{line}\n" for line in files.read_lines(path))
