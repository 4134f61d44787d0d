"""Checks the weights of --init_checkpoint before a run, and loads them."""

import os
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import tensorflow as tf
from absl import logging

from data.storage import files, outputs
from modeling import checkpoints
from modeling.checkpoints import huggingface, model_folder
from modeling.config import BertConfig
from training.start.source import Source


class _Rows(NamedTuple):
    """The rows of a checkpoint's output layer for the labels of a task.

    `places` are the row of each label, None = there is none; () = the layer has
    no labels. `said` is a message for the user, "" = nothing differs. With
    `are_others`, the layer was trained for other labels.
    """

    places: tuple[int | None, ...] = ()
    said: str = ""
    are_others: bool = False


class FirstWeights:
    """The weights of a checkpoint that fit a model.

    Args:
      source: the model of --init_checkpoint.
      variables: full name -> variable of the model; only shapes are read.
      heads: variables of the output layer, which is random if the checkpoint
        has another head; () = all weights must fit.
      labels: names of the rows of the heads; () = none, as in a regression.
      reads_pooler: whether the heads read the pooler, which may be missing.

    Attributes:
      untrained: names of the variables that the checkpoint does not have. They
        must be trained before they are used.
      loaded_whole: names of those that it gives, of which no row is random.
      new_labels: ids of the labels that its output layer has no row for, which
        are random rows.

    Raises:
      ValueError, OSError: the checkpoint is missing, damaged or does not fit.
    """

    def __init__(
        self,
        source: Source,
        variables: Mapping[str, tf.Variable],
        heads: Collection[str] = (),
        labels: Sequence[str] = (),
        reads_pooler: bool = False,
    ):
        self._source, self.path = source, source.path
        self.head = source.folder.head if source.folder else {}
        self._kind = source.folder.kind if source.folder else None
        weights = source.folder.weights if source.folder else source.path
        self._checkpoint = checkpoints.open_checkpoint(weights)
        self._labels = labels
        self._heads = [name for name in heads if name in variables]
        self._rows, seen = _Rows(), dict(variables)
        # Differs from the original: rows are put into the order of the task's
        # labels, because the original loads them unchanged, and a model with
        # another order of its labels is always wrong.
        if labels and self._checkpoint.shapes.keys() >= {*self._heads}:
            self._rows = _match_rows(source, labels)
        places, _, are_others = self._rows
        self.new_labels = [i for i, place in enumerate(places) if place is None]
        for name in self._heads if are_others else ():
            row = seen.pop(name).shape[1:]
            if len(self.new_labels) < len(places):  # a row for each of theirs
                seen[name] = tf.TensorSpec([len(source.folder.labels), *row])
        others = [n for n in variables if not checkpoints.is_of_encoder(n)]
        self._report = checkpoints.require_fit(
            self._checkpoint, seen, others if heads else ()
        )
        misshapen, left_out = self._report.misshapen.keys(), ()
        if misshapen:  # A head of another shape is random.
            left_out = self._heads if misshapen <= {*self._heads} else others
        self._loaded = [n for n in self._report.loaded if n not in left_out]
        self.untrained = [n for n in variables if n not in self._loaded]
        poolers = [n for n in self.untrained if n.startswith("bert/pooler/")]
        self._poolers = poolers if reads_pooler else []
        missing = [n for n in others if n not in self._loaded]
        self._missing = missing + self._poolers
        self.loaded_whole = {*self._loaded} - {*self._heads}

    def load(self, variables: Mapping[str, tf.Variable]) -> None:
        """Assigns variables by full name, and logs which were loaded."""
        self._variables = variables
        places, said, are_others = self._rows
        heads = [name for name in self._heads if name in self._loaded]
        rows = dict.fromkeys(heads, places) if places else {}
        loaded = {name: variables[name] for name in self._loaded}
        checkpoints.assign(self._checkpoint, loaded, rows)
        logging.info("%s", self._report)
        # Differs from the original: it does not report missing weights.
        if self._poolers:
            logging.warning(
                "--init_checkpoint=%s has no %s, which the output layer reads: "
                "it starts from random values.",
                *(self.path, " and ".join(self._poolers)),
            )
        new = ", ".join(self._labels[i] for i in self.new_labels)
        if are_others:
            what = f"The rows of {new} start from random values."
            said += f" {what if new else 'The other rows are left out.'}"
        if rows and said or are_others:
            # Rows without names, which are in order, cannot be compared.
            log = logging.info if self._is_reordered else logging.warning
            log("%s", said)
        if self._report.misshapen:
            logging.warning(
                "--init_checkpoint=%s has another head, such as one for other "
                "labels: all but the head is taken; the head is random (%s).",
                *(self.path, "; ".join(self._report.misshapen.values())),
            )

    def prefix(self, output_dir: str) -> str:
        """Returns a checkpoint of the weights as they were loaded.

        It is a prefix, or the folder of a Hugging Face model; a copy in
        output_dir if the rows of the output layer were put into another order.
        """
        if not self._is_reordered:
            return self._checkpoint.prefix
        prefix = os.path.join(output_dir, model_folder.REORDERED)
        values = {name: v.numpy() for name, v in self._variables.items()}
        checkpoints.write(prefix, values)
        names, beside = [model_folder.CALIBRATION], self._source.folder.path
        if calibration := files.first_of(names, beside):
            logging.warning(
                "%s is not used: it has another order of labels.", calibration
            )
        return prefix

    @property
    def _is_reordered(self) -> bool:
        places, _, are_others = self._rows
        return not are_others and [*places] != sorted(places)

    def require_own_labels(self, output_dir: str, trains: bool) -> None:
        """Refuses other labels than those of weights in output_dir itself."""
        is_other = self._is_reordered or trains and self._rows.are_others
        if is_other and outputs.are_same(self._source.folder.path, output_dir):
            raise ValueError(
                f"{self._rows.said} A model keeps labels in its own folder; "
                "give --labels as they are there, or another --output_dir."
            )

    def has_heads(self, kind: str | None) -> bool:
        """Whether the output layer answers a kind, at least some labels."""
        return not self._missing and self._is_of(kind)

    def _is_of(self, kind: str | None) -> bool:
        # Heads of numbers and of choices have one shape.
        return None in (kind, self._kind) or kind == self._kind

    def require_heads(self, kind: str | None) -> None:
        """Raises ValueError if heads are missing, or of others than asked."""
        if not self._is_of(kind):
            raise ValueError(
                f"--init_checkpoint={self.path} is of the kind {self._kind}, "
                f"not {kind}; train first (--do_train), or give another model."
            )
        if self._rows.are_others:
            raise ValueError(
                f"{self._rows.said} Give a model of the task's labels. If only "
                "the names differ, write the task's labels into that file, in "
                "the order of the rows. Or train first (--do_train)."
            )
        # Differs from the original: this is an error, because the original
        # predicts with random weights.
        if self._missing:
            raise ValueError(
                f"--init_checkpoint={self.path} has no "
                f"{' and '.join(self._missing)} for this task; train first "
                "(--do_train), or give a model that was fine-tuned on it."
            )


def compare(source: Source, config: BertConfig) -> None:
    """Warns if the weights were trained with another configuration.

    It is read beside the weights, if it is there. The shapes of the weights are
    the same with another activation, direction or number of heads. This happens
    when Hugging Face's weights are loaded with the original's bert_config.json:
    its `gelu` is the tanh form.
    """
    is_theirs = bool(source.folder) and source.folder.is_huggingface
    try:
        trained = source.config or config
    except (ValueError, OSError):
        if is_theirs:
            raise
        return  # the weights alone are enough
    names = ["left_to_right"] * trained.left_to_right
    names += ["hidden_act", "num_attention_heads"] * is_theirs
    for name in names:
        ours, theirs = getattr(config, name), getattr(trained, name)
        if ours == theirs:
            continue
        if theirs == "gelu_exact":
            theirs += " (the erf form; Hugging Face calls it gelu)"
        logging.warning(
            "--bert_config_file says %s %s, but the weights of %s were trained "
            "with %s. Give --bert_config_file=%s, unless this is intended.",
            *(name, ours, source.path, theirs, source.folder.config_file),
        )


def _match_rows(source: Source, labels: Sequence[str]) -> _Rows:
    """Finds the row of a checkpoint's output layer for each label of a task.

    The names are those of `id2label` in Hugging Face's config.json, or of
    labels.txt beside the original's files. Upper and lower case are the same,
    unless that would make two labels one: MNLI's models say `ENTAILMENT` or
    `entailment`. `labels` are in the order of their ids. Raises ValueError if a
    file beside the weights is damaged.
    """
    source.require()
    path, names = source.folder.labels_file, source.folder.labels
    ours, theirs = ", ".join(labels), ", ".join(names)
    flag = f"--init_checkpoint={source.path}"
    in_order, places = tuple(range(len(labels))), _places(labels, names)
    new = [x for x, row in zip(labels, places, strict=True) if row is None]
    if not new and len(names) == len(labels):
        said = (
            f"{flag}: the rows of its output layer are reordered from {theirs} "
            f"({path}) to the order of the task: {ours}."
        )
        return _Rows(places, said if places != in_order else "")
    if names and [*names] != huggingface.numbered(len(labels)):
        said = (
            f"{flag}: its output layer has the labels {theirs} ({path}), but "
            f"the task has {ours}."
        )
        return _Rows(places, said, are_others=True)
    said = f"only the numbers {theirs} ({path})" if names else "no names"
    said = (
        f"{flag} has {said} for the rows of its output layer; they are assumed "
        f"to be {ours}, in this order."
    )
    return _Rows(in_order, said)


def _places(
    labels: Sequence[str], names: Sequence[str]
) -> tuple[int | None, ...]:
    """Returns the place of each label in names; None = it is not there."""
    for form in (lambda name: name.strip().casefold(), str.strip, str):
        wanted, found = list(map(form, labels)), list(map(form, names))
        if all(len({*some}) == len(some) for some in (wanted, found)):
            break
    return tuple(found.index(x) if x in found else None for x in wanted)
