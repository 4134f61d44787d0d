"""A run of run_sentence_vectors.py."""

import dataclasses
import functools
import hashlib
import os
from typing import Any

import numpy as np
from absl import logging

from data.finetuning.feature_options import TextFeatures
from data.finetuning.records import make_records as make_record_file
from data.records.distinct_batches import DistinctBatches, text_batches
from data.records.input_pipeline import RecordFiles, open_records
from data.settings import in_flag
from data.storage.json_files import write_json
from data.vectors import retrieval, teacher_vectors
from data.vectors.text_sets import OF_TABLES, TextSets
from modeling.checkpoints import tf1
from modeling.checkpoints.vector_form import VectorForm
from modeling.objectives.sentence_vectors import SentenceEncoder
from training.config.vector_options import SentenceOptions
from training.devices.strategy import check_batch_sizes
from training.finetuning.best_checkpoint import BestCheckpoint
from training.finetuning.finetuner import Finetuning
from training.finetuning.metric_values import Results
from training.loop import events
from training.start import description, remembered
from training.start.found_files import Files, read_files
from training.start.start import Start, check_outputs

_RESULTS = ("eval_results.txt", "metrics.json")
_RECORDS = {"train": "train.tf_record", "dev": "eval.tf_record"}
# What a further training in the folder must keep, beside the form.
_OF_LOSS = ("loss", "similarity_scale")
# What a later command in the folder need not say again.
_REMEMBERED = (*_OF_LOSS, "task_name", "eval_task_name", *sorted(OF_TABLES))


def run(options: SentenceOptions) -> Results:
    """Trains and evaluates after checking all inputs; returns the scores."""
    return Run(options).finish()


class Run:
    """A run whose files are read and checked; no records are written yet."""

    def __init__(self, options: SentenceOptions):
        found = _with_length(read_files(options, kinds=["vectors"]))
        options, config, self._tokenizer, source, self._described = found
        options.check_together()
        self._options, texts = options, options.texts
        self._form = form = _form_of(found)
        self._sizes = form.sizes(config.hidden_size)
        if prompt := form.prompt():
            logging.warning("Only encoding adds the prompt %r.", prompt)
        if form.pooling == "cls" and config.left_to_right:
            raise ValueError(
                "--pooling=cls: the model reads left to right, so that [CLS] "
                "sees only itself; give --pooling=mean."
            )
        names = ("train_file", "dev_file", "teacher_vectors")
        inputs = {name: getattr(texts, name) for name in names}
        outputs = (*_RESULTS, *_RECORDS.values())
        check_outputs(options.output_dir, inputs, outputs)
        # The encoder computes in parts, because every example is compared with
        # all others of its batch.
        self._start = Start(
            options.finetuning.replace(gradient_accumulation_steps=1),
            *(config, source),
            functools.partial(
                SentenceEncoder,
                form=form,
                loss=options.loss,
                scale=options.similarity_scale,
                num_parts=options.finetuning.train.gradient_accumulation_steps,
            ),
            trains=options.do_train,
            heads=(),
        )
        # The examples to train on and to evaluate on; None = do not.
        self._train = self._dev = None
        # Fields of `TextFeatures` for those to train on.
        self._targets = {"labels": options.train_columns}
        self._open_sets()
        dev = options.do_train and self._dev  # else nothing is chosen
        names = {"dev": retrieval.names_at(dev, self._sizes)} if dev else {}
        self._best = BestCheckpoint(options.finetuning, names)

    def _open_sets(self) -> None:
        """Reads the sets that the run needs."""
        options, path = self._options, self._options.texts.teacher_vectors
        sizes = ["train_batch_size"] * options.do_train
        sizes += ["eval_batch_size"] * (options.do_eval or options.watches)
        count = check_batch_sizes(options.finetuning, sizes)
        if options.finetuning.train.xla and count > 1:
            raise ValueError(
                f"--xla is for one device, not for {count}; leave it out."
            )
        if options.do_train:
            self._train = train = options.train_set
            scores = [x.score for x in train.examples("train")]
            if options.loss == "cosent":
                retrieval.warn_of_equal(scores, "train on")
            self._targets["target_size"] = int(train.scored)
            if options.loss == "teacher":
                size, rotate = self._sizes[0], len(self._sizes) > 1
                given = teacher_vectors.read_teacher(path, len(scores))
                vectors = teacher_vectors.fitted(given, size, rotate)
                self._train = dataclasses.replace(train, vectors=vectors)
                # Not of the rotated ones, whose last bits differ between
                # machines.
                checksum = hashlib.sha256(np.ascontiguousarray(given))
                checksum.update(f"{rotate}".encode())
                told = checksum.hexdigest()
                self._targets |= {"target_size": size, "vectors_sha256": told}
        if options.do_eval or options.watches:
            self._dev = retrieval.pair_set(options.dev_set.examples("dev"))

    def finish(self) -> Results:
        """Makes the records, trains and evaluates as asked."""
        options, best, sizes = self._options, self._best, self._sizes
        train, dev, facts = None, None, {}
        if self._train:
            train = self._records("train", self._train, **self._targets)
        if pairs := self._dev:
            dev = self._records("dev", pairs)
            told = repr((pairs.pairs.tolist(), pairs.scores)).encode()
            facts["pairs_sha256"] = hashlib.sha256(told).hexdigest()
        model, last = self._make_model(train), {}

        def evaluate(step: int, **more: Any) -> Results:
            if last.get("global_step") != step:
                vectors = model.outputs(dev, "eval_batch_size")["vectors"]
                values = retrieval.at_sizes(self._dev, vectors, sizes)
                events.write_eval_results(options.output_dir, values, step)
                last.update(global_step=step, dev=values)
            more["max_seq_length"] = options.finetuning.max_seq_length
            path = os.path.join(options.output_dir, "metrics.json")
            write_json(path, last | more)
            return {"dev": last["dev"]}

        step = best.train(model, evaluate, train, filter(None, [dev]), **facts)
        # The last evaluation while training may be of other weights.
        results = evaluate(step, **best.note()) if dev else {}
        self._describe(best.weights(step))
        if options.do_train:
            model.finish(do_eval=[] if dev else ["metrics.json"])
        return results

    def _records(
        self, name: str, texts: TextSets | retrieval.PairSet, **facts: Any
    ) -> RecordFiles:
        """Writes train.tf_record or eval.tf_record, unless it exists."""
        path = os.path.join(self._options.output_dir, _RECORDS[name])
        length = self._options.finetuning.max_seq_length
        features = TextFeatures(max_seq_length=length, **facts)
        check = self._start.check_input if name == "train" else None
        make_record_file(texts, name, path, self._tokenizer, features, check)
        limits = {"input_ids": self._start.config.vocab_size}
        return open_records([path], features.specs, limits=limits)

    def _make_model(self, train_files: RecordFiles | None) -> Finetuning:
        """The model in its output_dir, described there when training begins."""
        options, train = self._options, self._options.finetuning.train
        num_texts, distinct = len(options.train_columns), None
        if train_files and options.loss == "negatives":
            distinct = DistinctBatches(
                train_files,
                num_texts=num_texts,
                batch_size=train.train_batch_size,
                seed=train.seed,
            )
        batches = {"num_texts": num_texts, "distinct": distinct}
        return Finetuning(
            self._start,
            make_batches=functools.partial(text_batches, **batches),
            begin=self._describe,
        )

    def _describe(self, weights: str = "") -> None:
        """Writes what the model is made with; "" = its training begins."""
        options = self._options
        if description.keep(options, self._described, weights):
            return
        self._form.write(options.output_dir)
        described = description.make(
            *(options, description.VectorDescription),
            task_name=options.texts.task_name,
            kind="vectors",
            data={name: options.find(name) for name in _REMEMBERED},
        )
        description.write(options, described, weights)


def _with_length(found: Files) -> Files:
    """Takes the longest text of a model of vectors that is not trained."""
    options, source = found.options, found.source.folder
    form = source and not found.described and VectorForm.find(source.path)
    is_said = options.given is None or "max_seq_length" in options.given
    if options.do_train or is_said or not form or not form.max_seq_length:
        return found
    length = min(form.max_seq_length, found.config.max_position_embeddings)
    logging.info("--max_seq_length=%d, as %s says.", length, source.path)
    return found._replace(options=options.replace(max_seq_length=length))


def _form_of(found: Files) -> VectorForm:
    """The form that the flags and the model's folder say.

    Raises ValueError if output_dir holds a model with another one, or a run
    with another loss.
    """
    options, folder = found.options, found.options.find("output_dir")
    before, source = VectorForm.find(folder), found.source.folder
    trained = before if tf1.has_run(folder) else None
    beside = source and VectorForm.find(source.path)
    if options.do_train or not found.described:
        before = None  # of a stopped run, or about another model
    here = None if description.names_model(options) else before
    base = trained or here or beside or before or VectorForm()
    length, changes = options.finetuning.max_seq_length, options.form.changed()
    form = dataclasses.replace(base, max_seq_length=length, **changes)
    if beside and not (trained or options.do_train):
        remembered.warn_of_other_form(source.path, changes)
    before = vars(trained or form) | getattr(found.described, "data", {})
    now = vars(form) | {name: getattr(options, name) for name in _OF_LOSS}
    # A model can be evaluated at other sizes, and with another loss's data.
    for name in now if options.do_train else ("pooling", "normalize"):
        if before.get(name) not in (None, now[name]):
            old, new = map(in_flag, (before[name], now[name]))
            raise ValueError(
                f"--{name}={new}, but {folder} holds a model that was trained "
                f"with --{name}={old}; leave the flag out, or give another "
                f"--output_dir, and for its weights --init_checkpoint={folder}."
            )
    return form
