"""The configuration in the folder of a run: kept, and compared with a model."""

import dataclasses
import os

from absl import logging

from data.storage import files, manifests
from modeling.config import BertConfig, activation_name


def check_length(
    max_seq_length: int, config: BertConfig, bert_config_file: str
) -> None:
    """Raises ValueError if examples are longer than the model's positions."""
    most = config.max_position_embeddings
    if max_seq_length > most:
        raise ValueError(
            f"--max_seq_length={max_seq_length}, but the model of "
            f"{bert_config_file} has {most} positions; give {most} or less."
        )


def limits_of(config: BertConfig) -> dict[str, int]:
    """Returns input of a row -> number of its values, for `open_records`."""
    return {
        "input_ids": config.vocab_size,
        "segment_ids": config.type_vocab_size,
    }


def changes(before: BertConfig, now: BertConfig) -> list[str]:
    """Returns what differs between two models.

    Dropout may differ, and so may what a trained model does not use:
    `initializer_range`, `extra`, and whether the name of the activation has
    capitals.
    """
    names = ("hidden_dropout_prob", "attention_probs_dropout_prob")
    same = dict.fromkeys((*names, "initializer_range"), 0.0) | {"extra": {}}
    old, new = (
        dataclasses.replace(
            config, hidden_act=activation_name(config.hidden_act), **same
        ).to_dict()
        for config in (before, now)
    )
    return manifests.changes(old, new)


def check_same_model(folder: str, config: BertConfig) -> None:
    """Raises ValueError if a run would resume with another model.

    `changes` tells which ones differ. The number of heads, the activation and
    the direction change no variable's shape, so that a checkpoint would be
    loaded without an error. A folder without a configuration is accepted.
    """
    path = os.path.join(folder, "bert_config.json")
    if not files.exists(path):
        return
    if changed := changes(BertConfig.from_json_file(path), config):
        raise ValueError(
            f"{folder} holds a run of another model: {'; '.join(changed)}. "
            f"Give another --output_dir, or that --bert_config_file={path}."
        )


def warn_of_earlier(folder: str, step: int, flag: str, *names: str) -> None:
    """Warns of results that were written before the weights of a step."""
    for name in names:
        path = os.path.join(folder, name)
        if files.exists(path):
            logging.warning(
                "%s was written before step %d; %s writes it again.",
                *(path, step, flag),
            )
