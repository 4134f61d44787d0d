"""Assigns a checkpoint's arrays to a model's variables, with a report."""

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf
from absl import logging

from modeling.checkpoints.tf1 import Weights, is_weight

Variables = Mapping[str, tf.Variable]
# Scopes of encoders -> the kind of model.
_ENCODERS = {
    "bert": "a BERT",
    "electra": "an ELECTRA",
    "generator": "an ELECTRA",
}


def is_of_encoder(name: str) -> bool:
    """Whether a variable is the encoder's, not a head's or a generator's."""
    return name.startswith(("bert/", "electra/"))


def variables_by_name(layers: Iterable[keras.layers.Layer]) -> Variables:
    """Maps checkpoint names to a model's variables, in the order of creation.

    `layers` are the top layers of a model, each built on its own, so that a
    variable's path starts with the layer's name (`bert/...`). The variables of
    frozen layers are included.
    """
    return {x.path: x.value for layer in layers for x in layer.weights}


@dataclasses.dataclass(frozen=True)
class LoadReport:
    """Which variables of a model and a checkpoint match, and which do not.

    Attributes:
      source: the checkpoint.
      loaded: names in both, in the same shape.
      missing: names of the model that the checkpoint lacks; they keep their
        initial values.
      unused: weights of the checkpoint that the model lacks.
      misshapen: names of variables whose shapes differ, each with a line that
        says them.
    """

    source: str
    loaded: tuple[str, ...]
    missing: tuple[str, ...]
    unused: tuple[str, ...]
    misshapen: Mapping[str, str]

    def __str__(self):
        lines = [
            f"{self.source}: {len(self.loaded)} variables loaded, "
            f"{len(self.missing)} missing, {len(self.unused)} unused, "
            f"{len(self.misshapen)} misshapen."
        ]
        lines += [f"  missing: {name}" for name in self.missing]
        lines += [f"  unused: {name}" for name in self.unused]
        lines += [f"  misshapen: {line}" for line in self.misshapen.values()]
        return "\n".join(lines)

    def log(self) -> None:
        """Logs the report, as a warning if variables keep random values."""
        level = logging.WARNING if self.missing else logging.INFO
        logging.log(level, "%s", self)


def compare(checkpoint: Weights, variables: Variables) -> LoadReport:
    """Reports which variables a checkpoint has, without loading them."""
    shapes = checkpoint.shapes
    misshapen = {
        name: f"{name}: {shapes[name]} in the checkpoint, "
        f"{tuple(variable.shape)} in the model"
        for name, variable in variables.items()
        if name in shapes and shapes[name] != tuple(variable.shape)
    }
    missing = [name for name in variables if name not in shapes]
    loaded = [n for n in variables if n in shapes and n not in misshapen]
    unused = filter(is_weight, sorted(shapes.keys() - variables.keys()))
    lists = map(tuple, (loaded, missing, unused))
    return LoadReport(checkpoint.prefix, *lists, misshapen)


def assign(
    checkpoint: Weights,
    variables: Variables,
    rows: Mapping[str, Sequence[int | None]] | None = None,
) -> None:
    """Reads all values, then assigns them.

    The checkpoint has all the variables, in the same shapes. `rows` are name ->
    for each row of the variable, its row in the checkpoint, None = it keeps
    its value; by default the order is kept. Raises ValueError if a value is
    damaged; then no variable was assigned.
    """
    values = {name: checkpoint.read(name) for name in variables}
    for name, order in (rows or {}).items():
        kept = variables[name].numpy()
        pairs = enumerate(order)
        values[name] = np.stack(
            [kept[i] if x is None else values[name][x] for i, x in pairs]
        )
    for name, value in values.items():
        variables[name].assign(value)


def require_fit(
    checkpoint: Weights, variables: Variables, heads: Collection[str] = ()
) -> LoadReport:
    """Raises ValueError if a model cannot start from a checkpoint.

    The checkpoint must have the whole encoder (`bert/...` or `electra/...`)
    except its pooler, which Hugging Face's models for masked LM, words and
    questions lack. Missing heads (`cls/...`, `output_weights`) keep their
    initial values, and so does ELECTRA's generator.

    Args:
      checkpoint: what `model_folder.open_checkpoint` returns.
      variables: name -> variable; only their shapes are read.
      heads: variables of a task's head. If the checkpoint has them in other
        shapes, they keep their initial values and are `misshapen` in the
        report.
    """
    _require_kind(checkpoint, variables)
    report = compare(checkpoint, variables)
    missing = [n for n in report.missing if not n.startswith("bert/pooler/")]
    # Differs from the original: a missing encoder is an error, because the
    # original loads the intersection of names without a message, and so a wrong
    # file trains from random weights.
    lines = report.misshapen
    wrong = [lines[name] for name in lines if name not in heads]
    wrong += [f"{name}: missing" for name in filter(is_of_encoder, missing)]
    if wrong:
        shown = "\n  ".join(wrong[:8])
        raise ValueError(
            f"{checkpoint.prefix} does not fit the configuration:\n  {shown}\n"
            f"{len(wrong)} variables differ. Use its own bert_config.json "
            "(--bert_config_file), or another --init_checkpoint: those of "
            "TensorFlow 2 and TF Hub have other names."
        )
    return report


def _require_kind(checkpoint: Weights, names: Iterable[str]) -> None:
    """Refuses an ELECTRA in a BERT, the reverse, and a generator alone."""
    wanted, found = (
        _ENCODERS.keys() & {name.partition("/encoder/")[0] for name in some}
        for some in (names, checkpoint.shapes)
    )
    if not wanted or not found or wanted & found - {"generator"}:
        return
    if "bert" not in wanted | found:
        raise ValueError(
            f"{checkpoint.prefix} holds only the generator of an ELECTRA; give "
            "one with the discriminator, such as electra-small-discriminator."
        )
    is_electra = "false" if "bert" in wanted else "true"
    remedy = (
        "Give the configuration of this checkpoint (of a released ELECTRA "
        "such as configs/electra_small.json) by --bert_config_file"
    )
    if "generator" in wanted:  # whatever the file says
        remedy = "Leave out --objective=replaced_tokens, which trains ELECTRAs"
    raise ValueError(
        f"{checkpoint.prefix} is {_ENCODERS[found.pop()]}, but the "
        f"configuration is that of {_ENCODERS[wanted.pop()]} (its "
        f'"electra" is {is_electra}). {remedy}, or give another '
        "--init_checkpoint."
    )
