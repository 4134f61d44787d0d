"""How every run begins and ends: first weights, configuration, results."""

import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from data.storage import files
from data.storage.json_files import read_json
from modeling import BertConfig
from modeling.checkpoints import huggingface
from training.config.finetuning_options import FinetuningOptions
from training.config.pretraining_options import PretrainingOptions
from training.devices.strategy import is_tpu, policy_of
from training.loop import events
from training.loop.checkpointing import CheckpointManager
from training.model_files.first_weights import (
    FirstWeights,
    compare_with_huggingface,
)


def encoder_options(
    options: PretrainingOptions | FinetuningOptions,
    strategy: tf.distribute.Strategy,
) -> dict[str, Any]:
    """Returns the arguments of `BertModel` that the options determine.

    Args:
      options: of the run.
      strategy: selects the form of the lookup.
    """
    return {
        "dtype": policy_of(options.device),
        "use_one_hot_embeddings": options.use_one_hot_embeddings
        or is_tpu(strategy),
        "gradient_checkpointing": options.train.gradient_checkpointing,
        "whole_last_layer": options.train.whole_last_layer,
    }


def check_length(
    max_seq_length: int, config: BertConfig, bert_config_file: str
) -> None:
    """Refuses examples that are longer than the model.

    Args:
      max_seq_length: wordpieces of an example.
      config: of the model.
      bert_config_file: where it comes from, for the error.

    Raises:
      ValueError: says the greatest length.
    """
    if max_seq_length > config.max_position_embeddings:
        raise ValueError(
            f"--max_seq_length={max_seq_length}, but the model of "
            f"{bert_config_file} has {config.max_position_embeddings} "
            "positions; pass "
            f"--max_seq_length={config.max_position_embeddings} or less."
        )


def check_vocabulary(
    vocab: Mapping[str, int], vocab_file: str, config: BertConfig
) -> None:
    """Refuses a vocabulary the model was not made for.

    Args:
      vocab: token -> id.
      vocab_file: where it comes from, for the error.
      config: of the model.

    Raises:
      ValueError: their sizes differ.
    """
    num_ids = 1 + max(i for token, i in vocab.items() if token)
    # A table may have a few rows more, for speed: a multiple of 8, 64, 128.
    padded = {-(-num_ids // m) * m for m in (1, 8, 64, 128)}
    if config.vocab_size not in padded:
        raise ValueError(
            f"{vocab_file} has {num_ids} wordpieces, but --bert_config_file "
            f"says vocab_size {config.vocab_size}; give the vocabulary the "
            "model was trained with."
        )


def check_case(
    vocab: Mapping[str, int],
    vocab_file: str,
    do_lower_case: bool,
    init_checkpoint: str | None = None,
) -> None:
    """Warns of a vocabulary, or a model of Hugging Face, of the other case.

    Args:
      vocab: token -> id.
      vocab_file: where it comes from, for the warning.
      do_lower_case: whether text is lower-cased.
      init_checkpoint: where the weights are from, or None.
    """
    if init_checkpoint:
        _compare_tokenizers(init_checkpoint, do_lower_case)
    # A released cased vocabulary has a sixth of capitals or more, an uncased
    # one none, the Chinese one two: `<S>` and `<T>`.
    capitals = [t for t in vocab if t != t.lower() and not t.startswith("[")]
    is_cased = len(capitals) > len(vocab) / 100
    if is_cased and do_lower_case:
        logging.warning(
            "%s has %d wordpieces with capitals, such as %s, but text is "
            "lower-cased; give --do_lower_case=false for a cased model.",
            vocab_file,
            len(capitals),
            capitals[0],
        )
    elif not capitals and not do_lower_case:
        logging.warning(
            "%s has no wordpiece with a capital: with --do_lower_case=false "
            "most words that have one become [UNK]; leave it out for an "
            "uncased model.",
            vocab_file,
        )


def _compare_tokenizers(init_checkpoint: str, do_lower_case: bool) -> None:
    """Warns of a folder of Hugging Face whose text was cut up otherwise."""
    path = os.path.join(init_checkpoint, "tokenizer_config.json")
    if not huggingface.is_folder(init_checkpoint) or not files.exists(path):
        return
    theirs = read_json(path, remedy="get the folder again")
    for key, ours, remedy in (
        ("do_lower_case", do_lower_case, "give --do_lower_case={}"),
        ("strip_accents", do_lower_case, "the flag --do_lower_case does both"),
        ("tokenize_chinese_chars", True, "this cannot be changed"),
    ):
        trained = theirs.get(key)
        if trained not in (None, ours):
            trained = str(trained).lower()
            logging.warning(
                "%s says %s: %s, but here it is %s: text becomes other "
                "wordpieces than those of the training; %s.",
                path,
                key,
                trained,
                str(ours).lower(),
                remedy.format(trained),
            )


def check_same_model(folder: str, config: BertConfig) -> None:
    """Refuses to go on with a run of another model, dropout left aside.

    Args:
      folder: of the run; without a configuration all is well.
      config: of the model now.

    Raises:
      ValueError: says what differs.
    """
    path = os.path.join(folder, "bert_config.json")
    if not tf.io.gfile.exists(path):
        return
    before = BertConfig.from_json_file(path).to_dict()
    now = config.to_dict()
    changed = [
        f"{key} {before.get(key)} -> {now.get(key)}"
        for key in sorted(before.keys() | now.keys())
        if before.get(key) != now.get(key) and "dropout" not in key
    ]
    if changed:
        raise ValueError(
            f"{folder} holds a run of another model: {'; '.join(changed)}. "
            f"Give another --output_dir, or --bert_config_file={path}."
        )


def keep_config(
    output_dir: str, config: BertConfig, manager: CheckpointManager
) -> None:
    """Writes the configuration beside the checkpoints, or compares it.

    Heads, activation and direction change no variable's shape: a run resumed
    with others would go on, wrongly.

    Args:
      output_dir: the run's folder.
      config: of its model.
      manager: of its checkpoints.

    Raises:
      ValueError: the folder holds a run of another model.
    """
    path = os.path.join(output_dir, "bert_config.json")
    if manager.steps():
        check_same_model(output_dir, config)
    files.write_text(path, config.to_json_string())


def load_first_weights(
    init_checkpoint: str | None,
    weights: Mapping[str, tf.Variable],
    manager: CheckpointManager,
    output_dir: str,
    config: BertConfig,
    heads: Collection[str] = (),
    labels: Sequence[str] = (),
) -> FirstWeights | None:
    """Loads init_checkpoint, unless the run has begun, and says what it did.

    Args:
      init_checkpoint: see `FirstWeights`, or None.
      weights: full name -> variable.
      manager: of the run's checkpoints.
      output_dir: its folder, for the log.
      config: of the model.
      heads: see `FirstWeights`.
      labels: see `FirstWeights`.

    Returns:
      What was loaded; None = nothing.

    Raises:
      FileNotFoundError, ValueError: see `FirstWeights`.
    """
    if not init_checkpoint:
        return None
    if manager.steps():
        logging.info(
            "--init_checkpoint is left aside: %s holds checkpoints.", output_dir
        )
        return None
    compare_with_huggingface(init_checkpoint, config)
    first = FirstWeights(init_checkpoint, weights, heads, labels)
    first.load()
    return first


def restore_trained(
    weights: Mapping[str, tf.Variable],
    manager: CheckpointManager,
    output_dir: str,
    init_checkpoint: str | None,
) -> int:
    """Loads the last checkpoint of output_dir, or keeps init_checkpoint.

    Args:
      weights: full name -> variable.
      manager: of the run's checkpoints.
      output_dir: its folder, for the error.
      init_checkpoint: what the weights hold now; None = nothing trained.

    Returns:
      Its step; 0 for init_checkpoint.

    Raises:
      ValueError: there is neither.
    """
    restored = manager.restore(weights)
    if restored:
        logging.info("Using %s.", manager.prefix(restored[0]))
        return restored[0]
    require_weights(output_dir, init_checkpoint)
    return 0


def require_weights(output_dir: str, init_checkpoint: str | None) -> None:
    """Refuses a run without training that has no weights.

    Args:
      output_dir: the run's folder, without checkpoints.
      init_checkpoint: the flag, or None.

    Raises:
      ValueError: there is no init_checkpoint either.
    """
    if not init_checkpoint:
        raise ValueError(
            f"{output_dir} holds no checkpoint; train first, "
            "or give --init_checkpoint."
        )


def write_eval_results(
    output_dir: str,
    metrics: Mapping[str, float],
    step: int,
    name: str = "eval",
) -> None:
    """Writes `NAME_results.txt` and a TensorBoard point; logs them.

    Args:
      output_dir: the run's folder.
      metrics: name -> value.
      step: of the checkpoint.
      name: of the evaluated data, and of the folder of its events.
    """
    results = {"global_step": step} | {
        key: np.float32(value) for key, value in metrics.items()
    }
    lines = [f"{key} = {results[key]}" for key in sorted(results)]
    events.write_scalars(os.path.join(output_dir, name), metrics, step)
    path = os.path.join(output_dir, f"{name}_results.txt")
    files.write_text(path, "\n".join(lines) + "\n")
    logging.info("***** Eval results *****\n  %s", "\n  ".join(lines))
