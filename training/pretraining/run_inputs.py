"""The inputs of a pretraining run: records, vocabulary, queries."""

from collections.abc import Collection
from typing import NamedTuple

import tensorflow as tf

from data.pretraining import documents, queries
from data.pretraining.masking import Masker
from data.pretraining.options import (
    SPECIAL_TOKENS,
    PretrainingDataOptions,
    Wordpieces,
)
from data.records.input_pipeline import RecordFiles
from data.text import vocabulary
from data.text.tokenization import FullTokenizer
from modeling import objectives
from modeling.config import BertConfig
from training.config.pretraining_options import PretrainingOptions
from training.devices.strategy import check_batch_size
from training.pretraining import run_records
from training.start.source import Source
from training.start.tokenizer import check_vocabulary, load_tokenizer


class Inputs(NamedTuple):
    """The inputs of a run; None where they are not needed.

    Attributes:
      train_files: records to train on.
      eval_files: records to evaluate on.
      queries: the tokenizer and the queries of --predict_file.
      masker: masks the records while they are read.
      sep_id: id of [SEP], which ends a document, to tell documents apart.
    """

    train_files: RecordFiles | None
    eval_files: RecordFiles | None
    queries: tuple | None
    masker: Masker | None
    sep_id: int | None


def load(
    options: PretrainingOptions,
    config: BertConfig,
    strategy: tf.distribute.Strategy,
) -> Inputs:
    """Opens and checks all inputs of a run.

    The strategy's replicas divide the batches. Raises ValueError or OSError if
    an input is missing, damaged or does not fit.
    """
    train_files = eval_files = asked = masker = None
    if options.masking:
        masker = load_masker(
            options.vocab_file,
            config,
            options.bert_config_file,
            options.masking,
        )
    if options.do_train:
        train_files = _open_records(options.input_file, options, config)
    if options.do_eval or options.train.eval_every_steps:
        check_batch_size(
            "eval_batch_size",
            options.eval_batch_size,
            strategy.num_replicas_in_sync,
        )
        eval_files = _open_records(
            options.eval_file or options.input_file, options, config
        )
    if train_files and eval_files:
        run_records.check_same_kind(train_files, eval_files)
    sep_id = separator_id(options, config, train_files, eval_files)
    if options.do_predict:
        asked = load_queries(
            options.predict_file,
            options.vocab_file,
            config,
            options.bert_config_file,
            do_lower_case=options.do_lower_case,
            never_split=options.never_split,
            init_checkpoint=options.init_checkpoint,
            max_seq_length=options.max_seq_length,
        )
    return Inputs(train_files, eval_files, asked, masker, sep_id)


def _open_records(patterns, options, config):
    return run_records.open_records(
        patterns,
        config,
        max_seq_length=options.max_seq_length,
        max_predictions_per_seq=options.max_predictions_per_seq,
        objective=options.objective,
        vocab_file=options.vocab_file,
        needs_ids=options.needs_ids,
        skip_bad_records=options.skip_bad_records,
    )


def check_objective(options: PretrainingOptions) -> None:
    """Raises ValueError for a flag that the run's objective cannot follow."""
    objective = objectives.get(options.objective)
    if options.masking and not objective.reads_masks:
        raise ValueError(
            f"--masking=dynamic masks the records, but --objective="
            f"{options.objective} reads them without masks; leave --masking "
            "out."
        )
    if options.do_predict and not objective.answers_queries:
        raise ValueError(
            "--do_predict asks for masked words and pairs of sentences, which "
            f"--objective={options.objective} does not predict; leave one of "
            "them out."
        )


def load_masker(
    vocab_file: str,
    config: BertConfig,
    config_file: str,
    options: PretrainingDataOptions,
) -> Masker:
    """Creates the masker of examples that are masked while they are read.

    Raises ValueError if the vocabulary is not the model's.
    """
    vocab = vocabulary.load_vocab(vocab_file)
    check_vocabulary(vocab, vocab_file, config, config_file, SPECIAL_TOKENS)
    return Masker(Wordpieces.from_vocab(vocab), options)


def separator_id(
    options: PretrainingOptions,
    config: BertConfig,
    *opened: RecordFiles | None,
) -> int | None:
    """Returns the id of [SEP] for --separate_documents, or None without it.

    Raises ValueError if the vocabulary is not the model's, or the records
    (`opened`) do not pass `documents.check`.
    """
    if not options.separate_documents:
        return None
    path = options.vocab_file
    vocab = vocabulary.load_vocab(path)
    check_vocabulary(vocab, path, config, options.bert_config_file, ["[SEP]"])
    for records in dict.fromkeys(filter(None, opened)):
        documents.check(records, vocab["[SEP]"], path)
    return vocab["[SEP]"]


def token_ids(
    options: PretrainingOptions, config: BertConfig
) -> dict[str, list[int]]:
    """Returns the argument `token_ids` of an objective that takes it, or {}.

    Raises ValueError if the vocabulary is not the model's.
    """
    tokens = options.objectives.tokens(options.objective)
    if not tokens:
        return {}
    path = options.vocab_file
    vocab = vocabulary.load_vocab(path)
    check_vocabulary(vocab, path, config, options.bert_config_file, tokens)
    return {"token_ids": [vocab[token] for token in tokens]}


def load_queries(
    predict_file: str,
    vocab_file: str,
    config: BertConfig,
    config_file: str,
    *,
    do_lower_case: bool,
    never_split: Collection[str] = (),
    init_checkpoint: str | None,
    max_seq_length: int,
) -> tuple[FullTokenizer, list[queries.Query]]:
    """Reads the queries, and loads the tokenizer.

    `init_checkpoint` is read to compare its casing; None = it is not compared.
    `max_seq_length` is the most wordpieces in a query. Raises ValueError if the
    vocabulary is not the model's, or a query is malformed.
    """
    tokenizer = load_tokenizer(
        vocab_file,
        do_lower_case,
        config,
        config_file,
        source=Source(init_checkpoint),
        tokens=SPECIAL_TOKENS,
        never_split=never_split,
    )
    return tokenizer, queries.read_queries(
        predict_file, tokenizer, max_seq_length=max_seq_length
    )
