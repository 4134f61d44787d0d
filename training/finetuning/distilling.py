"""A teacher: another model's scores of the train set, kept beside its records.

They are computed once, because training reads each example several times.

Source: Hinton et al., 2015, https://arxiv.org/abs/1503.02531.
"""

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import modeling
from data.records import reuse, teacher_scores
from data.records.feature_spec import TEACHER_LOGITS, FeatureSpec
from data.records.input_pipeline import RecordFiles
from data.storage import files, manifests
from data.tasks import Task, get_task, task_options
from data.text.tokenization import FullTokenizer
from modeling.checkpoints import model_folder
from modeling.loading import tokenizer_of
from modeling.losses import Distillation
from training.devices.strategy import create_strategy, is_tpu, policy_of
from training.inference import OutputCollector
from training.start import description, setup
from training.start.start import Start

_TABLES = ("tsv", "csv", "jsonl")  # a user's rows may be of any task


class Teacher:
    """A finished model of the same task; its weights are not loaded.

    Raises ValueError or OSError if it is missing, not finished, or of another
    task; `task` is that of run_classifier.py, None = questions.

    Attributes:
      folder: its folder; "" = there is no teacher, or nothing is trained.
      distillation: see `ItemObjective`.
      unlabeled: a task whose test set is --unlabeled_file; None = no file.
    """

    def __init__(
        self, options: Any, tokenizer: FullTokenizer, task: Task | None = None
    ):
        distill, self.unlabeled = options.distillation, None
        self._options = options.finetuning
        self.folder = distill.teacher_dir if options.do_train else ""
        # What its scores and their use depend on, as JSON returns it.
        self._facts, self.distillation = {}, None
        if not self.folder:
            return
        try:
            self._spec, weights = _check(self.folder, options, tokenizer, task)
        except (ValueError, OSError) as error:
            raise type(error)(f"--teacher_dir: {error}") from None
        how = Distillation(distill.distill_weight, distill.distill_temperature)
        self.distillation = how
        self._facts = {f"distill_{n}": x for n, x in how._asdict().items()}
        self._facts["teacher_sha256"] = model_folder.weights_sha256(weights)
        if path := distill.unlabeled_file:
            self.unlabeled = _unlabeled(options, task)
            self._facts["unlabeled_sha256"] = files.sha256(path)
            drops = options.task_options.get("drop_missing")
            self._facts["drop_missing"] = bool(drops)

    def check(self, start: Start) -> Callable[[Mapping[str, Any]], None]:
        """Returns `Start.check_input` that knows the teacher, too."""
        return lambda made_from: start.check_input({**made_from, **self._facts})

    def add_scores(self, *parts: RecordFiles) -> RecordFiles:
        """Adds its scores to the records; see `teacher_scores.add_scores`."""
        folder = os.path.dirname(parts[0].paths[0])
        path = os.path.join(folder, "distilled.tf_record")
        how = self._facts, self._spec, self._logits
        return teacher_scores.add_scores(path, *how, *parts)

    def _logits(self, records: RecordFiles) -> np.ndarray:
        """Its logits of every record, in the order of the file."""
        options = self._options
        strategy = create_strategy(options.device)
        with strategy.scope():
            how = {"use_one_hot_embeddings": is_tpu(strategy)}
            how["dtype"] = policy_of(options.device)
            loaded = modeling.load(self.folder, **how)
            model = loaded.model
            collector = OutputCollector(
                model, lambda batch: {"logits": model.logits(batch)}
            )
        return collector.of_records(
            *(records, "asking the teacher", options.max_seq_length),
            batch_size=options.train.train_batch_size,
            trim=options.trim_batches and not is_tpu(strategy),
            num_choices=len(loaded.labels) if loaded.kind == "choice" else 1,
        )["logits"]


def _check(
    folder: str, options: Any, tokenizer: FullTokenizer, task: Task | None
) -> tuple[FeatureSpec, str]:
    """Refuses a teacher that does not fit.

    Returns the feature of its scores, and the path of its weights.
    """
    found = model_folder.find(folder)
    described, config = description.read(found.path), found.read_config()
    has_null = options.find("version_2_with_negative")
    ours = {"kind": "span", "task_name": "SQuAD" + " 2.0" * bool(has_null)}
    if task:
        ours = {"kind": task.kind, "task_name": task.name}
        ours |= {"labels": task.labels, "is_pair": task.reads_pairs()}
    theirs = {name: getattr(described, name, None) for name in ours}
    if {theirs["task_name"], ours["task_name"]}.intersection(_TABLES):
        theirs["task_name"] = ours["task_name"]
    if theirs.get("is_pair", 0) is None:  # no file said it
        theirs["is_pair"] = ours["is_pair"]
    theirs |= reuse.tokenizer_facts(tokenizer_of(found, described.kind, config))
    ours |= reuse.tokenizer_facts(tokenizer)
    if differs := manifests.changes(theirs, ours):
        raise ValueError(
            f"{folder} does not fit this run: {'; '.join(differs)}. Give a "
            "finished run of the same task, labels, vocabulary and case."
        )
    length = options.find("max_seq_length")
    setup.check_length(length, config, found.config_file)
    size = max(1, len(task.labels)) if task else 2  # start and end
    if not task or task.kind == "tagging":
        size *= length
    return FeatureSpec(TEACHER_LOGITS, size, "float32"), found.weights


def _unlabeled(options: Any, task: Task) -> Task:
    """The task with --unlabeled_file as its test set."""
    path = options.distillation.unlabeled_file
    given = {**options.task_options, "test_file": path}
    if "test_file" not in task_options(task.name) or "tfds" in given:
        raise ValueError(
            f"--unlabeled_file={path} is for files of one's own (tsv, csv, "
            f"jsonl, conll, conllu), but --task_name={options.task_name}; "
            "write its texts and labels to tables, or leave it out."
        )
    if options.class_weights:
        raise ValueError(
            "--class_weights has no labels in --unlabeled_file; leave one out."
        )
    files.require_file(path, "--unlabeled_file")
    unlabeled = get_task(task.name, options.data_dir, **given)
    unlabeled.model_labels = task.labels
    unlabeled.train_separator = task.train_separator
    if not next(unlabeled.read("test"), None):
        raise ValueError(f"--unlabeled_file={path} has no rows; leave it out.")
    return unlabeled
