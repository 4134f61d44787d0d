"""The folder of a model: its files, what they say, and its weights."""

import dataclasses
import hashlib
import os
from collections.abc import Mapping
from typing import Any

import tensorflow as tf
from absl import logging

from data.storage import files
from data.storage.json_files import find_json, read_json
from modeling.checkpoints import huggingface, tf1
from modeling.checkpoints.assign import LoadReport, Weights, assign, require_fit
from modeling.config import BertConfig, label_names

CONFIG = "bert_config.json"
# The vocabulary; the second is the only one that transformers 5 writes.
VOCABULARIES = ("vocab.txt", "tokenizer.json")
# A label a line, in the order of the rows of the output layer.
LABELS = "labels.txt"
# What a run says about its model.
DESCRIPTION = "task.json"
REMEDY = (
    "remove it, and run the program of its run again with --do_eval or "
    "--do_predict (of a pretraining --do_export) and all flags of that run, "
    "which writes it again"
)
# Temperature and thresholds, with a hash of the weights.
CALIBRATION = "calibration.json"
# The head of an unfinished run, unless it is linear.
HEAD = "head.json"
HEAD_REMEDY = "it should hold feature_based and head of its run"
# The folder in an output_dir with the weights that --save_best chose.
BEST = "best"
# The checkpoint in an output_dir with the output rows in the task's order.
REORDERED = "reordered.ckpt"
_PRETRAINING = "pretraining"
# The files of a model, as errors name them.
_EXPECTED = (
    "bert_config.json, vocab.txt and a checkpoint such as "
    "bert_model.ckpt.index, or config.json, vocab.txt and model.safetensors"
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelFolder:
    """The files of a model, and what they say; the weights are not read.

    Attributes:
      path: the folder; for trials, the chosen trial's folder.
      weights: what `checkpoints.open_checkpoint` takes.
      config_file: path of the configuration; None = it is missing.
      vocab_file: path of the vocabulary; None = it is missing.
      labels: names of the rows of the output layer; () = no file says.
      labels_file: path of the file that names them; None = it is missing.
      facts: what its run says about its texts, see `tokenizer_files`; {} = no
        run does.
      kind: what the model is for, see `modeling.load`; None = no file says.
      head: arguments of `TaskModel` beside kind and number of labels.
      description: the content of `task.json`; None = it is missing.
    """

    path: str
    weights: str
    config_file: str | None
    vocab_file: str | None
    labels: tuple[str, ...] = ()
    labels_file: str | None = None
    facts: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    kind: str | None = None
    head: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    description: Mapping[str, Any] | None = None

    @property
    def is_huggingface(self) -> bool:
        """Whether it is in Hugging Face's format: the folder is the weights."""
        return self.weights == self.path

    def read_config(self) -> BertConfig:
        """Reads the configuration; raises ValueError if it is malformed."""
        if not self.config_file:
            raise FileNotFoundError(
                f"{self.weights} is there, but no {CONFIG} or "
                f"{huggingface.CONFIG} in {self.path}; put it there."
            )
        return BertConfig.from_json_file(self.config_file)


def find(path: str) -> ModelFolder:
    """Finds the files of a model.

    Args:
      path: a folder of the original release (`bert_model.ckpt`,
        `bert_config.json`, `vocab.txt`), of Hugging Face (`model.safetensors`,
        `config.json`, `vocab.txt`), or the output_dir of a run: for trials the
        chosen trial, with --save_best the best weights, else the last. Or the
        prefix of a checkpoint in such a folder, such as `DIR/bert_model.ckpt`.

    Returns:
      The files.

    Raises:
      FileNotFoundError: the folder is missing, or has no model.
      ValueError: the path is a file, the folder holds several models, or a file
        is damaged.
      OSError: the folder cannot be read.
    """
    try:
        return _find(os.fspath(path))
    except tf.errors.OpError as error:
        reason = error.message.splitlines()[0]
        raise OSError(
            f"{path}: the folder cannot be read ({reason})."
        ) from None


def _find(path: str) -> ModelFolder:
    if _is_prefix(path) or not tf.io.gfile.isdir(path):
        prefix = tf1.without_ending(path)
        if not path or not _is_prefix(prefix):
            raise _no_folder(path)
        return _original(beside(prefix), prefix)
    folder = chosen_trial(path)
    names = sorted(name.rstrip("/") for name in tf.io.gfile.listdir(folder))
    prefixes = [n.removesuffix(".index") for n in names if n.endswith(".index")]
    if huggingface.is_folder(folder):
        if not prefixes:
            return _theirs(folder)
        raise ValueError(
            f"{folder} holds two models, {prefixes[0]} of the original's "
            "format and one of Hugging Face's; put each into a folder, or give "
            f"the first by its prefix: {os.path.join(folder, prefixes[0])}"
        )
    if described := described_weights(folder, *prefixes):
        return _original(folder, described)
    if not prefixes:
        raise _no_model(folder, names)
    latest, prefix = tf1.latest_name(folder), os.path.join(folder, prefixes[0])
    if latest in prefixes:
        prefix = os.path.join(folder, latest)
    elif len(prefixes) > 1:
        raise ValueError(
            f"{folder} holds {len(prefixes)} models, "
            f"{', '.join(prefixes):.300}, and no `checkpoint` file that "
            f"names one of them; give one by its prefix: {prefix}"
        )
    elif latest is not None:
        logging.warning(
            "%s: its `checkpoint` file is damaged, or names what is not there "
            "(%s); taking %s.",
            *(folder, latest or "nothing", prefixes[0]),
        )
    return _original(beside(prefix), prefix)


def open_checkpoint(path: str) -> Weights:
    """Opens a checkpoint in either format.

    The path is the prefix of a checkpoint, or a folder, see `find`. Raises
    FileNotFoundError if there is no checkpoint, and ValueError if it is damaged
    or the folder holds several models.
    """
    if tf.io.gfile.isdir(path) and not _is_prefix(path):
        path = find(path).weights
    if huggingface.is_folder(path):
        return huggingface.HuggingFaceCheckpoint(path)
    return tf1.Checkpoint(path)


def weights_sha256(path: str) -> str:
    """A checksum of a checkpoint's weights, in either format."""
    checkpoint, checksum = open_checkpoint(path), hashlib.sha256()
    for name in sorted(filter(tf1.is_weight, checkpoint.shapes)):
        checksum.update(name.encode())
        checksum.update(checkpoint.read(name).tobytes())
    return checksum.hexdigest()


def init_from_checkpoint(
    path: str, variables: Mapping[str, tf.Variable]
) -> LoadReport:
    """Loads weights, without optimizer slots and step.

    For the arguments see `open_checkpoint`, `variables_by_name` and
    `require_fit`. Raises ValueError if the checkpoint does not fit; then no
    variable was assigned.

    Source: `modeling.get_assignment_map_from_checkpoint`.
    """
    checkpoint = open_checkpoint(path)
    report = require_fit(checkpoint, variables)
    assign(checkpoint, {name: variables[name] for name in report.loaded})
    return report


def chosen_trial(output_dir: str) -> str:
    """Returns the folder of a run's model; for trials, the chosen one's."""
    path = os.path.join(output_dir, "trials.json")
    found = find_json(path, ("chosen",))
    folder = os.path.join(output_dir, f"{found.get('chosen')}")
    # If that one is gone, none is chosen.
    return folder if found and files.is_folder(folder) else output_dir


def given_weights(folder: str) -> str | None:
    """Returns the weights in a folder that no run wrote there, or None."""
    if tf1.has_run(folder):
        return None
    if huggingface.is_folder(folder):
        return folder
    for path in files.find_in(folder, "*.index"):
        prefix = tf1.without_ending(os.path.basename(path))
        has_data = files.find_in(folder, f"{prefix}.data-*")
        if has_data and not prefix.startswith(REORDERED):
            return os.path.join(folder, prefix)
    return None


def read_description(folder: str) -> dict[str, Any] | None:
    """Returns the content of `task.json`, or None; refuses a damaged one."""
    path = os.path.join(folder, DESCRIPTION)
    content = find_json(path, ("kind", "weights", "model"), REMEDY)
    weights, model = content.get("weights", ""), content.get("model", {})
    if not (isinstance(weights, str) and isinstance(model, dict)):
        raise ValueError(
            f"{path} is damaged: weights is {weights!r} and model {model!r}, "
            f"expected a path and an object; {REMEDY}."
        )
    return content or None


def described_weights(folder: str, *prefixes: str) -> str | None:
    """Returns the weights that `task.json` names; None = look for the latest.

    `prefixes` are checkpoints in the folder, each of which may be the latest.
    Raises FileNotFoundError if the named weights are gone.
    """
    description = read_description(folder)
    if not description or not (weights := description["weights"]):
        return None  # the run is not finished
    # The newest checkpoint counts, also if the run was continued and killed
    # after the description was written.
    if description["kind"] == _PRETRAINING and prefixes:
        return None
    is_best = os.path.dirname(weights) == BEST
    if not is_best and tf1.latest_name(folder) in prefixes:
        return None
    # `join` recognises absolute paths that begin with `/`, but not `gs://`.
    if "://" not in weights:
        weights = os.path.join(folder, weights)
    if _is_prefix(weights) or huggingface.is_folder(weights):
        return weights
    best = os.path.dirname(weights)
    if os.path.basename(best) == BEST and tf.io.gfile.isdir(best):
        return _find(best).weights
    raise FileNotFoundError(
        f"{folder}/{DESCRIPTION} names the weights {weights}, which are gone; "
        "put them back, or give other weights (--init_checkpoint)."
    )


def _is_prefix(path: str) -> bool:
    """Returns whether a path is the prefix of a checkpoint."""
    return tf.io.gfile.exists(f"{path}.index")


def _original(folder: str, prefix: str) -> ModelFolder:
    """A model of the original's format, or of a run."""
    places = folder, beside(prefix)
    facts = read_description(folder) or {}
    labels = files.first_of((LABELS,), *places)
    return ModelFolder(
        path=folder,
        weights=prefix,
        config_file=files.first_of((CONFIG, huggingface.CONFIG), *places),
        vocab_file=files.first_of(VOCABULARIES, *places),
        labels=tuple(files.read_lines(labels)) if labels else (),
        labels_file=labels,
        facts=facts,
        kind=facts.get("kind"),
        head=find_json(os.path.join(folder, HEAD), remedy=HEAD_REMEDY),
        description=facts or None,
    )


def _theirs(folder: str) -> ModelFolder:
    """A model of Hugging Face."""
    config_file = files.first_of((huggingface.CONFIG, CONFIG), folder)
    remedy = "get the folder again"
    values = read_json(config_file, remedy=remedy) if config_file else {}
    kind, said = huggingface.kind_of(values), read_description(folder) or {}
    labels = tuple(label_names(values, config_file or ""))
    has_labels = kind not in (None, "choice", "regression")
    if kind not in (None, said.get("kind")) or (
        has_labels and tuple(said.get("labels", labels)) != labels
    ):
        said = {}  # others have written over the folder since
    return ModelFolder(
        path=folder,
        weights=folder,
        config_file=config_file,
        vocab_file=files.first_of(VOCABULARIES, folder),
        labels=labels,
        labels_file=config_file,
        kind=said.get("kind", kind),
        description=said or None,
    )


def beside(weights: str) -> str:
    """Returns the folder that describes weights; of Hugging Face, itself."""
    if not _is_prefix(weights):
        return weights
    folder = os.path.dirname(weights)
    parent, name = os.path.split(folder)
    # A model's own folder may have this name, too.
    if name == BEST and not files.first_of([CONFIG], folder):
        folder = parent
    return folder or "."


def _no_folder(path: str) -> Exception:
    """The error for a path that is not a folder."""
    if path and tf.io.gfile.exists(path):
        return ValueError(
            f"{path} is a file; give the folder of a model, here "
            f"{os.path.dirname(path) or '.'}, or the prefix of a checkpoint."
        )
    return FileNotFoundError(
        f"{path!r}: there is no such folder, and no checkpoint of this prefix. "
        f"Give a folder with {_EXPECTED}. {tf1.NO_HUB}"
    )


def _no_model(folder: str, names: list[str]) -> FileNotFoundError:
    """The error for a folder without weights."""
    is_stopped = any(n.startswith((DESCRIPTION, "trial-")) for n in names)
    or_again = " Or give the command of its run again, which was stopped."
    return FileNotFoundError(
        f"{folder} holds no model, but {', '.join(names) or 'nothing':.300}. "
        f"Give {_EXPECTED}, or an output_dir.{or_again * is_stopped}"
    )
