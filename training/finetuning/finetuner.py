"""The model of a fine-tuning run: trained, evaluated and used to predict."""

import functools
import gc
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf
from absl import logging

from data.records import length_batches, reuse
from data.records.damage import naming_damage
from data.records.input_pipeline import RecordFiles
from modeling import checkpoints
from modeling.losses import Distillation
from training.config.finetuning_options import FinetuningOptions
from training.config.run_options import TrainOptions
from training.devices.strategy import create_strategy, is_tpu
from training.finetuning.predictions import ExampleScores
from training.inference import OutputCollector
from training.loop.steps import trimming, with_fusion
from training.loop.trainer import Trainer
from training.start import setup
from training.start.start import Start


def with_steps(options: FinetuningOptions, num_examples: int) -> TrainOptions:
    """Returns `options.train` with numbers of steps for some examples.

    `num_train_steps` and `num_warmup_steps` are rounded down. Raises ValueError
    for less than one step.

    Source: `run_classifier.main`.
    """
    batch_size = options.train.train_batch_size
    steps = int(num_examples / batch_size * options.num_train_epochs)
    if not steps:
        raise ValueError(
            f"{num_examples} training examples in batches of {batch_size}, "
            f"{options.num_train_epochs} times: less than one step. Give more "
            "examples, a smaller --train_batch_size or more --num_train_epochs."
        )
    warmup = int(steps * options.warmup_proportion)
    return options.train.replace(num_train_steps=steps, num_warmup_steps=warmup)


class Finetuning:
    """A model of one task in its output_dir.

    Args:
      start: what the run begins with. Its configuration, head and labels are
        written to output_dir.
      num_choices: C, inputs of one example.
      pooling: see `long_text.pool`, if examples have several windows.
      make_batches: returns the batches to train on; None =
        `length_batches.training_batches`, also for the arguments.
      distillation: see `ItemObjective`.
      begin: see `Trainer.train`.

    Attributes:
      model: until `train` or `restore` it has the weights of init_checkpoint
        and a head drawn from the seed.
      first: the weights of init_checkpoint; None = not loaded.
      manager: writes the checkpoints in output_dir.

    Raises ValueError or OSError if output_dir cannot be used.
    """

    def __init__(
        self,
        start: Start,
        num_choices: int = 1,
        pooling: str = "",
        make_batches: Callable[..., tf.data.Dataset] | None = None,
        distillation: Distillation | None = None,
        begin: Callable[[], None] = lambda: None,
    ):
        # Reference cycles keep the previous model alive.
        gc.collect()
        self._start, options = start, start.options
        self.options = options
        self._pooling, self._begin = pooling, begin
        self._strategy = create_strategy(options.device)
        self.first, self.manager = start.first, start.manager
        self._before = start.manager.latest_step() or 0
        start.keep()
        with self._strategy.scope():
            self.model = start.load(self._strategy)
            self.model.distillation = distillation
            self._weights = checkpoints.variables_by_name(self.model.layers)
            self._collector = OutputCollector(self.model)
        trims = options.trim_batches and not is_tpu(self._strategy)
        self._batching = {"trim": trims, "num_choices": num_choices}
        names = ("group_by_length", "shuffle_window")
        self._order = {name: getattr(options, name) for name in names}
        self._make_batches = make_batches or functools.partial(
            length_batches.training_batches, num_choices=num_choices
        )

    def train(
        self,
        train_files: RecordFiles,
        evaluate: Callable[[int], bool | None] | None = None,
        num_examples: int | None = None,
    ) -> int:
        """Trains to the end, and returns the last step.

        It begins from the newest checkpoint of output_dir if there is one.
        `evaluate` is called with the step every `eval_every_steps`; True =
        stop. `num_examples` is the size of an epoch; None = all records.
        """
        num_examples, records = num_examples or train_files.count, ""
        if num_examples != train_files.count:
            records = f" ({train_files.count} records)"
        train = with_steps(self.options, num_examples)
        logging.info(
            "***** Running training *****\n  Num examples = %d%s\n"
            "  Batch size = %d\n  Num steps = %d",
            *(num_examples, records),
            *(train.train_batch_size, train.num_train_steps),
        )
        weights = {"class_weights": [*getattr(self.model, "class_weights", ())]}
        settings = train.shaping | weights | self._order | self._start.origin
        config, length = self.model.config, self.options.max_seq_length
        trims = self._batching["trim"]
        with self._strategy.scope(), naming_damage(train_files):
            train = with_fusion(train, config, seq_length=length, trims=trims)
            how = {"batch_size": train.train_batch_size, "seed": train.seed}
            how |= self._order | {"trim": trimming(train) if trims else None}
            batches = functools.partial(self._make_batches, train_files, **how)
            return Trainer(self.model, train, evaluate).train(
                lambda first, shard: batches(first_example=first, shard=shard),
                num_examples=train_files.count,
                made_from=reuse.made_from(train_files.paths[0]),
                settings=settings,
                begin=self._begin,
            )

    def restore(self) -> int:
        """Loads the newest checkpoint of output_dir; returns its step.

        Step 0 = the weights of init_checkpoint, if there is no checkpoint;
        `Start` has refused those without a head. Raises ValueError if a
        checkpoint does not fit.
        """
        with self._strategy.scope():
            return self._start.restore(self._weights)

    def finish(self, *, keeps_all: bool = False, **old: Sequence[str]) -> None:
        """Removes the checkpoints and slots that a finished run can spare.

        `keeps_all` keeps all checkpoints. It warns of `old` files that exist:
        flag that writes them -> names.
        """
        if (step := self.manager.latest_step()) != self._before:
            folder = self.options.train.output_dir
            for flag, names in old.items():
                setup.warn_of_earlier(folder, step, f"--{flag}", *names)
        # Differs from the original: the last checkpoint alone is kept, because
        # five of BERT-Large with slots take 20 GB. The original's own stay.
        if not keeps_all and self.options.train.keep_checkpoint_max is None:
            self.manager.keep_latest()
        if self.options.strip_checkpoint:
            self.manager.strip()

    def save_weights(self, prefix: str) -> None:
        """Writes a checkpoint of the weights, without slots and step."""
        values = {name: v.numpy() for name, v in self._weights.items()}
        checkpoints.write(prefix, values)

    def load(self, prefix: str) -> None:
        """Loads all weights from a checkpoint, which must have them all."""
        with self._strategy.scope():
            report = checkpoints.init_from_checkpoint(prefix, self._weights)
        if report.missing:
            raise ValueError(
                f"{prefix} holds another model: it lacks {report.missing[0]}. "
                "Give another --output_dir, or the flags of that run."
            )

    def evaluate(
        self, eval_files: RecordFiles
    ) -> tuple[dict[str, float], ExampleScores]:
        """Returns the original's figures, and the scores of every example."""
        scores = self.predict(eval_files, "eval_batch_size")
        batch_size = self.options.eval_batch_size
        return scores.summary(self.model.metric, batch_size), scores

    def predict(
        self, record_files: RecordFiles, batch_size: str = "predict_batch_size"
    ) -> ExampleScores:
        """The scores of every example; windows are pooled; see `outputs`."""
        outputs, kind = self.outputs(record_files, batch_size), self.model.kind
        return ExampleScores.of_outputs(outputs, kind, self._pooling)

    def outputs(
        self, record_files: RecordFiles, batch_size: str = "predict_batch_size"
    ) -> dict[str, np.ndarray]:
        """Runs the model once over every example; see `OutputCollector`.

        `batch_size` is the field of the options.
        """
        what = "evaluating" if batch_size[:4] == "eval" else "predicting"
        return self._collector.of_records(
            *(record_files, what, self.options.max_seq_length),
            batch_size=getattr(self.options, batch_size),
            **self._batching,
        )
