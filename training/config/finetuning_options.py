"""Options of fine-tuning, and of run_classifier.py."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

from data import tasks
from data.finetuning.long_text import LongTextOptions
from data.settings import amount, group, optional, setting, share, switch
from data.tasks.class_weights import ClassWeights, parse_weights
from modeling.choices import HEADS, MIXES
from training.config import shared
from training.config.distill_options import DistillOptions
from training.config.run_options import DeviceOptions, TrainOptions

# As the server and the released folders call them, in the order of Table 1.
GLUE = ("MNLI", "QQP", "QNLI", "SST-2", "CoLA", "STS-B", "MRPC", "RTE", "WNLI")
DIAGNOSTIC = "AX"


class FinetuningOptions(shared.Options):
    """How a model is fine-tuned, evaluated and asked."""

    bert_config_file: str | None = optional(shared.BERT_CONFIG_FILE)
    init_checkpoint: str | None = optional(shared.INIT_CHECKPOINT)
    max_seq_length: int = setting(128, "Wordpieces of a row.")
    num_train_epochs: float = setting(3.0, "Passes over the examples.", above=0)
    warmup_proportion: float = share(0.1, "Share of the updates that warm up.")
    predict_batch_size: int = setting(8, "Rows predicted at once.", least=1)
    eval_batch_size: int = setting(8, "Examples of one eval batch.", least=1)
    trim_batches: bool = setting(
        True, "[new] Cut a batch to its longest row; not on a TPU. Same result."
    )
    group_by_length: bool = switch("[new] Batch train rows of similar length.")
    shuffle_window: int = amount(
        0, "[new] Records to draw the next from; 0 = all; the original has 100."
    )
    save_best: str = setting(
        "",
        "[new] Use the best weights by this metric, kept in OUTPUT_DIR/best: "
        "such as eval_loss, f1, DEV_SET/f1; with --eval_every_steps.",
    )
    early_stopping_patience: int = amount(
        0, "[new] Stop after this many evaluations without improvement; 0: off."
    )
    strip_checkpoint: bool = switch(
        "[new] After training, remove the optimizer slots, two thirds of a "
        "checkpoint; the run cannot be trained further."
    )
    use_one_hot_embeddings: bool = switch(f"[new] {shared.ONE_HOT}")
    # The steps follow from the epochs.
    train: TrainOptions = group(
        num_train_steps=1, num_warmup_steps=0, stop_at_step=0, continue_from=""
    )
    device: DeviceOptions


class TaskRunOptions(shared.Options):
    """What every run of fine-tuning has.

    `given` holds the flags that the command gives; None = all.
    """

    given: frozenset[str] | None = None
    vocab_file: str | None = optional(shared.VOCAB_FILE)
    do_lower_case: bool = setting(True, shared.DO_LOWER_CASE)
    never_split: tuple[str, ...] = setting((), shared.NEVER_SPLIT)
    do_train: bool = switch("Whether to train.")
    do_export: bool = switch(shared.DO_EXPORT)
    finetuning: FinetuningOptions

    def _check(self) -> None:
        self._need("early_stopping_patience", "save_best")
        if self.do_train:
            self._need("save_best", "eval_every_steps")
        self._require("vocab_file", "bert_config_file")

    @property
    def output_dir(self) -> str:
        """The folder of the run."""
        return self.finetuning.train.output_dir

    @property
    def watches(self) -> bool:
        """Whether it evaluates while it trains."""
        return self.do_train and self.finetuning.train.eval_every_steps > 0


class TrialOptions(shared.Options):
    """How many times a task is trained, and with which settings."""

    num_trials: int = setting(
        1, "[new] Train with this many seeds; take the best on dev.", least=1
    )
    learning_rates: tuple[float, ...] = setting(
        (),
        "[new] Learning rates to try, for GLUE 5e-5,4e-5,3e-5,2e-5 (the "
        "paper's section 4.1); the best median over the seeds is taken.",
        flag="trial_learning_rates",
        above=0,
    )
    epochs: tuple[float, ...] = setting(
        (), "[new] Epochs to try, as 2,3,4.", flag="trial_epochs", above=0
    )
    batch_sizes: tuple[int, ...] = setting(
        (), "[new] Batch sizes to try.", flag="trial_batch_sizes", least=1
    )

    def _check(self) -> None:
        for name in ("learning_rates", "epochs", "batch_sizes"):
            values = getattr(self, name)
            text = f"--trial_{name}={','.join(map(str, values))}"
            if len(set(values)) < len(values):
                raise ValueError(f"{text} has a value twice; give each once.")


class TaskOptions(shared.Options):
    """Options of some tasks, above all tables (tsv, csv, jsonl).

    The other tasks refuse them. None = not given.
    """

    # They name data, and do not say how a model reads it.
    OF_ONE_COMMAND: ClassVar[frozenset[str]] = frozenset(
        (*tasks.FILES, "tfds", "tfds_data_dir", "labels")
    )

    language: str | None = optional("[new] xnli: default zh.")
    tfds: str | None = optional(
        "[new] Data set of tensorflow-datasets, in place of --data_dir; '' = "
        "the task's own."
    )
    tfds_data_dir: str | None = optional("[new] Folder of tensorflow-datasets.")
    kind: str | None = optional(
        "[new] tsv, csv, jsonl: single (a text and a label; the default), pair,"
        " regression, multilabel, choice or tagging."
    )
    label_column: str | None = optional(
        "[new] Tables, conll, conllu: column of the label: its name, or its "
        "number from 0; -1 = the last."
    )
    id_column: str | None = optional("[new] Tables: column that names a row.")
    label_separator: str | None = optional(
        "[new] Tables: separates labels in a multilabel cell; default: comma."
    )
    train_file: str | None = optional(
        "[new] Tables, conll, conllu: train set, a file of --data_dir."
    )
    dev_file: str | None = optional("[new] The same for the dev set.")
    test_file: str | None = optional("[new] The same for the test set.")
    dev_share: float | None = optional(
        "[new] Tables: draw this share of the train set's rows as dev set by a "
        "hash of their text, so that a row keeps its set when rows are added."
    )
    drop_missing: bool | None = optional(
        "[new] Tables: leave out rows with an empty text or label; default: "
        "they are refused, or kept if only a text is empty."
    )
    text_columns: list[str] | None = optional(
        "[new] tsv, csv, jsonl: columns of the text, or of both."
    )
    choice_columns: list[str] | None = optional(
        "[new] tsv, csv, jsonl: columns of the endings of a choice."
    )
    labels: list[str] | None = optional(
        "[new] Tables, conll, conllu: the labels in the order of their ids; "
        "default: those of the train set, sorted."
    )
    metrics: list[str] | None = optional(
        "[new] Tables: metrics, the main one first, such as macro_f1,accuracy."
    )
    quoted: bool | None = optional(
        "[new] Tables: cells may be in double quotes; default: in csv."
    )
    separator: str | None = optional(
        "[new] csv, tsv: column separator: comma, semicolon, tab, bar or any "
        "one character; default: tab in tsv, detected in csv."
    )


class ClassifierOptions(TaskRunOptions):
    """What run_classifier.py does.

    `task_options` are the fields of `TaskOptions` that are given.
    """

    task_name: str | None = optional(
        f"The task: {', '.join(tasks.task_names())}; or several, with commas, "
        "or GLUE, each in OUTPUT_DIR/TASK. A finished OUTPUT_DIR knows its own."
    )
    data_dir: str | None = optional("Folder of the files, or of task folders.")
    task_options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    document_context: bool = switch(
        "[new] conll, conllu: fill each row with the neighboring sentences."
    )
    long_text: LongTextOptions = LongTextOptions()
    do_eval: bool = switch("Whether to score the dev sets.")
    eval_checkpoints: str = setting(
        "last",
        "[new] Checkpoints to score (checkpoints.tsv): last, all or 100,200.",
    )
    calibrate: bool = switch(
        "[new] Labels: fit one temperature of the probabilities and a threshold"
        " of each label on the dev set, and keep them in OUTPUT_DIR."
    )
    use_calibration: bool = setting(True, "[new] Use what --calibrate kept.")
    explain_errors: int | None = optional(
        "[new] Shade words in errors.html by their attribution, in this many "
        "examples of highest loss; default: 10 for labels of texts, 0 = none.",
        least=0,
    )
    do_predict: bool = switch("Whether to predict the test sets.")
    write_texts: bool = switch("[new] Write the texts to predictions.tsv, too.")
    class_weights: ClassWeights = setting(
        (),
        "[new] Class weights in the loss, by id; balanced = inverse frequency.",
        parse=parse_weights,
    )
    feature_based: str = setting(
        "",
        "[new] Train a BiLSTM on these layers of a frozen encoder "
        "(the paper's section 5.3); wants --learning_rate=3e-3.",
        choices=("", *MIXES, "table"),
    )
    head: str = setting(
        "linear",
        "[new] Layers after the encoder: linear; bilstm (two layers, then "
        "linear), the default with --feature_based; or mean (linear on the "
        "mean over the text, for small models).",
        choices=HEADS,
    )
    distillation: DistillOptions = DistillOptions()

    def _check(self) -> None:
        works = (self.do_train, self.do_eval, self.do_predict, self.do_export)
        which = self.eval_checkpoints
        if not any(works):
            raise ValueError(
                "At least one of `do_train`, `do_eval` or `do_predict' must be "
                "True."
            )
        if self.feature_based == "table":
            raise ValueError(
                "--feature_based=table: run_study.py --study=features makes it."
            )
        # The whole encoder is frozen.
        self._exclude("feature_based", "trainable_layers", "layerwise_lr_decay")
        are_steps = all(step.isdecimal() for step in which.split(","))
        if which not in ("last", "all") and not are_steps:
            raise ValueError(
                f"--eval_checkpoints={which}; it must be last, all, or steps "
                "with commas between, such as 100,200."
            )
        self._exclude("calibrate", "use_calibration")
        for name in ("eval_checkpoints", "calibrate", "explain_errors"):
            self._need(name, "do_eval")
        self._need("write_texts", "do_predict")
        for name in task_names(self.task_name):
            tasks.require_task(name)
        self._require("task_name")
        super()._check()


def task_names(text: str | None) -> list[str]:
    """Returns the tasks of --task_name with GLUE's spelling."""
    text = text or ""  # output_dir knows it
    if text.strip().lower() == "glue":
        return list(GLUE)
    usual = {name.lower(): name for name in (*GLUE, DIAGNOSTIC)}
    names = list(filter(None, (name.strip() for name in text.split(","))))
    return [usual.get(name.lower(), name) for name in names]
