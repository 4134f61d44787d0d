"""What the programs of fine-tuning are told, as frozen values.

No TensorFlow here: flags that contradict each other are refused before it is
loaded.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from data.squad.answers import AnswerOptions
from data.squad.articles import SquadData
from data.squad.windows import WindowOptions
from data.tasks import require_task
from training.config.options import DeviceOptions, TrainOptions

# As the server and the released folders call them, in the order of Table 1.
GLUE = ("MNLI", "QQP", "QNLI", "SST-2", "CoLA", "STS-B", "MRPC", "RTE", "WNLI")
DIAGNOSTIC = "AX"
# In place of a mix of layers: each in turn, see `layer_table`.
TABLE = "table"


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetuningOptions:
    """How a model is fine-tuned, evaluated and asked.

    Attributes:
      bert_config_file: JSON file with the model's sizes.
      init_checkpoint: weights to start from, or None.
      max_seq_length: wordpieces of an example (of a choice).
      num_train_epochs: passes over the training examples.
      warmup_proportion: share of the steps that the rate rises in.
      eval_batch_size: examples of one evaluation batch.
      predict_batch_size: examples of one prediction batch.
      trim_batches: cut each batch to its longest example; never on a TPU.
      group_by_length: see `length_batches.training_batches`.
      shuffle_window: see `length_batches.training_batches`.
      save_best: metric by which the weights are chosen, see `Selection`; "" =
        the last ones.
      early_stopping_patience: evaluations without improvement after which
        training stops; 0 = it never does.
      use_one_hot_embeddings: look words up by matrix product (TPU).
      train: options of the loop; its steps are set by num_train_epochs and
        warmup_proportion, see `with_steps`.
      device: options of the device.
    """

    bert_config_file: str
    init_checkpoint: str | None = None
    max_seq_length: int = 128
    num_train_epochs: float = 3.0
    warmup_proportion: float = 0.1
    eval_batch_size: int = 8
    predict_batch_size: int = 8
    trim_batches: bool = True
    group_by_length: bool = False
    shuffle_window: int = 0
    save_best: str = ""
    early_stopping_patience: int = 0
    use_one_hot_embeddings: bool = False
    train: TrainOptions
    device: DeviceOptions

    def __post_init__(self):
        for name in ("eval_batch_size", "predict_batch_size"):
            if getattr(self, name) < 1:
                raise ValueError(
                    f"--{name}={getattr(self, name)}; it must be at least 1."
                )
        if self.early_stopping_patience < 0:
            raise ValueError(
                f"--early_stopping_patience={self.early_stopping_patience}; it "
                "must be at least 0 (0 = train to the end)."
            )
        if self.shuffle_window < 0:
            raise ValueError(
                f"--shuffle_window={self.shuffle_window}; it must be at least "
                "0 (0 = the whole input)."
            )
        if not self.num_train_epochs > 0:
            raise ValueError(
                f"--num_train_epochs={self.num_train_epochs}; it must be "
                "above 0."
            )
        if not 0 <= self.warmup_proportion <= 1:
            raise ValueError(
                f"--warmup_proportion={self.warmup_proportion}; it must be 0 "
                "to 1."
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrialOptions:
    """How often a task is trained, and with what.

    Attributes:
      num_trials: seeds: the run's, and those after it.
      learning_rates: () = the run's.
      epochs: likewise.
      batch_sizes: likewise.
    """

    num_trials: int = 1
    learning_rates: tuple[float, ...] = ()
    epochs: tuple[float, ...] = ()
    batch_sizes: tuple[int, ...] = ()

    def __post_init__(self):
        if self.num_trials < 1:
            raise ValueError(
                f"--num_trials={self.num_trials}; it must be at least 1."
            )
        for name in ("learning_rates", "epochs", "batch_sizes"):
            values = getattr(self, name)
            if len(set(values)) < len(values):
                raise ValueError(
                    f"--trial_{name}={','.join(map(str, values))} has a value "
                    "twice; give each once."
                )

    @property
    def are_asked_for(self) -> bool:
        """False = one run, as the original's."""
        return self != TrialOptions()


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassifierOptions:
    """What run_classifier.py does.

    Attributes:
      task_name: one of `tasks.task_names`.
      data_dir: folder of its files.
      task_options: what only some tasks take; see `tasks.get_task`.
      vocab_file: the model's vocabulary.
      do_lower_case: True for an uncased vocabulary.
      document_context: see `FeatureOptions`.
      do_train: train on the train set.
      do_eval: score the dev sets.
      eval_checkpoints: of which checkpoints: `last`, `all`, or steps with
        commas between; see `compare_checkpoints`.
      do_predict: answer the test sets.
      class_weights: see `TaskModel`.
      feature_based: likewise.
      head: likewise.
      finetuning: how.
    """

    task_name: str
    data_dir: str | None
    task_options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    vocab_file: str
    do_lower_case: bool = True
    document_context: bool = False
    do_train: bool = False
    do_eval: bool = False
    eval_checkpoints: str = "last"
    do_predict: bool = False
    class_weights: tuple[float, ...] = ()
    feature_based: str = ""
    head: str = "linear"
    finetuning: FinetuningOptions

    def __post_init__(self):
        if not (self.do_train or self.do_eval or self.do_predict):
            raise ValueError(
                "At least one of `do_train`, `do_eval` or `do_predict' must be "
                "True."
            )
        check_selection(self.finetuning, self.do_train)
        check_frozen(self.finetuning.train, self.feature_based)
        check_steps(self.eval_checkpoints, self.do_eval)
        for name in task_names(self.task_name):
            require_task(name)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SquadOptions:
    """What run_squad.py does.

    Attributes:
      train_file: questions to train on, in SQuAD's form.
      predict_file: questions to answer, and to score if they have answers.
      tfds: data set of tensorflow-datasets in place of both files; its splits
        are train and validation.
      tfds_data_dir: see `SquadData`.
      vocab_file: the model's vocabulary.
      do_lower_case: True for an uncased vocabulary.
      do_train: train.
      do_predict: answer.
      doc_stride: see `WindowOptions`.
      max_query_length: likewise.
      n_best_size: see `AnswerOptions`.
      max_answer_length: likewise.
      version_2_with_negative: there are questions without an answer.
      null_score_diff_threshold: see `Answering`.
      find_null_threshold: likewise.
      count_windows: count epochs by windows; False = by questions, of which
        long paragraphs have several windows, so that three epochs are fewer
        passes over them, as in the original.
      score_padding: see `SpanModel`; no batch is trimmed then.
      write_html: write predictions.html.
      num_processes: that make records.
      finetuning: how.
    """

    train_file: str | None = None
    predict_file: str | None = None
    tfds: str | None = None
    tfds_data_dir: str | None = None
    vocab_file: str
    do_lower_case: bool = True
    do_train: bool = False
    do_predict: bool = False
    doc_stride: int = 128
    max_query_length: int = 64
    n_best_size: int = 20
    max_answer_length: int = 30
    version_2_with_negative: bool = False
    null_score_diff_threshold: float | None = None
    find_null_threshold: bool = False
    count_windows: bool = False
    score_padding: bool = False
    write_html: bool = False
    num_processes: int = 1
    finetuning: FinetuningOptions

    def __post_init__(self):
        # The checks and words of the original's validate_flags_or_throw.
        if not self.do_train and not self.do_predict:
            raise ValueError(
                "At least one of `do_train` or `do_predict` must be True."
            )
        for name, is_needed in (
            ("train_file", self.do_train),
            ("predict_file", self.do_predict or self._watches),
        ):
            if not is_needed or self.tfds or getattr(self, name):
                continue
            why = "do_" + name.removesuffix("_file")
            if not getattr(self, why):
                why = "eval_every_steps"
            raise ValueError(
                f"If `{why}` is True, then `{name}` must be specified."
            )
        if self.tfds and (self.train_file or self.predict_file):
            raise ValueError(
                "--tfds takes the place of --train_file and --predict_file; "
                "give it alone."
            )
        check_selection(self.finetuning, self.do_train)
        if self.find_null_threshold:
            self._check_find_null_threshold()

    def _check_find_null_threshold(self):
        if not (self.version_2_with_negative and self.do_predict):
            raise ValueError(
                "--find_null_threshold needs --version_2_with_negative and "
                "--do_predict."
            )
        if self.null_score_diff_threshold is not None:
            raise ValueError(
                "--find_null_threshold and --null_score_diff_threshold="
                f"{self.null_score_diff_threshold} exclude each other; give "
                "one of them."
            )

    @property
    def _watches(self) -> bool:
        return self.do_train and self.finetuning.train.eval_every_steps > 0

    @property
    def train_data(self) -> SquadData | None:
        """The questions to train on; None = not wanted."""
        return self._data(self.train_file, "train") if self.do_train else None

    @property
    def predict_data(self) -> SquadData | None:
        """The questions to answer, in the end or now and then, or None."""
        if self.do_predict or self._watches:
            return self._data(self.predict_file, "validation")
        return None

    def _data(self, path: str | None, split: str) -> SquadData:
        return SquadData(path or "", self.tfds or "", self.tfds_data_dir, split)

    @property
    def windows(self) -> WindowOptions:
        """How long windows are."""
        return WindowOptions(
            self.finetuning.max_seq_length,
            self.doc_stride,
            self.max_query_length,
        )

    @property
    def answers(self) -> AnswerOptions:
        """How answers are chosen, but for the threshold."""
        return AnswerOptions(
            n_best_size=self.n_best_size,
            max_answer_length=self.max_answer_length,
            version_2_with_negative=self.version_2_with_negative,
        )


def task_names(text: str) -> list[str]:
    """The tasks that --task_name stands for, as GLUE writes them."""
    if text.strip().lower() == "glue":
        return list(GLUE)
    usual = {name.lower(): name for name in (*GLUE, DIAGNOSTIC)}
    names = list(filter(None, (name.strip() for name in text.split(","))))
    return [usual.get(name.lower(), name) for name in names]


def check_selection(options: FinetuningOptions, do_train: bool) -> None:
    """Refuses flags that contradict each other, before any work.

    Args:
      options: what the flags say.
      do_train: whether to train.

    Raises:
      ValueError: says which flag is missing.
    """
    if not options.save_best:
        if options.early_stopping_patience:
            raise ValueError(
                f"--early_stopping_patience={options.early_stopping_patience} "
                "stops when a metric gets no better; say which, for example "
                "--save_best=eval_loss."
            )
    elif do_train and not options.train.eval_every_steps:
        raise ValueError(
            f"--save_best={options.save_best} compares evaluations while "
            "training; say how often, for example --eval_every_steps=100."
        )


def check_frozen(options: TrainOptions, feature_based: str) -> None:
    """Refuses flags that say how the encoder learns, when it does not.

    Args:
      options: of the training.
      feature_based: see `TaskModel`.

    Raises:
      ValueError: names them.
    """
    if not feature_based:
        return
    for name in ("trainable_layers", "layerwise_lr_decay"):
        value = getattr(options, name)
        if value != getattr(TrainOptions, name):
            raise ValueError(
                f"--{name}={value}, but --feature_based={feature_based} "
                "freezes the whole encoder; leave one of them out."
            )


def check_steps(which: str, do_eval: bool) -> None:
    """Refuses what `compare_checkpoints` cannot read.

    Args:
      which: `last`, `all`, or steps with commas between.
      do_eval: whether to evaluate at all.

    Raises:
      ValueError: says what is expected.
    """
    if which not in ("last", "all") and not all(
        step.isdecimal() for step in which.split(",")
    ):
        raise ValueError(
            f"--eval_checkpoints={which}; it must be last, all, or steps with "
            "commas between, such as 100,200."
        )
    if which != "last" and not do_eval:
        raise ValueError(
            f"--eval_checkpoints={which} evaluates; give --do_eval too."
        )
