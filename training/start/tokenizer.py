"""The tokenizer of a run, checked against its model and its flags."""

import dataclasses
import os
from collections.abc import Collection, Mapping
from typing import Any

from absl import logging

from data.settings import Settings
from data.storage import files
from data.storage.json_files import write_json
from data.text import tokenization, tokenizer_files, vocabulary
from modeling.checkpoints.model_folder import VOCABULARIES
from modeling.config import BertConfig
from training.config.pretraining_options import PretrainingOptions
from training.start.source import Source


def load_tokenizer(
    options: Settings,
    config: BertConfig,
    source: Source,
    tokens: Collection[str] = ("[UNK]", "[CLS]", "[SEP]"),
) -> tokenization.FullTokenizer:
    """Reads the vocabulary of a program and checks that it fits the model.

    It must have `tokens`. A warning is logged if it was made for the other
    case. Raises FileNotFoundError if it is missing; ValueError if the name of
    the checkpoint says the other case, or it is not the model's.
    """
    path, lower = options.vocab_file, options.do_lower_case
    weights = source.folder.weights if source.folder else source.path
    tokenization.validate_case_matches_checkpoint(lower, weights)
    tokenizer = tokenization.FullTokenizer(path, lower, options.never_split)
    vocab, config_file = tokenizer.vocab, options.find("bert_config_file")
    vocabulary.require_tokens(vocab, tokens, path)
    vocabulary.require_size(vocab, path, config.vocab_size, config_file)
    vocabulary.warn_of_case(vocab, path, lower)
    return tokenizer


def keep_vocabulary(
    options: PretrainingOptions, config: BertConfig, said: Mapping[str, Any]
) -> None:
    """Copies the vocabulary to a run's folder, if it is the model's.

    So are the tokenizer's settings: those in `said`, else those beside it. A
    run that does not read the vocabulary continues without it, with a warning.
    """
    output_dir, vocab_file = options.train.output_dir, options.vocab_file
    try:
        folder = os.path.dirname(vocab_file)
        tokens = vocabulary.read_tokens(vocab_file)
        vocab = {token.strip(): i for i, token in enumerate(tokens)}
        size, config_file = config.vocab_size, options.bert_config_file
        vocabulary.require_size(vocab, vocab_file, size, config_file)
        settings = tokenizer_files.read_settings(folder)
        names = {x.name for x in dataclasses.fields(settings)} & said.keys()
        settings = dataclasses.replace(settings, **{n: said[n] for n in names})
    except (ValueError, FileNotFoundError) as error:
        logging.warning("No vocabulary is kept in %s: %s", output_dir, error)
        return
    kept = os.path.join(output_dir, VOCABULARIES[0])
    path = os.path.join(output_dir, tokenizer_files.CONFIG)
    if vocab_file.endswith(".txt") and not vocabulary.added_tokens(folder):
        files.copy(vocab_file, kept)  # records know the checksum of the file
    else:
        vocabulary.write_vocab(kept, tokens)
    if settings.do_lower_case is not None:
        write_json(path, settings.to_dict())
    elif files.exists(path):
        files.remove(path)  # of a run that was stopped before a checkpoint
