"""The runs of a study, in order, with the flags of their programs."""

import os
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from data.storage import files
from studies.engine.declaring import Row, Study
from studies.engine.measures import FINETUNING, HELD_OUT, MEASURES, SPANS
from studies.engine.scales import LENGTH, SCALES, SIZES
from studies.engine.study_options import StudyOptions

PRETRAINING = "pretraining"
NUM_PREDICTIONS = 10
_RATE_OF_GIVEN = 5e-5  # the paper's, for a model that is pretrained already
# Expected: floating-point operations of 2 cores in a second; the seconds of a
# run, and its seconds more for the arithmetic of 2 layers x 128.
_FLOPS = 1e11
_SECONDS = {HELD_OUT: (10, 1), SPANS: (60, 10)}


class Job(NamedTuple):
    """One run of a study: `pretraining`, or the `run` of a measure.

    `folder` is the run's, which remembers its result; `seconds` are expected.
    `is_asked` False = the command leaves out its row, its data or its seed; if
    it is done, the report shows it all the same.
    """

    row: Row
    run: str
    seed: int
    folder: str
    seconds: float
    is_asked: bool = True


class Plan:
    """The runs of a study, and the flags of their programs without paths.

    A pretraining has `steps` updates or takes `minutes`; 0 = it goes by steps.
    """

    def __init__(self, study: Study, options: StudyOptions):
        self.study, self.options = study, options
        self.scale = SCALES[options.scale]
        self.steps = self.scale.num_steps or study.num_steps
        self.minutes = self.scale.share_of_minutes * study.minutes

    def jobs(self) -> Iterator[Job]:
        """Yields the runs of the study, each after those it builds on."""
        study, options, data = self.study, self.options, self.options.data
        given = {MEASURES[name].run for name in data.measures_of(study)}
        measures = [MEASURES[name] for name in study.measures]
        rows, first = study.rows_at(options.scale), options.seed
        asked = [r for r in rows if r.name in (options.rows or (r.name,))]
        needed = [row.source for row in asked]
        for row in rows:
            folder = os.path.join(options.output_dir, row.name)
            if row.source == row.name and not data.init_checkpoint:
                place = os.path.join(folder, PRETRAINING)
                seconds, is_asked = self._duration(row), row.name in needed
                yield Job(row, PRETRAINING, first, place, seconds, is_asked)
            sizes = self.sizes_of(row, self.scale.vocab_size) | data.model_sizes
            for run in dict.fromkeys(m.run for m in measures if m.applies(row)):
                count = 1 if run == HELD_OUT else options.num_trials
                is_given = row in asked and run in given
                there = files.find_in(folder, f"{run}-seed*")
                ends = (path.rpartition("seed")[2] for path in there)
                seeds = {int(end) for end in ends if end.isdigit()}
                for seed in sorted(seeds.union(range(first, first + count))):
                    place = os.path.join(folder, f"{run}-seed{seed}")
                    seconds = _seconds(run, sizes)
                    is_asked = is_given and seed < first + count
                    yield Job(row, run, seed, place, seconds, is_asked)

    def _duration(self, row: Row) -> float:
        """The expected duration of a pretraining."""
        if self.minutes:
            return 60 * self.minutes
        tokens = self.steps * self.scale.batch_size * LENGTH
        predicted = 1.0 if row.pretraining.get("objective") else 0.15
        sizes = self.sizes_of(row, self.scale.vocab_size)
        return 15 + training_flops(sizes, LENGTH, predicted) * tokens / _FLOPS

    def sizes_of(self, row: Row, vocab_size: int) -> dict[str, Any]:
        """Returns bert_config.json of a row."""
        own = {**self.study.sizes, **self.study.row(row.source).sizes}
        return {**SIZES, **own, "vocab_size": vocab_size}

    def pretraining_flags(self, row: Row) -> dict[str, Any]:
        """Returns the flags of run_pretraining.py for a row."""
        shares = {r.share for r in self.study.rows if r.source == row.name}
        return {
            "do_train": True,
            "max_seq_length": LENGTH,
            "max_predictions_per_seq": NUM_PREDICTIONS,
            "train_batch_size": self.scale.batch_size,
            "learning_rate": 5e-4,
            # From random weights so small a run learns little more than how
            # frequent words are: perplexity 388, not 107 (`pretraining_tasks`).
            "first_weights": "neighbors",
            "num_train_steps": self.steps,
            "num_warmup_steps": self.steps // 10,
            "save_checkpoints_steps": max(1, self.steps // max(3, len(shares))),
            "keep_checkpoint_max": 0 if len(shares) > 1 else 1,
            "xla": self.scale.xla,
            "eval_batch_size": 64,
            "max_eval_steps": self.scale.max_eval_steps,
            "seed": self.options.seed,
            "precision": self.options.precision,
            **({"num_train_minutes": self.minutes} if self.minutes else {}),
            **row.pretraining,
        }

    def finetuning_flags(self, job: Job) -> dict[str, Any]:
        """Returns the flags of run_classifier.py or run_squad.py."""
        measure = next(m for m in MEASURES.values() if m.run == job.run)
        is_given = self.options.data.init_checkpoint
        rate = {"learning_rate": _RATE_OF_GIVEN} if is_given else {}
        flags = {**FINETUNING, **rate, **measure.flags, **job.row.finetuning}
        does = {"do_eval": True, "explain_errors": 0}
        if job.run == SPANS:  # its evaluation is prediction
            does = {"do_predict": True}
            for name in ("eval_batch_size", "feature_based"):
                flags.pop(name, None)
        return flags | {
            **does,
            "num_train_epochs": flags["num_train_epochs"] * self.scale.epochs,
            "do_train": True,
            "seed": job.seed,
            "precision": self.options.precision,
        }


def training_flops(
    sizes: Mapping[str, Any], length: int, predicted: float
) -> float:
    """Returns the operations of training on one wordpiece.

    They are 72 L H^2 for the products with weights, 12 L S H for attention and
    6 V H for each prediction, forward and backward. `sizes` are members of
    bert_config.json, `length` the wordpieces of a row, `predicted` the share of
    them that are predicted.
    """
    layers, hidden = sizes["num_hidden_layers"], sizes["hidden_size"]
    blocks = 72 * layers * hidden**2 + 12 * layers * length * hidden
    return blocks + 6 * sizes["vocab_size"] * hidden * predicted


def _seconds(run: str, sizes: Mapping[str, Any]) -> float:
    """The expected duration of a run that measures a model of these sizes."""
    share = sizes["num_hidden_layers"] / 2 * (sizes["hidden_size"] / 128) ** 2
    fixed, of_arithmetic = _SECONDS.get(run, (20, 3))  # of a task
    return fixed + of_arithmetic * share


def record_flags(row: Row) -> dict[str, Any]:
    """Returns the flags of create_pretraining_data.py for a row's records.

    All rows have records without masks, which training masks.
    """
    return {
        "max_seq_length": LENGTH,
        "max_predictions_per_seq": NUM_PREDICTIONS,
        "masking": "dynamic",
        "dupe_factor": 2,
        **row.records,
    }
