"""A run of run_pretraining.py."""

import dataclasses
import functools
import os
from collections.abc import Callable, Mapping
from typing import Any

from absl import logging

from data.pretraining.data_options import SPECIAL_TOKENS
from data.pretraining.queries import read_queries
from data.records import length_batches
from data.records.damage import naming_damage
from data.storage import files, manifests
from data.storage.json_files import write_json
from data.text import tokenizer_files, vocabulary
from modeling import checkpoints, objectives
from modeling.choices import FIRST_WEIGHTS
from modeling.config import BertConfig
from modeling.objectives.base import PretrainingObjective
from training.config.pretraining_options import PretrainingOptions
from training.devices import strategy as devices
from training.inference import Evaluator
from training.loop import events
from training.loop.checkpointing import DATA, CheckpointManager
from training.loop.steps import trimming, with_fusion
from training.loop.trainer import Trainer
from training.pretraining import answers, first_values, run_records, text_size
from training.pretraining.batches import Records
from training.start import description, setup
from training.start.found_files import fill, load_tokenizer
from training.start.source import Source
from training.start.start import NOT_USED, Start, check_outputs

STRIPPED_NAME = "bert_model.ckpt"


def run(options: PretrainingOptions) -> None:
    """Trains, evaluates and predicts, after checking that all inputs fit.

    Raises:
      ValueError, OSError: an input is missing, damaged or does not fit; all
        inputs are checked before the first training step.
    """
    Run(options).finish()


class Run:
    """A run whose files are read and checked, see `run`, but no records."""

    def __init__(self, options: PretrainingOptions):
        self._objective = objective = objectives.get(options.objective)
        self._options = options
        self._check_objective()
        options, source, described = fill(
            *(options, options.needed_files, objective.configure),
            kinds=["pretraining"],
        )
        # Queries are read as the text of the records was.
        said = run_records.left_out(options, described)
        self._options = options = options.replace(**said)
        given = source.read_config(options.bert_config_file)
        given = text_size.with_vocab_size(options, given, source)
        config = objective.configure(given)
        if options.do_predict:
            asked = {"predict_file": options.predict_file}
            check_outputs(options.train.output_dir, asked, [answers.RESULTS])
        self._read_texts(config, source)
        self._arguments = options.objectives.arguments(options.objective)
        if tokens := options.objectives.tokens(options.objective):
            self._arguments["token_ids"] = [self._vocab[x] for x in tokens]
        self._strategy = devices.create_strategy(options.device)
        self._start = Start(
            *(options, config, source, self._build),
            # --strip_checkpoint without a checkpoint is refused below.
            trains=options.do_train or options.strip_checkpoint,
            heads=(),
        )
        self._check_folders(changes_config=config != given)

    def _check_objective(self) -> None:
        """Refuses a flag that the objective cannot follow.

        Also another objective than that of the run in output_dir.
        """
        options, objective = self._options, self._objective
        flag = f"--objective={options.objective}"
        if options.masking and not objective.reads_masks:
            raise ValueError(
                f"--masking=dynamic masks the records, but {flag} reads them "
                "without masks; leave --masking out."
            )
        if options.reads_texts and not objective.answers_queries:
            name = "--do_predict" if options.do_predict else "--do_export"
            raise ValueError(
                f"{name} asks for masked words and pairs of sentences, which "
                f"{flag} does not predict; leave {name} out."
            )
        run_records.require_same_objective(options)

    def _read_texts(self, config: BertConfig, source: Source) -> None:
        """Reads vocabulary and queries, if needed; refuses another model's."""
        options = self._options
        tokens = [*options.objectives.tokens(options.objective)]
        self._vocab, self._tokenizer, self._queries = {}, None, []
        tokens += ["[SEP]"] * options.separate_documents
        if options.masking or options.reads_texts:
            tokens += SPECIAL_TOKENS
        if options.reads_texts:
            tokenizer = load_tokenizer(options, config, source, tokens)
            self._tokenizer, self._vocab = tokenizer, tokenizer.vocab
            if options.predict_top_k > config.vocab_size:
                raise ValueError(
                    f"--predict_top_k={options.predict_top_k}, but the model "
                    f"has {config.vocab_size} wordpieces; give fewer."
                )
            if options.do_predict:
                length = {"max_seq_length": options.max_seq_length}
                asked = options.predict_file, tokenizer
                self._queries = read_queries(*asked, **length)
        elif tokens:
            path, config_file = options.vocab_file, options.bert_config_file
            self._vocab = vocab = vocabulary.load_vocab(path)
            vocabulary.require_tokens(vocab, tokens, path)
            vocabulary.require_size(vocab, path, config.vocab_size, config_file)

    def _build(self, config: BertConfig, **more: Any) -> PretrainingObjective:
        """Makes a model with the dropout of the run."""
        options = self._options
        if options.dropout_prob is not None:
            names = ("hidden_dropout_prob", "attention_probs_dropout_prob")
            changed = dict.fromkeys(names, options.dropout_prob)
            config = dataclasses.replace(config, **changed)
        return self._objective(config, **self._arguments, **more)

    def _check_folders(self, changes_config: bool) -> None:
        """Refuses folders without a run, or with a run of another model."""
        options, config = self._options, self._start.config
        folder, before = options.train.output_dir, options.train.continue_from
        origin = self._start.origin.values()
        has_run = bool(self._start.manager.steps())
        if changes_config and has_run:
            setup.check_same_model(folder, config)
        if options.strip_checkpoint and not options.do_train and not has_run:
            raise ValueError(
                "--strip_checkpoint strips the checkpoint of a run, but "
                f"--output_dir={folder} holds none; give the --output_dir of a "
                "run, or train first (--do_train)."
            )
        if options.strip_checkpoint and STRIPPED_NAME in origin:
            raise ValueError(
                f"--strip_checkpoint would replace {options.init_checkpoint}, "
                "with which the run begins; give another --output_dir."
            )
        if before:
            setup.check_same_model(before, config)

    def finish(self) -> None:
        """Opens the records; trains, evaluates and predicts as asked."""
        options, start = self._options, self._start
        before, origin = start.manager.latest_step() or 0, start.origin.values()
        self._records = self._open_records()
        with self._strategy.scope():
            model = self._make_model()
            step = self._train_and_score(model)
            if options.do_predict:
                asked = self._tokenizer, self._queries
                answers.Answers(options, model, *asked).write()
        if options.strip_checkpoint:
            self._strip(step)
        folder, has_changed = options.train.output_dir, step != before
        if options.do_export or (has_changed and description.find(folder)):
            self._describe(step)
        if not has_changed:
            return
        warn = functools.partial(setup.warn_of_earlier, folder, step)
        if not options.strip_checkpoint and STRIPPED_NAME not in origin:
            warn("--strip_checkpoint", f"{STRIPPED_NAME}.index")
        if not options.do_predict:
            warn("--do_predict", answers.RESULTS)

    def _describe(self, step: int) -> None:
        """Writes what an export, of this or an earlier phase, needs to know."""
        options, start = self._options, self._start
        folder, weights = options.train.output_dir, f"model.ckpt-{step}"
        description.PretrainingDescription(
            task_name="pretraining",
            kind="pretraining",
            max_seq_length=options.max_seq_length,
            do_lower_case=options.do_lower_case,
            never_split=options.never_split,
            top_k=options.predict_top_k,
            weights=weights if step else start.origin["init_checkpoint"],
        ).write(folder, None)

    def _known_of_text(self) -> run_records.OfText:
        """What the command's vocabulary and folders say of its records."""
        known, given = [], self._options.vocab_file
        if given:
            vocab = self._vocab or vocabulary.load_vocab(given)
            facts = {"vocab_sha256": vocabulary.sha256(vocab)}
            known.append((f"--vocab_file={given}", facts))
        # A run in output_dir is compared when it resumes, see `made_from`.
        for flag, count in (("output_dir", 1), ("continue_from", 2)):
            if folder := self._options.find(flag):
                facts = CheckpointManager(folder).made_from()
                facts = run_records.of_text(facts, count)
                known.append((f"--{flag}={folder}", facts))
        run_records.require_one_text(known)
        return known

    def _open_records(self) -> Records:
        """Opens and checks the records to train on and to be scored by."""
        options, start, train, dev = self._options, self._start, None, None
        evaluates = options.do_train and options.train.eval_every_steps
        sizes = ["train_batch_size"] * options.do_train
        sizes += ["eval_batch_size"] * bool(options.do_eval or evaluates)
        devices.check_batch_sizes(options, sizes)
        of_model = options, start.config, self._vocab, self._known_of_text()
        if options.do_train:
            train = run_records.open_records(options.input_file, *of_model)
            text_size.log_size(options, train.count)
        if options.do_eval or evaluates:
            dev = train
            if options.eval_file or not train:
                patterns = options.eval_file or options.input_file
                dev = run_records.open_records(patterns, *of_model)
        if train and dev:
            run_records.compare(train, dev)
        if start.first and not options.do_train:
            has_pairs = dev and run_records.hold_pairs(dev)
            untrained = start.first.untrained
            answers.require_heads(options, untrained, has_pairs, self._queries)
        return Records(options, self._vocab, train, dev)

    def _make_model(self) -> PretrainingObjective:
        """Makes the model with its first weights, and keeps its files."""
        options, start, train = self._options, self._start, self._records.train
        start.keep()
        if options.vocab_file:
            before, given = text_size.run_before(options), options.given or ()
            said = dict(Source(before).tokenizer_flags)
            if train:
                names = {"do_lower_case", "never_split"}.intersection(given)
                said |= {name: options.find(name) for name in names}
                said |= run_records.of_manifest(train.paths[0])
            keep_vocabulary(options, start.config, said)
        model = start.load(self._strategy)
        if options.do_train and options.first_weights != FIRST_WEIGHTS[0]:
            if start.manager.steps():
                folder = options.train.output_dir
                logging.info(NOT_USED, "first_weights", folder)
            else:
                weights = checkpoints.variables_by_name(model.layers)
                of_run = options, start.config, self._records
                first_values.assign(weights, *of_run)
        return model

    def _train_and_score(self, model: PretrainingObjective) -> int:
        """Trains and evaluates as asked; returns the step of the weights."""
        options, start, records = self._options, self._start, self._records
        weights = checkpoints.variables_by_name(model.layers)
        wordpieces = options.eval_batch_size * options.max_seq_length
        size = model.config.num_hidden_layers * model.config.hidden_size
        evaluator = Evaluator(model, options.max_eval_steps * wordpieces * size)

        def evaluate(step: int) -> None:
            with naming_damage(records.dev):
                metrics = evaluator.evaluate(
                    records.evaluation_batches, num_steps=options.max_eval_steps
                )
            metrics |= model.further_results(metrics)
            events.write_eval_results(options.train.output_dir, metrics, step)

        if not options.do_train:
            self._warn_of_changes()
            step = start.restore(weights)
        else:
            learns_pairs = run_records.hold_pairs(records.train)
            if not (learns_pairs or options.train.continue_from):
                start.manager.restore(weights)
                answers.require_pair_head(model, self._queries)
            step = self._train(model, evaluate)
        if records.dev:
            evaluate(step)
        return step

    def _train(
        self, model: PretrainingObjective, evaluate: Callable[[int], None]
    ) -> int:
        """Trains to the end; returns the last step."""
        options, train = self._options, self._options.train
        records, count = self._records, self._records.train.count
        settings = train.shaping | self._start.origin
        settings["group_by_length"] = options.group_by_length
        settings["hidden_dropout_prob"] = model.config.hidden_dropout_prob
        # What decides the order of the records: see `training_batches`.
        workers = devices.num_workers(self._strategy)
        has_own_files = workers <= len(records.train.paths)
        settings["workers_with_own_files"] = workers if has_own_files else 1
        if train.num_train_minutes:
            logging.info("Training for %g minutes.", train.num_train_minutes)
        else:
            logging.info(
                "Training to step %d, %d examples each: %.2f passes over the "
                "input from step 0.",
                *(train.last_step, train.train_batch_size),
                train.last_step * train.train_batch_size / count,
            )
        length, trims = options.max_seq_length, options.group_by_length
        train = with_fusion(train, model.config, seq_length=length, trims=trims)
        arrange = length_batches.grouping(train.seed) if trims else None

        def make_batches(short, *place):
            batches = records.training_batches(*place, arrange, short=short)
            if not trims:
                return batches
            return length_batches.trimmed(batches, **trimming(train))

        with naming_damage(records.train):
            for share, short in options.phases:
                size = train.train_batch_size * (1 + short)
                sized = train.replace(train_batch_size=size)
                step = Trainer(model, sized, evaluate).train(
                    functools.partial(make_batches, short),
                    num_examples=count,
                    made_from=run_records.made_from(options, records.train),
                    settings=settings,
                    share=share,
                )
        return step

    def _warn_of_changes(self) -> None:
        """Warns of an evaluation on the trained text, or by other settings."""
        options, before = self._options, self._start.manager.made_from()
        now = run_records.made_from(options, self._records.dev)
        if before.get("records_sha256") == now.get("records_sha256", ""):
            run_records.warn_of_trained_text()
        # In an evaluation, no row is short, and all positions are predicted;
        # the vocabulary and the length are compared already. What the run did
        # not record is not compared.
        unused = {"records_sha256", "short_rows_share", "vocab_sha256"}
        unused |= {"num_predicted_positions", "max_seq_length"}
        names = before.keys() & now.keys() - unused
        facts = [{name: x[name] for name in names} for x in (before, now)]
        changed = manifests.changes(*facts)
        if options.do_eval and changed:
            logging.warning(
                "%s was trained with other settings than this evaluation: %s. "
                "Give the flags of its training to evaluate it alike.",
                *(options.train.output_dir, "; ".join(changed)),
            )

    def _strip(self, step: int) -> None:
        """Writes a checkpoint without slots, as released."""
        source = self._start.manager.prefix(step)
        target = os.path.join(self._options.train.output_dir, STRIPPED_NAME)
        kept = checkpoints.Checkpoint(source).weights()
        checkpoints.write(target, kept)
        size, whole = (files.size(x + DATA) / 1e6 for x in (target, source))
        logging.info(
            "%s: %d weights without optimizer slots, %.1f MB (%s has %.1f MB).",
            *(target, len(kept), size, source, whole),
        )


def keep_vocabulary(
    options: PretrainingOptions, config: BertConfig, said: Mapping[str, Any]
) -> None:
    """Copies the vocabulary to a run's folder, if it is the model's.

    So are the tokenizer's settings: those in `said`, else those beside it. A
    run that does not read the vocabulary continues without it, with a warning.
    """
    output_dir, vocab_file = options.train.output_dir, options.vocab_file
    try:
        tokens = vocabulary.read_tokens(vocab_file)
        vocab = {token.strip(): i for i, token in enumerate(tokens)}
        size, config_file = config.vocab_size, options.bert_config_file
        vocabulary.require_size(vocab, vocab_file, size, config_file)
        settings = tokenizer_files.read_settings(os.path.dirname(vocab_file))
        names = {x.name for x in dataclasses.fields(settings)} & said.keys()
        settings = dataclasses.replace(settings, **{n: said[n] for n in names})
    except (ValueError, FileNotFoundError) as error:
        logging.warning("No vocabulary is kept in %s: %s", output_dir, error)
        return
    path = os.path.join(output_dir, tokenizer_files.CONFIG)
    vocabulary.write_vocab(description.vocab_of(output_dir), tokens)
    if settings.do_lower_case is not None:
        write_json(path, settings.to_dict())
    else:
        files.remove(path)  # of a run that was stopped before a checkpoint
