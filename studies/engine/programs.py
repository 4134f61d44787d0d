"""Does the runs of a study by the project's programs, called from Python."""

import json
import math
import os
from collections.abc import Callable, Iterable
from typing import Any

from data import settings
from data.pretraining.data_options import PretrainingDataOptions
from data.storage import files
from data.storage.json_files import read_json
from data.text import vocabulary
from modeling import objectives
from modeling.checkpoints import model_folder
from modeling.choices import OBJECTIVES
from modeling.layer_mix import mixes_of
from studies.engine.declaring import Row
from studies.engine.inputs import Inputs
from studies.engine.measures import HELD_OUT, SPANS
from studies.engine.plan import PRETRAINING, Job, Plan
from training.config.finetuning_options import ClassifierOptions
from training.config.pretraining_options import PretrainingOptions
from training.config.squad_options import SquadOptions
from training.loop import events
from training.loop.checkpointing import CheckpointManager
from training.many_runs.made_from import facts_of
from training.runs import classifier, pretraining, questions
from training.start.source import Source

_RECORDS = "*.tf_record*"  # with their manifests


class Programs:
    """What each run of a study depends on, and the function that does it."""

    def __init__(self, plan: Plan):
        self._plan = plan
        self._given = plan.options.data.init_checkpoint
        self._inputs = Inputs(plan.options)
        self._tasks: dict[str, Any] = {}
        if self._given:
            asked = plan.options.rows or [row.name for row in plan.study.rows]
            _check_model(self._given, map(plan.study.row, asked))

    def __call__(self, job: Job) -> tuple[dict, Callable[[], dict[str, Any]]]:
        """Prepares a run; makes its text, vocabulary and records.

        Returns all that its result depends on, as values that JSON can hold;
        and the function that does it, which resumes it if it was interrupted.
        It returns metric -> value.
        """
        of_weights = {HELD_OUT: self._evaluate, SPANS: self._answer}
        special = {PRETRAINING: self._pretrain, **of_weights}
        facts, function = special.get(job.run, self._classify)(job)
        if job.run in of_weights:
            path = self._model_flags(job.row)["init_checkpoint"]
            facts["init_checkpoint_sha256"] = model_folder.weights_sha256(path)
        return json.loads(json.dumps(facts)), function

    def _pretrain(self, job: Job) -> tuple[dict, Callable]:
        """The facts of a pretraining, and the function that does it."""
        row, inputs = job.row, self._inputs
        flags = self._plan.pretraining_flags(row)
        vocab_size = len(vocabulary.load_vocab(inputs.vocab_file))
        sizes = self._plan.sizes_of(row, vocab_size)

        def train() -> dict[str, Any]:
            path = inputs.path(f"{row.name}.json")
            files.write_text(path, json.dumps(sizes, indent=2) + "\n")
            records = inputs.records(row, "train")
            self._run(job, flags, input_file=records, bert_config_file=path)
            return {}

        own = {"records": dict(row.records), "masking": dict(row.masking)}
        return flags | own | {"sizes": sizes}, train

    def _run(self, job: Job, flags: dict[str, Any], **paths: Any) -> None:
        """Runs run_pretraining.py; all rows are evaluated with one masking."""
        masked_as = job.row if flags["do_train"] else self._plan.study.base
        masking = None
        if objectives.get(flags.get("objective", OBJECTIVES[0])).reads_masks:
            names = "max_seq_length", "max_predictions_per_seq"
            mine = {n: flags[n] for n in names} | dict(masked_as.masking)
            masking = settings.make(PretrainingDataOptions, mine)
        flags = flags | paths | {"masking": masking, "output_dir": job.folder}
        flags["vocab_file"] = self._inputs.vocab_file
        pretraining.run(settings.make(PretrainingOptions, flags))

    def _evaluate(self, job: Job) -> tuple[dict, Callable]:
        """The facts of an evaluation on held-out text, and its function."""
        row = job.row
        flags = self._plan.pretraining_flags(row)
        flags |= {"do_train": False, "do_eval": True}

        def evaluate() -> dict[str, Any]:
            records = self._inputs.records(row, "eval")
            paths = {"eval_file": records, "input_file": records}
            self._run(job, flags, **paths, **self._model_flags(row))
            path = os.path.join(job.folder, "eval_results.txt")
            values = events.read_eval_results(path)
            perplexity = math.exp(values["masked_lm_loss"])
            return values | {"masked_lm_perplexity": perplexity}

        return flags | {"records": dict(row.records)}, evaluate

    def _model_flags(self, row: Row) -> dict[str, Any]:
        """The flags that name the pretrained model of a row."""
        vocab_file = self._inputs.vocab_file
        if weights := self._given:
            config_file = model_folder.find(weights).config_file
        else:
            output_dir = self._plan.options.output_dir
            folder = os.path.join(output_dir, row.source, PRETRAINING)
            manager = CheckpointManager(folder)
            steps = manager.steps() or [0]
            last = steps[-1] if self._plan.minutes else self._plan.steps
            # Checkpoints are near the shares of the steps, not at them.
            step = min(steps, key=lambda s: abs(s - row.share * last))
            if not step or abs(step - row.share * last) > last / 20:
                raise FileNotFoundError(
                    f"{folder} has no checkpoint for {row.name}; remove that "
                    "folder, so that it is pretrained again."
                )
            weights = manager.prefix(step)
            config_file = os.path.join(folder, "bert_config.json")
        vocab = vocabulary.load_vocab(vocab_file)
        return {
            "init_checkpoint": weights,
            "bert_config_file": config_file,
            "vocab_file": vocab_file,
            "do_lower_case": not vocabulary.is_cased(vocab),
            **Source(self._given).tokenizer_flags,
        }

    def _finetuning(self, options_class: type, job: Job) -> tuple[dict, Any]:
        """The flags of a fine-tuning without paths, and its options."""
        flags = self._plan.finetuning_flags(job)
        paths = self._inputs.task_flags(job.run) | self._model_flags(job.row)
        paths["output_dir"] = job.folder
        return flags, settings.make(options_class, flags | paths)

    def _classify(self, job: Job) -> tuple[dict, Callable]:
        """The facts of a run on a task, and the function that does it."""
        _, options = self._finetuning(ClassifierOptions, job)
        name = job.run.removesuffix("_frozen")
        if name not in self._tasks:  # the records are the same for all rows
            folder = self._inputs.path(name)
            self._tasks[name] = classifier.Run(options).make_records(folder)
        inputs = self._tasks[name]

        def train() -> dict[str, Any]:
            results = classifier.run(options, inputs).results
            return dict(next(iter(results.values())))

        return facts_of(options, inputs), train

    def _answer(self, job: Job) -> tuple[dict, Callable]:
        """The facts of a run on questions, and the function that does it."""
        facts, options = self._finetuning(SquadOptions, job)
        shared = self._inputs.path(SPANS)

        def train() -> dict[str, Any]:
            _copy_records(shared, job.folder)
            questions.run(options)
            _copy_records(job.folder, shared)
            for path in files.find_in(job.folder, _RECORDS):
                files.remove(path)
            return read_json(os.path.join(job.folder, "metrics.json"), ("f1",))

        return facts, train


def _check_model(folder: str, rows: Iterable[Row]) -> None:
    """Refuses a given model that the rows cannot use, before they run."""
    found = model_folder.find(folder)
    if not found.vocab_file:
        raise FileNotFoundError(
            f"--init_checkpoint={folder} has no vocab.txt; put it there."
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


def _copy_records(source: str, folder: str) -> None:
    """Copies record files that are not there yet."""
    for path in files.find_in(source, _RECORDS):
        target = os.path.join(folder, os.path.basename(path))
        if not files.exists(target):
            files.copy(path, target)
