"""Does the runs of a study by the project's programs, called from Python."""

import json
import math
import os
from collections.abc import Callable, Iterable
from typing import Any

from data import settings
from data.pretraining.options import PretrainingDataOptions
from data.storage import files
from data.storage.json_files import read_json
from modeling import objectives
from modeling.checkpoints import model_folder
from modeling.layer_mix import mixes_of
from studies.engine import plan
from studies.engine.declaring import Row, Study
from studies.engine.inputs import Inputs, checksums
from studies.engine.measures import HELD_OUT, SPANS
from studies.engine.options import StudyData, StudyOptions
from studies.engine.plan import PRETRAINING, Job
from studies.engine.scales import SCALES
from training.config.finetuning_options import ClassifierOptions
from training.config.pretraining_options import PretrainingOptions
from training.config.squad_options import SquadOptions
from training.loop import events
from training.loop.checkpointing import CheckpointManager
from training.many_runs.made_from import facts_of
from training.runs import classifier, pretraining, questions


class Programs:
    """What each run of a study depends on, and the function that does it."""

    def __init__(self, study: Study, options: StudyOptions, data: StudyData):
        self._study = study
        self._options = options
        self._data = data
        self._scale = SCALES[options.scale]
        self._inputs = Inputs(options.output_dir, data, self._scale)
        self._tasks: dict[str, Any] = {}
        if data.init_checkpoint:
            asked = options.rows or [row.name for row in study.rows]
            _check_model(data.init_checkpoint, map(study.row, asked))

    def __call__(
        self, job: Job
    ) -> tuple[dict[str, Any], Callable[[], dict[str, Any]]]:
        """Prepares a run; makes its text, vocabulary and records.

        Returns all that its result depends on, as values that JSON can hold;
        and the function that does it, which resumes it if it was interrupted.
        It returns `values`: metric -> value.
        """
        special = {
            PRETRAINING: self._pretrain,
            HELD_OUT: self._evaluate,
            SPANS: self._answer,
        }
        facts, function = special.get(job.run, self._classify)(job)
        return json.loads(json.dumps(facts)), function

    def _pretrain(self, job: Job) -> tuple[dict, Callable]:
        """The facts of a pretraining, and the function that does it."""
        study, row = self._study, job.row
        flags = plan.pretraining_flags(study, row, self._scale, self._options)
        sizes = plan.sizes_of(study, row, self._scale, self._inputs.vocab_size)
        facts = flags | {"sizes": sizes, "records": dict(row.records)}
        facts["masking"] = dict(row.masking)

        def train() -> dict[str, Any]:
            options = self._pretraining_options(
                flags,
                row,
                input_file=self._inputs.records(row, "train"),
                bert_config_file=self._inputs.config_file(row.name, sizes),
                output_dir=job.folder,
            )
            pretraining.run(options)
            return {"values": {}}

        return facts, train

    def _pretraining_options(
        self, flags: dict, masked_as: Row, **paths: str
    ) -> PretrainingOptions:
        """The options of run_pretraining.py for a row."""
        masking = None
        objective = flags.get("objective", "pretraining")
        if objectives.get(objective).reads_masks:
            mine = plan.masking_flags(masked_as)
            masking = settings.make(PretrainingDataOptions, mine)
        paths["vocab_file"] = self._inputs.vocab_file
        flags = flags | paths | {"masking": masking}
        return settings.make(PretrainingOptions, flags)

    def _evaluate(self, job: Job) -> tuple[dict, Callable]:
        """The facts of an evaluation on held-out text, and its function."""
        study, row = self._study, job.row
        flags = plan.pretraining_flags(study, row, self._scale, self._options)
        flags |= {"do_train": False, "do_eval": True}

        def evaluate() -> dict[str, Any]:
            model = self._model_flags(row)
            records = self._inputs.records(row, "eval")
            # All rows are masked alike, as the base.
            options = self._pretraining_options(
                flags,
                study.base,
                eval_file=records,
                input_file=records,
                output_dir=job.folder,
                init_checkpoint=model["init_checkpoint"],
                bert_config_file=model["bert_config_file"],
            )
            pretraining.run(options)
            path = os.path.join(job.folder, "eval_results.txt")
            values = events.read_eval_results(path)
            loss = values["masked_lm_loss"]
            return {"values": values | {"masked_lm_perplexity": math.exp(loss)}}

        return flags | {"records": dict(row.records)}, evaluate

    def _model_flags(self, row: Row) -> dict[str, Any]:
        """The flags that name the pretrained model of a row."""
        weights = self._data.init_checkpoint
        if weights:
            config_file = model_folder.find(weights).config_file
        else:
            source = row.source, PRETRAINING
            folder = os.path.join(self._options.output_dir, *source)
            manager = CheckpointManager(folder)
            steps = manager.steps()
            wanted = row.share * steps[-1]
            step = min(steps, key=lambda s: abs(s - wanted))
            weights = manager.prefix(step)
            config_file = os.path.join(folder, "bert_config.json")
        return {
            "init_checkpoint": weights,
            "bert_config_file": config_file,
            "vocab_file": self._inputs.vocab_file,
            "do_lower_case": self._inputs.do_lower_case,
        }

    def _finetuning_flags(self, job: Job) -> dict[str, Any]:
        """The flags of a fine-tuning, without paths."""
        is_given = bool(self._data.init_checkpoint)
        return plan.finetuning_flags(job, self._scale, self._options, is_given)

    def _flags_of(self, job: Job) -> dict[str, Any]:
        """The flags of a fine-tuning, with all paths."""
        return {
            **self._finetuning_flags(job),
            **self._inputs.task_flags(job.run),
            **self._model_flags(job.row),
            "output_dir": job.folder,
        }

    def _classify(self, job: Job) -> tuple[dict, Callable]:
        """The facts of a run on a task, and the function that does it."""
        options = settings.make(ClassifierOptions, self._flags_of(job))
        name = job.run.removesuffix("_frozen")
        if name not in self._tasks:  # the records are the same for all rows
            folder = os.path.join(self._options.output_dir, "inputs", name)
            opened = classifier.open_run(options)
            self._tasks[name] = classifier.make_records(opened, folder)
        inputs = self._tasks[name]

        def train() -> dict[str, Any]:
            outcome = classifier.run(options, inputs)
            return {"values": dict(next(iter(outcome.results.values())))}

        return facts_of(options, inputs), train

    def _answer(self, job: Job) -> tuple[dict, Callable]:
        """The facts of a run on questions, and the function that does it."""
        flags = self._flags_of(job)
        options = settings.make(SquadOptions, flags)
        facts = self._finetuning_flags(job)
        if self._data.squad_dir:
            facts |= checksums(self._data.squad_files)
        shared = os.path.join(self._options.output_dir, "inputs", SPANS)

        def train() -> dict[str, Any]:
            _copy_records(shared, job.folder)
            questions.run(options)
            _copy_records(job.folder, shared)
            for path in _records_in(job.folder):
                files.remove(path)
            path = os.path.join(job.folder, "metrics.json")
            return {"values": read_json(path, ("f1",))}

        return facts, train


def _check_model(folder: str, rows: Iterable[Row]) -> None:
    """Refuses a given model that the rows cannot use, before they run."""
    found = model_folder.find(folder)
    if not found.vocab_file:
        raise FileNotFoundError(
            f"--init_checkpoint={folder} has no vocab.txt; put the model's "
            "vocabulary there."
        )
    config = found.read_config()
    for row in rows:
        mix = row.finetuning.get("feature_based")
        if mix and mix not in mixes_of(config):
            raise ValueError(
                f"--init_checkpoint={folder} has {config.num_hidden_layers} "
                f"layers, too few for the row {row.name}; give a larger model, "
                "or the other rows by --rows."
            )


def _records_in(folder: str) -> list[str]:
    """The record files of a folder, with their manifests."""
    return files.find_in(folder, "*.tf_record*")


def _copy_records(source: str, folder: str) -> None:
    """Copies record files that are not there yet."""
    for path in _records_in(source):
        target = os.path.join(folder, os.path.basename(path))
        if not files.exists(target):
            files.copy(path, target)
