"""A run of run_pretraining.py."""

import dataclasses
import functools
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import tensorflow as tf
from absl import logging

from data.pretraining.data_options import SPECIAL_TOKENS
from data.pretraining.queries import Query, read_queries
from data.records import length_batches
from data.records.damage import naming_damage
from data.records.input_pipeline import RecordFiles
from data.storage import files, manifests
from data.text import vocabulary
from data.text.tokenization import FullTokenizer
from modeling import checkpoints, objectives
from modeling.choices import FIRST_WEIGHTS
from modeling.config import BertConfig
from modeling.objectives.base import PretrainingObjective
from training.config.pretraining_options import PretrainingOptions
from training.devices.strategy import check_batch_size, create_strategy
from training.inference import Evaluator
from training.loop import events
from training.loop.checkpointing import CheckpointManager
from training.loop.steps import trimming, with_fusion
from training.loop.trainer import Trainer
from training.pretraining import answers, first_values, run_records, text_size
from training.pretraining.batches import Records
from training.start import description, found_files, setup
from training.start.source import Source
from training.start.start import Start, check_outputs
from training.start.tokenizer import keep_vocabulary, load_tokenizer

STRIPPED_NAME = "bert_model.ckpt"
_DATA = ".data-00000-of-00001"


class Opened(NamedTuple):
    """A run whose files are read and checked; nothing is written yet.

    Attributes:
      options: the run's options, completed by `found_files`.
      start: configuration, folder and first weights.
      strategy: distribution over the devices.
      vocab: token -> id; {} = the run does not need it.
      tokenizer: tokenizes the queries; None = there are none.
      queries: the queries in --predict_file.
    """

    options: PretrainingOptions
    start: Start
    strategy: tf.distribute.Strategy
    vocab: dict[str, int]
    tokenizer: FullTokenizer | None
    queries: list[Query]


def run(options: PretrainingOptions) -> None:
    """Trains, evaluates and predicts, after checking that all inputs fit.

    Raises:
      ValueError, OSError: an input is missing, damaged or does not fit; all
        inputs are checked before the first training step.
    """
    opened = open_run(options)
    before = opened.start.manager.latest_step() or 0
    records = open_records(opened)
    with opened.strategy.scope():
        model = make_model(opened, records)
        step = train_and_score(opened, records, model)
        if options.do_predict:
            answer(opened, model)
    if options.strip_checkpoint:
        strip(opened, step)
    folder, origin = options.train.output_dir, opened.start.origin.values()
    if step != before:
        if not options.strip_checkpoint and STRIPPED_NAME not in origin:
            name = f"{STRIPPED_NAME}.index"
            setup.warn_of_earlier(folder, step, "--strip_checkpoint", name)
        if not options.do_predict:
            name = answers.RESULTS
            setup.warn_of_earlier(folder, step, "--do_predict", name)


def open_run(options: PretrainingOptions) -> Opened:
    """Finds, reads and checks what the run begins with, but for records.

    Raises:
      ValueError, OSError: an input is missing or does not fit.
    """
    objective = objectives.get(options.objective)
    needed = ("bert_config_file", *options.needs_vocab)
    options, source, _ = found_files.fill(
        options, needed, objective.configure, kinds=["pretraining"]
    )
    _check_objective(options, objective)
    given = text_size.with_vocab_size(
        options, source.read_config(options.bert_config_file), source
    )
    config = objective.configure(given)
    vocab, tokenizer = _read_vocabulary(options, config, source)
    arguments = options.objectives.arguments(options.objective)
    tokens = options.objectives.tokens(options.objective)
    if tokens:
        arguments["token_ids"] = [vocab[token] for token in tokens]
    if options.do_predict:
        asked = {"predict_file": options.predict_file}
        check_outputs(options.train.output_dir, asked, [answers.RESULTS])
    strategy = create_strategy(options.device)
    start = Start(
        options,
        config,
        source,
        functools.partial(_model_of, options, arguments),
        # --strip_checkpoint without a checkpoint is refused below.
        trains=options.do_train or options.strip_checkpoint,
        heads=(),
    )
    _check_folders(options, start, changes_config=config != given)
    queries = []
    if tokenizer:
        path, longest = options.predict_file, options.max_seq_length
        queries = read_queries(path, tokenizer, max_seq_length=longest)
    return Opened(options, start, strategy, vocab, tokenizer, queries)


def _check_objective(
    options: PretrainingOptions, objective: type[PretrainingObjective]
) -> None:
    """Refuses a flag that the objective cannot follow, and another objective.

    That is another one than the run's in output_dir.
    """
    flag = f"--objective={options.objective}"
    if options.masking and not objective.reads_masks:
        raise ValueError(
            f"--masking=dynamic masks the records, but {flag} reads them "
            "without masks; leave --masking out."
        )
    if options.do_predict and not objective.answers_queries:
        raise ValueError(
            "--do_predict asks for masked words and pairs of sentences, which "
            f"{flag} does not predict; leave --do_predict out."
        )
    run_records.require_same_objective(options)


def _read_vocabulary(
    options: PretrainingOptions, config: BertConfig, source: Source
) -> tuple[dict[str, int], FullTokenizer | None]:
    """Reads the vocabulary if it is needed, and refuses another model's."""
    tokens = [*options.objectives.tokens(options.objective)]
    tokens += ["[SEP]"] * options.separate_documents
    if options.masking or options.do_predict:
        tokens += SPECIAL_TOKENS
    if options.do_predict:
        tokenizer = load_tokenizer(options, config, source, tokens)
        return tokenizer.vocab, tokenizer
    if not tokens:
        return {}, None
    path, config_file = options.vocab_file, options.bert_config_file
    vocab = vocabulary.load_vocab(path)
    vocabulary.require_tokens(vocab, tokens, path)
    vocabulary.require_size(vocab, path, config.vocab_size, config_file)
    return vocab, None


def _model_of(
    options: PretrainingOptions,
    arguments: Mapping[str, Any],
    config: BertConfig,
    **more: Any,
) -> PretrainingObjective:
    """Makes a model with the dropout of the run."""
    if options.dropout_prob is not None:
        names = ("hidden_dropout_prob", "attention_probs_dropout_prob")
        changed = dict.fromkeys(names, options.dropout_prob)
        config = dataclasses.replace(config, **changed)
    return objectives.get(options.objective)(config, **arguments, **more)


def _check_folders(
    options: PretrainingOptions, start: Start, changes_config: bool
) -> None:
    """Refuses folders without a run, or with a run of another model."""
    if changes_config and start.manager.steps():
        setup.check_same_model(options.train.output_dir, start.config)
    strips = options.strip_checkpoint and not options.do_train
    if strips and not start.manager.steps():
        raise ValueError(
            "--strip_checkpoint strips the checkpoint of a run, but "
            f"--output_dir={options.train.output_dir} holds none; give the "
            "--output_dir of a run, or train first (--do_train)."
        )
    if options.train.continue_from:
        setup.check_same_model(options.train.continue_from, start.config)


def _vocabularies(options: PretrainingOptions) -> dict[str, str]:
    """Checksum of a vocabulary -> the flag that has it, see `run_records`."""
    known, given = {}, options.vocab_file
    if given:
        known[files.sha256(given)] = f"--vocab_file={given}"
    for flag in ("output_dir", "continue_from"):
        folder = options.find(flag)
        # Its own copy may have other bytes.
        if folder and folder.rstrip("/") != os.path.dirname(given or ""):
            manager = CheckpointManager(folder)
            checksum = manager.made_from().get("vocab_sha256")
            known.setdefault(checksum, f"--{flag}={folder}")
    known.pop(None, None)
    run_records.require_one_vocabulary(known)
    return known


def open_records(opened: Opened) -> Records:
    """Opens and checks the records that the run trains on and is scored by."""
    options, config, vocab = opened.options, opened.start.config, opened.vocab
    train = dev = None
    of_model = options, config, vocab, _vocabularies(options)
    if options.do_train:
        train = run_records.open_records(options.input_file, *of_model)
    if options.do_eval or options.do_train and options.train.eval_every_steps:
        count = opened.strategy.num_replicas_in_sync
        check_batch_size("eval_batch_size", options.eval_batch_size, count)
        dev = train
        if options.eval_file or not train:
            patterns = options.eval_file or options.input_file
            dev = run_records.open_records(patterns, *of_model)
    if train:
        text_size.log_size(options, train.count)
    if train and dev:
        run_records.compare(train, dev)
    if opened.start.first and not options.do_train:
        untrained = opened.start.first.untrained
        has_pairs = dev and run_records.hold_pairs(dev)
        answers.require_heads(options, untrained, has_pairs, opened.queries)
    return Records(options, vocab, train, dev)


def make_model(opened: Opened, records: Records) -> PretrainingObjective:
    """Makes the model with its first weights, and keeps its files."""
    options, start = opened.options, opened.start
    start.keep()
    if options.vocab_file:
        before, given = options.train.continue_from, options.given or ()
        if start.manager.steps():
            before = options.train.output_dir
        said = dict(Source(before).tokenizer_flags)
        if records.train:
            names = {"do_lower_case", "never_split"}.intersection(given)
            said |= {name: options.find(name) for name in names}
            said |= run_records.of_manifest(records.train)
        keep_vocabulary(options, start.config, said)
    model = start.load(opened.strategy)
    begins = options.do_train and not start.manager.steps()
    if begins:
        description.forget_other_model(options.train.output_dir)
    if begins and options.first_weights != FIRST_WEIGHTS[0]:
        _assign_first_values(opened, records, model)
    return model


def _assign_first_values(
    opened: Opened, records: Records, model: PretrainingObjective
) -> None:
    """Gives the model the values of --first_weights."""
    options = opened.options
    # At most one pass: repeated, rare wordpieces would look rarer.
    number = min(first_values.NUM_EXAMPLES, records.train.count)
    batches = records.training_batches()
    with naming_damage(records.train.segments, records.train.specs):
        first_values.assign(
            options.first_weights,
            checkpoints.variables_by_name(model.layers),
            opened.start.config,
            batches.take(-(-number // options.train.train_batch_size)),
            options.train.seed,
        )


def train_and_score(
    opened: Opened, records: Records, model: PretrainingObjective
) -> int:
    """Trains and evaluates as asked; returns the step of the weights."""
    options, start = opened.options, opened.start
    weights = checkpoints.variables_by_name(model.layers)
    wordpieces = options.eval_batch_size * options.max_seq_length
    size = model.config.num_hidden_layers * model.config.hidden_size
    evaluator = Evaluator(model, options.max_eval_steps * wordpieces * size)

    def evaluate(step: int) -> None:
        with naming_damage(records.dev.segments, records.dev.specs):
            metrics = evaluator.evaluate(
                records.evaluation_batches, num_steps=options.max_eval_steps
            )
        metrics |= model.further_results(metrics)
        events.write_eval_results(options.train.output_dir, metrics, step)

    if not options.do_train:
        _warn_of_changes(opened, records.dev)
        step = start.restore(weights)
    else:
        learns_pairs = run_records.hold_pairs(records.train)
        if not (learns_pairs or options.train.continue_from):
            start.manager.restore(weights)
            answers.require_pair_head(model, opened.queries)
        step = _train(opened, records, model, evaluate)
    if records.dev:
        evaluate(step)
    return step


def _train(
    opened: Opened, records: Records, model: PretrainingObjective, evaluate
) -> int:
    """Trains to the end; returns the last step."""
    options, train = opened.options, opened.options.train
    settings = train.shaping | {"dropout_prob": options.dropout_prob}
    settings |= opened.start.origin
    if train.num_train_minutes:
        logging.info("Training for %g minutes.", train.num_train_minutes)
    else:
        logging.info(
            "Training to step %d, %d examples each: %.2f passes over the "
            "input from step 0.",
            *(train.last_step, train.train_batch_size),
            train.last_step * train.train_batch_size / records.train.count,
        )
    length, trims = options.max_seq_length, options.group_by_length
    train = with_fusion(train, model.config, seq_length=length, trims=trims)

    def make_batches(short, *place):
        if not trims:
            return records.training_batches(*place, short=short)
        arrange = length_batches.grouping(train.seed)
        batches = records.training_batches(*place, arrange, short=short)
        return length_batches.trimmed(batches, **trimming(train))

    with naming_damage(records.train.segments, records.train.specs):
        for share, short in options.phases:
            size = train.train_batch_size * (1 + short)
            sized = train.replace(train_batch_size=size)
            step = Trainer(model, sized, evaluate).train(
                functools.partial(make_batches, short),
                num_examples=records.train.count,
                made_from=run_records.made_from(options, records.train),
                settings=settings,
                share=share,
            )
    return step


def _warn_of_changes(opened: Opened, dev: RecordFiles | None) -> None:
    """Warns of an evaluation on the trained text, or with other settings."""
    before = opened.start.manager.made_from()
    now = run_records.made_from(opened.options, dev)
    now.pop("short_rows_share", None)  # no row is short in an evaluation
    now.pop("vocab_sha256", None)
    if before and now.pop("records_sha256", "") == before.get("records_sha256"):
        run_records.warn_of_trained_text()
    changed = manifests.changes({n: before.get(n) for n in now}, now)
    if opened.options.do_eval and before and changed:
        logging.warning(
            "%s was trained with other settings than this evaluation: %s. Give "
            "the flags of its training to evaluate it alike.",
            *(opened.options.train.output_dir, "; ".join(changed)),
        )


def answer(opened: Opened, model: PretrainingObjective) -> None:
    """Answers --predict_file; writes and prints predict_results.jsonl."""
    asked = opened.tokenizer, opened.queries
    answers.Answers(opened.options, model, *asked).write()


def strip(opened: Opened, step: int) -> None:
    """Writes a checkpoint without slots, as released."""
    source = opened.start.manager.prefix(step)
    target = os.path.join(opened.options.train.output_dir, STRIPPED_NAME)
    kept = checkpoints.Checkpoint(source).weights()
    checkpoints.write(target, kept)
    size, whole = (files.size(x + _DATA) / 1e6 for x in (target, source))
    logging.info(
        "%s: %d weights without optimizer slots, %.1f MB (%s has %.1f MB).",
        *(target, len(kept), size, source, whole),
    )
