"""Which signatures an export has, and which one is the default."""

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from training.config.run_options import ServingOptions
from training.export.functions import as_function
from training.export.requests import Inputs
from training.export.serving import DEFAULT, Serving

# Name of the signature of ids, mask and segments if it is not the default.
ROWS = "serve_rows"
# Name -> a `tf.function`, and an input of one example.
Signatures = dict[str, tuple[Callable, Inputs]]


def choose(serving: Serving, options: ServingOptions) -> Signatures:
    """Chooses the signatures of an export; by the default options all."""
    samples = serving.samples()
    names = {"ids": [DEFAULT, "serve_ids"], "examples": ["serve_examples"]}
    rows = sum(names.values(), [])
    names["text"] = [name for name in samples if name not in rows]
    chosen = {
        name: (serving.signatures[name], samples[name])
        for form in options.signatures
        for name in names[form]
    }
    default = names[options.signatures[0]][0]
    if default != DEFAULT:
        if DEFAULT in chosen:
            chosen[ROWS] = chosen[DEFAULT]
        chosen[DEFAULT] = chosen[default]
    if options.like_original:
        chosen[DEFAULT] = _like_original(serving, *chosen[DEFAULT])
    return chosen


def _like_original(
    serving: Serving, function: Callable, sample: Inputs
) -> tuple[Callable, Inputs]:
    """Gives a function the inputs and outputs of the original's model.

    Source: input_fn's features and model_fn_builder's predictions, in
      run_classifier.py and run_squad.py.
    """
    traced = function.get_concrete_function()
    specs = tf.nest.flatten(traced.structured_input_signature)
    is_span = serving.description.kind == "span"
    takes_ids = len(specs) > 1
    if takes_ids:
        # Labels of any shape: one for a row, or one for each wordpiece.
        name, shape = ("unique_ids", [None]) if is_span else ("label_ids", None)
        specs.append(tf.TensorSpec(shape, tf.int32, name))
        sample = {**sample, name: np.zeros(1, np.int32)}

    @as_function(specs)
    def served(*inputs):  # the names are those of the specs
        outputs = function(*inputs[:3])
        if not is_span:
            name = next(name for name in serving.compared if name in outputs)
            return {name: outputs[name]}
        if takes_ids:
            return {"unique_ids": inputs[3]} | outputs
        one = {"unique_ids": tf.io.FixedLenFeature([], tf.int64)}
        return tf.io.parse_example(inputs[0], one) | outputs

    return served, sample
