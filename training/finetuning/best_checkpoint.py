"""Keeps the weights with which a fine-tuned model ends: the last or the best.

An evaluation is a function from a step to results; see `metric_values`.
"""

import difflib
import functools
import itertools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from absl import logging

from data.records import reuse
from data.records.input_pipeline import RecordFiles
from data.storage import files, manifests
from data.storage.json_files import find_json, write_json
from modeling.checkpoints.model_folder import BEST
from training.config.finetuning_options import FinetuningOptions
from training.finetuning.metric_values import Results, flat, goodness
from training.loop.checkpointing import CheckpointManager

_RECORD = "best_checkpoint.json"
_KEYS = ("metric", "value", "step", "history", "dev")


class BestCheckpoint:
    """Trains a model, and loads the weights to use.

    Without `save_best` these are the last weights. With it, the weights of each
    evaluation that is better than all earlier ones are saved in
    `output_dir/best`, and `best_checkpoint.json` holds the history. Of equal
    evaluations, the first is kept.

    `names` are set -> names of the metrics of an evaluation; {} = nothing is
    evaluated. `metric` is a name of `metric_values.flat`; "" = the last weights
    are used. Raises ValueError if the metric is unknown, or output_dir holds a
    choice by another one.
    """

    def __init__(
        self, options: FinetuningOptions, names: Mapping[str, Sequence[str]]
    ):
        self._patience = options.early_stopping_patience
        self._output_dir = options.train.output_dir
        self._path = os.path.join(self._output_dir, _RECORD)
        self._best = CheckpointManager(os.path.join(self._output_dir, BEST))
        # Content of the file; {} = nothing is chosen yet.
        self._record: dict[str, Any] = {}
        self.metric = metric = options.save_best
        if not metric:
            return
        if names:
            metric = _find_metric(metric, names)
        record = find_json(self._path, _KEYS, "remove it to choose again")
        for entry in record.get("history", [])[:1]:
            first = next(name for name in entry if name != "step")
            metric = metric.removeprefix(f"{first}/")
        if record and record["metric"] != metric:
            raise ValueError(
                f"--save_best={metric}, but {self._path} has chosen by "
                f"{record['metric']}; give that, or another --output_dir."
            )
        self.metric, self._record = metric, record
        self._rank = functools.partial(goodness, metric)

    def train(
        self,
        finetuning: Any,
        evaluate: Callable[[int], Results],
        train_files: RecordFiles | None,
        dev: Iterable[RecordFiles] = (),
        num_examples: int | None = None,
        **dev_facts: Any,
    ) -> int:
        """Trains, resumes or, without records to train on, only loads.

        `evaluate` scores the current weights of a `Finetuning`; it takes their
        step. `dev_facts` are what `dev` is beside its records. Returns the
        step of the weights to use. Raises ValueError if earlier weights were
        chosen on another one.
        """
        self._finetuning, self._evaluate = finetuning, evaluate
        if not self.metric and files.exists(self._path):
            logging.warning(
                "%s holds the choice of a run with --save_best; without this "
                "flag the last weights are used, if kept, not the best.",
                self._output_dir,
            )
        if train_files is None:
            return self.restore()
        if (latest := finetuning.manager.latest_step()) is None:
            # The run was killed before its first checkpoint, or its checkpoints
            # were removed. It starts again.
            self._record = {}
        paths = [path for one in dev for path in one.paths]
        self._dev = [reuse.made_from(path) | dev_facts for path in paths]
        if self._record:
            self._chosen()
            self._require_same_dev()
            self._forget_after(latest)
        if self._is_over(latest):
            logging.warning(
                "%s was stopped at step %d, after --early_stopping_patience=%d "
                "evaluations without a better one: nothing to train. To "
                "continue, raise --early_stopping_patience or leave it out; to "
                "start again, give another --output_dir.",
                *(self._output_dir, latest, self._patience),
            )
            return self.restore()
        step = finetuning.train(train_files, self._compare, num_examples)
        if self.metric and step not in self._steps():
            self._compare(step)
        return self.restore() if self.metric else step

    def restore(self) -> int:
        """Loads the weights to use; returns their step, 0 = init_checkpoint.

        Raises ValueError if the folder holds no weights.
        """
        if not self.metric:
            return self._finetuning.restore()
        step = self._chosen()
        self._finetuning.load(self._best.prefix(step))
        logging.info(
            "Using the best weights, %s: %s = %.4f.",
            *(self._best.prefix(step), self.metric, self._record["value"]),
        )
        return step

    def _chosen(self) -> int:
        """The step of the best weights; refuses a folder without them."""
        if (step := self._record.get("step")) not in self._best.steps():
            raise ValueError(
                f"--save_best={self.metric}: {self._output_dir} holds no best "
                f"weights. Remove {_RECORD}, if any, and train with this flag "
                "(--do_train), or give --save_best= to use the last weights."
            )
        return step

    def weights(self, step: int) -> str:
        """The prefix of a step's weights; for 0, see `FirstWeights.prefix`."""
        if self.metric:
            return self._best.prefix(step)
        first = self._finetuning.first
        if first and not step:  # the original has a checkpoint of step 0
            return first.prefix(self._output_dir)
        return self._finetuning.manager.prefix(step)

    def note(self) -> dict:
        """Entries of metrics.json about the choice; {} without `save_best`."""
        if not self.metric:
            return {}
        return {"save_best": self.metric, "best": self._record["value"]}

    def _compare(self, step: int) -> bool:
        """Evaluates, keeps the weights if they are best; True = stop."""
        results = self._evaluate(step)
        if not self.metric:
            return False
        entry = {"step": step, **results}
        # A resumed run repeats evaluations; each is recorded once.
        others = self._record.get("history", [])
        history = [entry, *(x for x in others if x["step"] != step)]
        self._keep(entry, sorted(history, key=lambda x: x["step"]))
        logging.info(
            "Step %d: %s = %.4f; the best is %.4f at step %d.",
            *(step, self.metric, self._value(entry)),
            *(self._record["value"], self._record["step"]),
        )
        if stops := self._is_over(step):
            logging.info(
                "Stopping: no better in %d evaluations.", self._patience
            )
        return stops

    def _require_same_dev(self) -> None:
        before = self._record["dev"]
        pairs = itertools.zip_longest(before, self._dev, fillvalue={})
        if changed := [x for pair in pairs for x in manifests.changes(*pair)]:
            raise ValueError(
                f"{self._path}: the best weights were chosen on another dev "
                f"set, or otherwise: {'; '.join(changed)}. Give what they were "
                "chosen by, or another --output_dir."
            )

    def _value(self, entry: Mapping[str, Any]) -> float:
        """The metric's value in an entry of the history."""
        results = {name: x for name, x in entry.items() if name != "step"}
        return flat(results)[self.metric]

    def _keep(self, entry: Mapping[str, Any], history: list[dict]) -> None:
        """Records an evaluation, and keeps the weights if they are best."""
        before, value = self._record, self._value(entry)
        best = {"value": value, "step": entry["step"]}
        if before and not self._rank(value) > self._rank(before["value"]):
            best = {name: before[name] for name in best}
        else:
            self._finetuning.save_weights(self._best.prefix(entry["step"]))
        facts = {"metric": self.metric, "dev": self._dev}
        self._record = {**facts, **best, "history": history}
        # The record names only weights that exist: it is written after the new
        # weights, and before the old ones are removed.
        write_json(self._path, self._record)
        self._best.remove_leftovers()
        self._best.keep_only(best["step"])

    def _forget_after(self, step: int) -> None:
        """Forgets the evaluations after a step, which will be repeated.

        If the user has gone back to that step, best weights of a later step are
        replaced by the best checkpoint up to it, or forgotten if there is none.
        """
        manager, before = self._finetuning.manager, self._record["step"]
        history = [x for x in self._record["history"] if x["step"] <= step]
        self._record["history"] = history
        steps = manager.steps()
        # A run that was killed comes to its best weights once more.
        if before <= step or step == steps[-1]:
            return
        self._record = {}
        there = [entry for entry in history if entry["step"] in steps]
        now = "the choice begins again"
        if there:
            best = max(there, key=lambda x: self._rank(self._value(x)))
            self._finetuning.load(manager.prefix(best["step"]))
            self._keep(best, history)
            now = f"now the best are those of step {best['step']}"
        logging.warning(
            "%s resumes from step %d, without the best weights of step %d; %s.",
            *(self._output_dir, step, before, now),
        )

    def _is_over(self, step: int | None) -> bool:
        """Whether patience has run out at a step."""
        best = self._record.get("step", step)
        since = [s for s in self._steps() if best < s <= step]
        return 0 < self._patience <= len(since)

    def _steps(self) -> list[int]:
        return [entry["step"] for entry in self._record.get("history", [])]


def _find_metric(metric: str, names: Mapping[str, Sequence[str]]) -> str:
    """The metric's name in `flat`; refuses one that is not computed."""
    known = list(flat({s: dict.fromkeys(n, 0.0) for s, n in names.items()}))
    short = metric.removeprefix(f"{next(iter(names), '')}/")
    if short in known:
        return short
    near = difflib.get_close_matches(short, known, n=len(known), cutoff=0.0)
    raise ValueError(
        f"--save_best={metric}: evaluations give no such metric, but "
        f"{', '.join(near)} (the nearest first)."
    )
