"""A run of pretraining: inputs, model, training, evaluation, predictions."""

import dataclasses
import functools
import itertools
import os

import keras
import tensorflow as tf
from absl import logging

from data.pretraining import documents
from data.pretraining.dynamic_masking import mask_batches
from data.records import input_pipeline, length_batches
from data.records.damage import naming_damage
from data.records.shard import WHOLE
from data.storage import files
from modeling import checkpoints, objectives
from modeling.choices import FIRST_WEIGHTS
from modeling.config import BertConfig
from training.config.pretraining_options import PretrainingOptions
from training.devices.strategy import (
    create_strategy,
    kind_of,
)
from training.inference import Evaluator
from training.loop import events
from training.loop.checkpointing import CheckpointManager
from training.loop.resuming import warn_of_changes
from training.loop.steps import trimming, with_fusion
from training.loop.trainer import Trainer
from training.pretraining import (
    answers,
    first_values,
    run_inputs,
    run_records,
)
from training.start import first_weights, found_files, setup
from training.start.tokenizer import keep_vocabulary

STRIPPED_NAME = "bert_model.ckpt"


def run(options: PretrainingOptions) -> None:
    """Trains, evaluates and predicts, after checking that all inputs fit.

    Raises:
      ValueError, OSError: an input is missing, damaged or does not fit; all
        inputs are checked before the first training step.
    """
    needed = ("bert_config_file", *options.needs_vocab)
    configure = objectives.get(options.objective).configure
    options = found_files.fill(options, needed, configure)
    config = _load_config(options)
    strategy = create_strategy(options.device)
    output_dir = options.train.output_dir
    manager = CheckpointManager(output_dir, options.train.keep_checkpoint_max)
    _check_strip(options, manager)
    inputs = run_inputs.load(options, config, strategy)
    _check_continued(options.train.continue_from, config)
    _keep_files(options, config, manager)
    with strategy.scope():
        model = _make_model(options, config, strategy)
        weights = checkpoints.variables_by_name(model.layers)
        first = _load_first(options, weights, manager, config)
        _assign_first_values(options, weights, manager, inputs, config)
        evaluator = Evaluator(model, _work(options, config))
        evaluate = functools.partial(
            _evaluate, options, model, evaluator, inputs
        )
        if options.do_train:
            _check_pair_head_before(options, model, manager, weights, inputs)
            step = _train(options, model, manager, inputs, evaluate)
        else:
            if first:
                _require_heads(options, first.untrained, inputs)
            _warn_of_changes(options, manager)
            step = setup.restore_trained(
                weights, manager, output_dir, options.init_checkpoint
            )
        if options.do_eval or (options.do_train and inputs.eval_files):
            evaluate(step)
        if options.do_predict:
            answers.predict(options, model, inputs.queries)
    if options.strip_checkpoint:
        _strip(options, manager.prefix(step))


def _check_strip(options, manager):
    """Refuses --strip_checkpoint if the run has and makes no checkpoint."""
    if options.strip_checkpoint and not options.do_train:
        if not manager.steps():
            raise ValueError(
                "--strip_checkpoint strips the checkpoint of a run, but "
                f"--output_dir={options.train.output_dir} holds none; give the "
                "--output_dir of a run, or train first (--do_train)."
            )


def _load_config(options):
    """Returns the configuration of the model, checked against the flags."""
    config = BertConfig.from_json_file(options.bert_config_file)
    setup.check_length(options.max_seq_length, config, options.bert_config_file)
    run_inputs.check_objective(options)
    return objectives.get(options.objective).configure(config)


def _keep_files(options, config, manager):
    """Copies configuration and vocabulary to the run's folder."""
    output_dir = options.train.output_dir
    setup.keep_config(output_dir, config, manager)
    if options.vocab_file:
        keep_vocabulary(
            output_dir, options.vocab_file, config, options.bert_config_file
        )


def _make_model(options, config, strategy):
    """A model with weights drawn from the run's seed."""
    keras.utils.set_random_seed(options.train.seed)
    if options.dropout_prob is not None:
        config = dataclasses.replace(
            config,
            hidden_dropout_prob=options.dropout_prob,
            attention_probs_dropout_prob=options.dropout_prob,
        )
    model = objectives.get(options.objective)
    encoder_options = setup.encoder_options(
        options.device,
        options.train,
        strategy,
        use_one_hot_embeddings=options.use_one_hot_embeddings,
    )
    own_options = options.objectives.arguments(options.objective)
    own_options |= run_inputs.token_ids(options, config)
    return model(config, **own_options, **encoder_options)


def _load_first(options, weights, manager, config):
    """Loads --init_checkpoint; None = there is nothing to load."""
    first = first_weights.open_first(
        options.init_checkpoint,
        weights,
        manager,
        options.train.output_dir,
        config,
    )
    if first:
        first.load(weights)
    return first


def _warn_of_changes(options, manager):
    """Warns if a run evaluates with other settings than it was trained with."""
    before = manager.made_from()
    if options.do_eval and before:
        now = run_records.made_from(options, None)
        records = {"records_sha256": before["records_sha256"]}
        warn_of_changes(options.train.output_dir, before, now | records)


def _check_pair_head_before(options, model, manager, weights, inputs):
    """Refuses pairs to predict if training would not train their head."""
    if (
        inputs.queries
        and not run_records.hold_pairs(inputs.train_files)
        and not options.train.continue_from
    ):
        manager.restore(weights)
        answers.require_pair_head(model, inputs.queries)


def _require_heads(options, untrained, inputs):
    """Refuses to evaluate or predict with the random weights of a head."""
    asked = {}
    of_head = objectives.get(options.objective).head_variables
    if options.do_eval:
        has_pairs = run_records.hold_pairs(inputs.eval_files)
        asked["--do_eval"] = [
            head for head in of_head if has_pairs or head != "next sentence"
        ]
    if options.do_predict:
        _, lines = inputs.queries
        is_asked = (
            any(query.masked_positions for query in lines),
            any(query.is_pair for query in lines),
        )
        asked["--do_predict"] = list(itertools.compress(of_head, is_asked))
    for flag, heads in asked.items():
        found = {
            head: [n for n in sorted(untrained) if n.startswith(of_head[head])]
            for head in heads
        }
        lacking = [head for head in heads if found[head]]
        # Differs from the original: it answers with random weights.
        if lacking:
            raise ValueError(
                f"{flag} needs the {' and '.join(lacking)}, but "
                f"--init_checkpoint={options.init_checkpoint} has no "
                f"{', '.join(name for head in lacking for name in found[head])}"
                "; give a checkpoint that has these weights, or train first "
                "(--do_train)."
            )


def _check_continued(folder, config):
    """Refuses a --continue_from that is missing or holds another model."""
    if not folder:
        return
    if not tf.io.gfile.isdir(folder):
        raise FileNotFoundError(
            f"--continue_from={folder} is not there; it must be the "
            "--output_dir of another run."
        )
    setup.check_same_model(folder, config)


def _assign_first_values(options, weights, manager, inputs, config):
    """Gives a run that begins the values of --first_weights."""
    train, is_random = options.train, options.first_weights == FIRST_WEIGHTS[0]
    if is_random or not options.do_train or manager.steps():
        return
    batches = _training_batches(options, inputs, 0, WHOLE)
    # At most one pass: repeated, rare wordpieces would look rarer.
    number = min(first_values.NUM_EXAMPLES, inputs.train_files.count)
    with naming_damage(inputs.train_files.segments, inputs.train_files.specs):
        first_values.assign(
            options.first_weights,
            weights,
            config,
            batches.take(-(-number // train.train_batch_size)),
            train.seed,
        )


def _training_batches(options, inputs, first_example, shard, arrange=None):
    """A shard's rows of the batches after some examples, masked."""
    place = {
        "batch_size": options.train.train_batch_size,
        "seed": options.train.seed,
        "first_example": first_example,
        "shard": shard,
    }
    batches = input_pipeline.training_batches(
        inputs.train_files, arrange=arrange, **place
    )
    return _prepared(batches, inputs, **place)


def _prepared(batches, inputs, **place):
    """Adds to batches of records what is not in the files."""
    if inputs.masker:
        batches = mask_batches(batches, inputs.masker, **place)
    if inputs.sep_id is not None:
        batches = documents.number_documents(batches, inputs.sep_id)
    return batches


def _train(options, model, manager, inputs, evaluate):
    """Trains to the end; returns the last step."""
    train, train_files = options.train, inputs.train_files
    if train.num_train_minutes:
        logging.info("Training for %g minutes.", train.num_train_minutes)
    else:
        logging.info(
            "Training to step %d, %d examples each: %.2f passes over the "
            "input from step 0.",
            train.last_step,
            train.train_batch_size,
            train.last_step * train.train_batch_size / train_files.count,
        )

    longest, num_lengths = options.max_seq_length, 1
    if options.group_by_length:
        multiple = kind_of(tf.distribute.get_strategy()).multiple
        num_lengths = len(length_batches.trimmed_lengths(longest, multiple))
    train = with_fusion(
        train, model.config, seq_length=longest, num_lengths=num_lengths
    )

    def make_batches(*place):
        if not options.group_by_length:
            return _training_batches(options, inputs, *place)
        arrange = length_batches.grouping(train.seed)
        batches = _training_batches(options, inputs, *place, arrange)
        return length_batches.trimmed(batches, **trimming(train))

    with naming_damage(train_files.segments, train_files.specs):
        return Trainer(model, train).train(
            make_batches,
            manager,
            num_examples=train_files.count,
            made_from=run_records.made_from(options, train_files),
            evaluate=evaluate,
        )


def _evaluate(options, model, evaluator, inputs, step):
    """Evaluates; writes eval_results.txt and a TensorBoard point."""
    batch_size, eval_files = options.eval_batch_size, inputs.eval_files

    def make_batches(shard):
        batches = input_pipeline.evaluation_batches(
            eval_files, batch_size=batch_size, shard=shard
        )
        # All evaluations use the same masks, so that they can be compared.
        place = {"seed": options.train.seed, "shard": shard}
        return _prepared(batches, inputs, batch_size=batch_size, **place)

    with naming_damage(eval_files.segments, eval_files.specs):
        metrics = evaluator.evaluate(
            make_batches, num_steps=options.max_eval_steps
        )
    metrics |= model.further_results(metrics)
    events.write_eval_results(options.train.output_dir, metrics, step)


def _work(options, config):
    """The work of an evaluation, see `inference_form`."""
    wordpieces = options.eval_batch_size * options.max_seq_length
    size = config.num_hidden_layers * config.hidden_size
    return options.max_eval_steps * wordpieces * size


def _strip(options, source):
    """Writes a checkpoint without slots, as released, and logs its size."""
    target = os.path.join(options.train.output_dir, STRIPPED_NAME)
    kept = checkpoints.strip(source, target)
    data = ".data-00000-of-00001"
    logging.info(
        "%s: %d weights without optimizer slots, %.1f MB (%s has %.1f MB).",
        target,
        kept,
        files.size(target + data) / 1e6,
        source,
        files.size(source + data) / 1e6,
    )
