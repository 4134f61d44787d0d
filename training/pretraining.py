"""Pretraining put together: records, model, loop, evaluation, queries."""

import itertools
import os

import keras
import tensorflow as tf
from absl import logging

from data.pretraining import queries as query_lines
from data.pretraining.dynamic_masking import mask_batches
from data.records import input_pipeline
from data.records.damage import naming_damage
from data.storage import files
from modeling import BertConfig, checkpoints, objectives
from training import pretraining_input
from training.config.pretraining_options import PretrainingOptions
from training.devices.strategy import (
    check_batch_size,
    create_strategy,
)
from training.loop import evaluator as evaluation
from training.loop import trainer as loop
from training.loop.checkpointing import CheckpointManager
from training.loop.steps import with_fusion
from training.model_files import setup

STRIPPED_NAME = "bert_model.ckpt"
_OBJECTIVE = "pretraining"  # see modeling/objectives
# The variables that each kind of answer is computed with, beside the encoder.
_HEADS = {
    "masked LM": ("cls/predictions/",),
    "next sentence": ("cls/seq_relationship/", "bert/pooler/"),
}


def run(options: PretrainingOptions) -> None:
    """Trains, evaluates and predicts, after checking that all inputs fit.

    Args:
      options: what to do.

    Raises:
      ValueError, OSError: an input is missing, damaged or does not fit; all
        of them are checked before the first training step.
    """
    config = BertConfig.from_json_file(options.bert_config_file)
    setup.check_length(options.max_seq_length, config, options.bert_config_file)
    strategy = create_strategy(options.device)
    manager = CheckpointManager(
        options.train.output_dir, options.train.keep_checkpoint_max
    )
    train_files = eval_files = queries = masker = None
    if options.masking:
        masker = pretraining_input.load_masker(
            options.vocab_file, config, options.masking
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
        pretraining_input.check_same_kind(train_files, eval_files)
    if options.do_predict:
        queries = pretraining_input.load_queries(
            options.predict_file,
            options.vocab_file,
            config,
            do_lower_case=options.do_lower_case,
            init_checkpoint=options.init_checkpoint,
            max_seq_length=options.max_seq_length,
        )
    _check_continued(options.train.continue_from, config)
    setup.keep_config(options.train.output_dir, config, manager)
    # Initial weights come from the seed too.
    keras.utils.set_random_seed(options.train.seed)
    with strategy.scope():
        model = objectives.get(_OBJECTIVE)(
            config, **setup.encoder_options(options, strategy)
        )
        weights = checkpoints.variables_by_name(model.layers)
        first = setup.load_first_weights(
            options.init_checkpoint,
            weights,
            manager,
            options.train.output_dir,
            config,
        )
        if (
            queries
            and train_files
            and not pretraining_input.hold_pairs(train_files)
            and not options.train.continue_from
        ):
            # Training will not change the next-sentence head.
            manager.restore(weights)
            _require_pair_head(model, queries)
        evaluator = evaluation.Evaluator(model)
        if options.do_train:
            step = _train(
                options,
                model,
                manager,
                train_files,
                masker,
                lambda step: _evaluate(
                    options, evaluator, eval_files, masker, step
                ),
            )
        else:
            if first:
                _require_heads(options, first.untrained, eval_files, queries)
            step = setup.restore_trained(
                weights,
                manager,
                options.train.output_dir,
                # Only a checkpoint of a run has slots to strip.
                None if options.strip_checkpoint else options.init_checkpoint,
            )
        if options.do_eval or (options.do_train and eval_files):
            _evaluate(options, evaluator, eval_files, masker, step)
        if options.do_predict:
            _require_pair_head(model, queries)
            _predict(options, model, queries)
    if options.strip_checkpoint:
        _strip(options, manager.prefix(step))


def _require_heads(options, untrained, eval_files, queries):
    """Refuses to evaluate or answer with the random weights of a head."""
    asked = {}
    if options.do_eval:
        has_pairs = pretraining_input.hold_pairs(eval_files)
        asked["--do_eval"] = [*_HEADS] if has_pairs else ["masked LM"]
    if options.do_predict:
        _, lines = queries
        is_asked = (
            any(query.masked_positions for query in lines),
            any(query.is_pair for query in lines),
        )
        asked["--do_predict"] = list(itertools.compress(_HEADS, is_asked))
    for flag, heads in asked.items():
        found = {
            head: [n for n in sorted(untrained) if n.startswith(_HEADS[head])]
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
    """Refuses to continue what is not there, or another model."""
    if not folder:
        return
    if not tf.io.gfile.isdir(folder):
        raise FileNotFoundError(
            f"--continue_from={folder} is not there; it must be the "
            "--output_dir of another run."
        )
    setup.check_same_model(folder, config)


def _open_records(patterns, options, config):
    return pretraining_input.open_records(
        patterns,
        config,
        max_seq_length=options.max_seq_length,
        max_predictions_per_seq=options.max_predictions_per_seq,
        vocab_file=options.vocab_file if options.masking else None,
        skip_bad_records=options.skip_bad_records,
    )


def _train(options, model, manager, train_files, masker, evaluate):
    train = options.train
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

    def make_batches(first_example, shard):
        place = {
            "batch_size": options.train.train_batch_size,
            "seed": options.train.seed,
            "first_example": first_example,
            "shard": shard,
        }
        batches = input_pipeline.training_batches(train_files, **place)
        return mask_batches(batches, masker, **place) if masker else batches

    trainer = loop.Trainer(
        model,
        with_fusion(train, model.config, seq_length=options.max_seq_length),
    )
    with naming_damage(train_files.segments, train_files.specs):
        return trainer.train(
            make_batches,
            manager,
            num_examples=train_files.count,
            evaluate=evaluate,
        )


def _evaluate(options, evaluator, eval_files, masker, step):
    """Evaluates; writes eval_results.txt and a TensorBoard point."""
    batch_size = options.eval_batch_size

    def make_batches(shard):
        batches = input_pipeline.evaluation_batches(
            eval_files, batch_size=batch_size, shard=shard
        )
        if not masker:
            return batches
        # The same masks in every evaluation: results can be compared.
        return mask_batches(
            batches,
            masker,
            batch_size=batch_size,
            seed=options.train.seed,
            shard=shard,
        )

    with naming_damage(eval_files.segments, eval_files.specs):
        metrics = evaluator.evaluate(
            make_batches, num_steps=options.max_eval_steps
        )
    setup.write_eval_results(options.train.output_dir, metrics, step)


def _require_pair_head(model, tokenizer_and_queries):
    """Refuses pairs if the next-sentence head is as it was initialised."""
    _, queries = tokenizer_and_queries
    pair = next((query for query in queries if query.is_pair), None)
    bias = model.cls.seq_relationship.output_bias
    # A bias starts at exactly 0, and the first update moves it.
    if pair and not bias.value.numpy().any():
        raise ValueError(
            f"--predict_file asks about a pair ({pair.text!r}), but the "
            "next-sentence head is untrained (cls/seq_relationship/output_bias "
            "is 0), as after training on records of "
            "--next_sentence_prediction=false. Remove the pairs from "
            "--predict_file, or give a checkpoint that was trained on pairs."
        )


def _predict(options, model, tokenizer_and_queries):
    """Answers the queries; writes predict_results.jsonl and prints them."""
    tokenizer, queries = tokenizer_and_queries
    max_predictions = max(1, *(len(q.masked_positions) for q in queries))
    strategy = tf.distribute.get_strategy()

    @tf.function
    def run(batch):
        # Every device answers them all: few, and of a number that divides by
        # nothing.
        return strategy.run(_probabilities, args=(model, batch))

    answers = []
    for start in range(0, len(queries), options.eval_batch_size):
        some = queries[start : start + options.eval_batch_size]
        batch = query_lines.query_batch(
            some,
            tokenizer,
            max_seq_length=options.max_seq_length,
            max_predictions=max_predictions,
        )
        scores = (
            strategy.experimental_local_results(score)[0].numpy()
            for score in run(
                {name: tf.constant(value) for name, value in batch.items()}
            )
        )
        for query, masked_lm, next_sentence in zip(some, *scores, strict=True):
            answers.append(
                query_lines.answer(
                    query,
                    masked_lm,
                    next_sentence,
                    tokenizer.inv_vocab,
                    options.predict_top_k,
                )
            )
    lines = query_lines.to_json_lines(answers)
    path = os.path.join(options.train.output_dir, "predict_results.jsonl")
    files.write_text(path, lines)
    print(lines, end="")
    logging.info("%d answers written to %s.", len(answers), path)


def _probabilities(model, batch):
    """Of each word at each masked place [B, P, V], and of the pair [B, 2]."""
    masked_lm, next_sentence = model.logits(batch)
    shape = [-1, batch["masked_lm_positions"].shape[1], model.config.vocab_size]
    return (
        tf.reshape(tf.nn.softmax(masked_lm), shape),
        tf.nn.softmax(next_sentence),
    )


def _strip(options, source):
    """Writes the released form of a checkpoint, and says its size."""
    target = os.path.join(options.train.output_dir, STRIPPED_NAME)
    kept = checkpoints.strip(source, target)
    data = ".data-00000-of-00001"
    logging.info(
        "%s: %d weights without optimizer slots, %.1f MB (%s has %.1f MB).",
        target,
        kept,
        tf.io.gfile.stat(target + data).length / 1e6,
        source,
        tf.io.gfile.stat(source + data).length / 1e6,
    )
