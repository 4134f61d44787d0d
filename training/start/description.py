"""task.json: what a folder's model was made with.

The run that trains writes it before the first step, and completes it at the
end. Later commands in the folder read it, see `remembered`, and keep it.
"""

import dataclasses
import os
from collections.abc import Collection, Mapping
from typing import Any, ClassVar

from absl import logging

from data import settings
from data.finetuning.long_text import LongTextOptions
from data.squad import window_options
from data.storage import files
from data.storage.json_files import find_json, write_json
from data.tasks.task import KINDS
from data.text import vocabulary
from data.text.tokenization import FullTokenizer
from modeling.checkpoints import model_folder, tf1
from modeling.checkpoints.vector_form import VECTOR_FORM
from training.loop.checkpointing import CheckpointManager

UNFINISHED = "%s holds a run that is not finished; give its command again."


@dataclasses.dataclass(frozen=True, kw_only=True)
class Description:
    """All that turns texts into a model's input, and its output into answers.

    A subclass names its kinds, `class ADescription(Description, kinds=(...))`,
    and `read` returns it for `task.json` files of these kinds.

    Attributes:
      task_name: what it was trained for.
      kind: one of `tasks.KINDS`, `span`, `vectors` or `pretraining`.
      max_seq_length: most wordpieces of a row.
      do_lower_case: True for an uncased vocabulary.
      model: arguments of the model beside config, dtype and
        use_one_hot_embeddings.
      weights: prefix of the checkpoint, as seen from the folder; "" = the run
        is not finished.
      never_split: see `FullTokenizer`.
      save_best: see `FinetuningOptions`.
      distillation: see `DistillOptions.remembered`.
    """

    classes: ClassVar[dict[str, type["Description"]]] = {}

    task_name: str
    kind: str
    max_seq_length: int
    do_lower_case: bool
    model: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    weights: str = ""
    never_split: tuple[str, ...] = ()
    save_best: str = ""
    distillation: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __init_subclass__(cls, kinds: tuple[str, ...]):
        Description.classes |= dict.fromkeys(kinds, cls)

    def options(self) -> dict[str, Any]:
        """Returns field of a program's options -> value of the model's run."""
        return {
            "do_lower_case": self.do_lower_case,
            "never_split": tuple(self.never_split),
            "save_best": self.save_best,
            **self.distillation,
        }

    def write(self, output_dir: str, vocab_file: str | None) -> None:
        """Writes `task.json`, and a copy of the vocabulary; None = none."""
        if vocab_file:
            tokens = vocabulary.read_tokens(vocab_file)
            vocabulary.write_vocab(vocab_of(output_dir), tokens)
        path = os.path.join(output_dir, model_folder.DESCRIPTION)
        write_json(path, dataclasses.asdict(self))


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskDescription(Description, kinds=KINDS):
    """Describes a `TaskModel`.

    Attributes:
      labels: in the order of their ids.
      is_pair: whether an example has two texts; None = no file said it.
      cut: see `FeatureOptions`.
      label_separator: see `Task`.
      document_context: see `FeatureOptions`; a server sees single sentences.
      stride: see `FeatureOptions`.
      pooling: see `LongTextOptions`.
      columns: options of the task that say how its files are read. A
        `dev_share` of None says that the run had none.
      separator: see `Task.train_separator`.
    """

    labels: tuple[str, ...]
    is_pair: bool | None = None
    cut: str = "longest"
    label_separator: str = ","
    document_context: bool = False
    stride: int = 0
    pooling: str = "mean"
    columns: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    separator: str = ""

    def __post_init__(self):
        # JSON has lists only.
        object.__setattr__(self, "labels", tuple(self.labels))

    def options(self) -> dict[str, Any]:
        """See `Description.options`."""
        long_text = LongTextOptions()
        if self.stride:
            long_text = LongTextOptions(mode="windows", pooling=self.pooling)
            if self.stride != long_text.stride_of(self.max_seq_length):
                long_text = long_text.replace(stride=self.stride)
        return super().options() | {
            "max_seq_length": self.max_seq_length,
            "document_context": self.document_context,
            "long_text": long_text,
            "task_name": self.task_name,
            "task_options": dict(self.columns),
        }


@dataclasses.dataclass(frozen=True, kw_only=True)
class SpanDescription(Description, kinds=("span",)):
    """Describes a `SpanModel`; see `SquadOptions` for the fields."""

    doc_stride: int
    max_query_length: int
    n_best_size: int
    max_answer_length: int
    version_2_with_negative: bool
    null_score_diff_threshold: float
    score_padding: bool = False

    def options(self) -> dict[str, Any]:
        """See `Description.options`; the threshold has a file of its own."""
        values = vars(self.windows) | vars(self.answers)
        del values["null_score_diff_threshold"]
        values["score_padding"] = self.score_padding
        return super().options() | values

    @property
    def windows(self) -> window_options.WindowOptions:
        """Lengths of the windows."""
        return settings.make(window_options.WindowOptions, vars(self))

    @property
    def answers(self) -> window_options.AnswerOptions:
        """How answers are chosen."""
        return settings.make(window_options.AnswerOptions, vars(self))


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingDescription(Description, kinds=("pretraining",)):
    """Describes a `PretrainingModel`.

    Attributes:
      top_k: words for each [MASK].
    """

    top_k: int

    def options(self) -> dict[str, Any]:
        """See `Description.options`; the length is an export's."""
        return super().options() | {"predict_top_k": self.top_k}


@dataclasses.dataclass(frozen=True, kw_only=True)
class VectorDescription(Description, kinds=("vectors",)):
    """Describes a `SentenceEncoder`; `sentence_vectors.json` has its form.

    Attributes:
      data: field of `SentenceOptions` or `TextOptions` -> its value, for those
        that say how texts are read and what trains.
    """

    data: Mapping[str, Any]

    def options(self) -> dict[str, Any]:
        """See `Description.options`."""
        values = super().options() | {"max_seq_length": self.max_seq_length}
        for name, value in self.data.items():
            values[name] = tuple(value) if isinstance(value, list) else value
        return values


def find(output_dir: str) -> Description | None:
    """Reads `task.json`, or None; refuses a damaged one, and other versions."""
    facts = model_folder.read_description(output_dir)
    return of_facts(facts, output_dir) if facts else None


def require_kind(
    output_dir: str, found: Description | None, kinds: Collection[str]
) -> None:
    """Refuses a folder with a trained model of none of `kinds`; () = any."""
    is_other = found and kinds and found.kind not in kinds
    if is_other and tf1.has_run(output_dir):
        raise ValueError(
            f"{output_dir} holds a model of the kind {found.kind}, but this "
            f"command is for {' or '.join(kinds)}; use the program that "
            "trained it, without --task_name and --kind, or another folder."
        )


def require_texts(
    found: Description | None, is_pair: bool, output_dir: str
) -> None:
    """Refuses single texts for a model of pairs, and vice versa."""
    if getattr(found, "is_pair", is_pair) not in (None, is_pair):
        texts = {False: "single texts", True: "pairs of texts"}
        raise ValueError(
            f"the examples are {texts[is_pair]}, but the model of {output_dir} "
            f"was trained on {texts[not is_pair]}; give those, by --task_name, "
            "or --kind and --text_columns, or another --output_dir."
        )


def is_elsewhere(weights: str) -> bool:
    """Whether `Description.weights` are not in the folder itself."""
    return os.path.isabs(weights) or "://" in weights


def names_model(options: settings.Settings) -> bool:
    """Whether the command gives --init_checkpoint, as Python always does."""
    return options.given is None or "init_checkpoint" in options.given


def forget_other_model(output_dir: str, weights: str | None) -> None:
    """Removes what an earlier command left in a folder about another model.

    `weights` are those that the command uses, see `Description.weights`; None =
    it trains.
    """
    found = find(output_dir)
    if not found or found.weights == weights:
        return
    names = (model_folder.DESCRIPTION, model_folder.LABELS, VECTOR_FORM)
    names += ("metrics.json", window_options.THRESHOLD_FILE)
    for path in (os.path.join(output_dir, name) for name in names):
        if files.exists(path):
            logging.info("%s, of an earlier command, is removed.", path)
            files.remove(path)


def warn_if_unfinished(folder: str, facts: Mapping[str, Any] | None) -> None:
    """Warns of a folder whose training was stopped; `facts` are `task.json`."""
    if facts and not of_facts(facts, folder).weights:
        logging.warning(UNFINISHED, folder)


def require_vocabulary(folder: str, tokenizer: FullTokenizer) -> None:
    """Raises ValueError if the run in a folder has another vocabulary."""
    now = vocabulary.sha256(tokenizer.vocab)
    if CheckpointManager(folder).made_from().get("vocab_sha256", now) != now:
        raise ValueError(
            f"--vocab_file: not the vocabulary that the model in {folder} was "
            "trained with; put that one back, or give it."
        )


def keep(
    options: settings.Settings,
    found: Description | None,
    weights: str,
    **changes: Any,
) -> bool:
    """Keeps a folder's `task.json` from a command that does not train.

    `found` is its content, None = there is none; `changes` are new values of
    fields; `weights` is the prefix of the checkpoint that the command uses.
    Returns False if the command trains; if there is no file to keep; if labels
    are reordered; if nothing was trained in the folder, and the command names a
    checkpoint elsewhere; or if the original program trained the folder.
    """
    if options.do_train or found is None:
        return False
    output_dir = options.find("output_dir")
    place = place_of_weights(weights, output_dir)
    if place == model_folder.REORDERED != found.weights:
        return False
    is_untrained = not tf1.has_run(output_dir)
    if is_untrained and is_elsewhere(place) and names_model(options):
        return False
    if not (is_untrained or CheckpointManager(output_dir).made_from()):
        return False  # the original does not say it; this command does
    warn_if_unfinished(output_dir, vars(found))
    kept = dataclasses.replace(found, **changes)
    if kept != found:
        kept.write(output_dir, vocab_file=None)
    return True


def make(options: settings.Settings, made: type, **facts: Any) -> Any:
    """Makes a run's description, of the class `made`, without its weights.

    `facts` are the fields that are not the options'.
    """
    for name in ("do_lower_case", "never_split", "save_best", "max_seq_length"):
        facts[name] = options.find(name)
    return made(**facts)


def write(
    options: settings.Settings, described: Description, weights: str
) -> None:
    """Writes `task.json` of a run.

    `weights` is the prefix of the checkpoint, "" = the training begins.
    """
    output_dir = options.find("output_dir")
    place = weights and place_of_weights(weights, output_dir)
    kept = options.do_train and weights and files.exists(vocab_of(output_dir))
    vocab_file = None if kept else options.vocab_file
    dataclasses.replace(described, weights=place).write(output_dir, vocab_file)


def read(output_dir: str) -> Description:
    """Reads `task.json` of a finished run.

    Raises ValueError if there is none, it is of another version, or the run is
    not finished.
    """
    if not (found := find(output_dir)):
        raise ValueError(
            f"{output_dir} has no task.json, which says what its model is for; "
            "give a finished run's --output_dir, or also the flags of its run."
        )
    if not found.weights:
        raise ValueError(UNFINISHED % output_dir)
    return found


def of_facts(facts: Mapping[str, Any], folder: str) -> Description:
    """Makes a description of the content of a folder's `task.json`.

    Raises ValueError for another version's, and for values of other types.
    """
    try:
        made = Description.classes[facts["kind"]](**facts)
        settings.make(type(made), vars(made))  # refuses other types
        return made
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{folder}/task.json has another version ({error}); "
            f"{model_folder.REMEDY}."
        ) from None


def settings_of(folder: str, found: Description | None) -> dict[str, Any]:
    """Returns what a folder's `task.json` and `head.json` say of options."""
    head = os.path.join(folder, model_folder.HEAD)
    said = find_json(head, remedy=model_folder.HEAD_REMEDY)
    return (found.options() if found else {}) | said


def vocab_of(output_dir: str) -> str:
    """Returns the path of the copy that a run makes of its vocabulary."""
    return os.path.join(output_dir, model_folder.VOCABULARIES[0])


def place_of_weights(prefix: str, output_dir: str) -> str:
    """Returns what `Description.weights` says of a checkpoint.

    The path is relative to output_dir, so that the folder can be moved; of a
    checkpoint outside of it, absolute.
    """
    if "://" in prefix:
        if prefix.rstrip("/") == output_dir.rstrip("/"):
            return "."
        return prefix.removeprefix(os.path.join(output_dir, ""))
    for resolve in (os.path.abspath, os.path.realpath):
        place, folder = map(resolve, (prefix, output_dir))
        if place == folder:
            return "."
        inside = place.removeprefix(os.path.join(folder, ""))
        if inside != place:
            return inside
    return os.path.abspath(prefix)
