"""The README.md of an export: the model's task, and how to call it."""

import pathlib
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from training.export import requests
from training.export.serving import Serving, Signatures

_IMPORT = "import tensorflow_text  # noqa: F401, operations of the graph\n"
_SHOWN = 8  # ids of a row
# Signatures for the example, the first that the export has.
_SHOWN_FIRST = ("serve_text", "serve_ids", "serve_examples")

_NEEDS = "The graph has operations of TensorFlow alone, which any server has"
_NEEDS_TEXT = "`serve_text` needs a server that is built with TensorFlow Text"
_CARD = pathlib.Path(__file__).with_name("model_card.md")


def text(
    serving: Serving,
    exported: Signatures,
    version: int,
    data: Mapping[str, Any],
    figures: Mapping[str, Any],
) -> str:
    """Writes the Markdown of an export's model card.

    The examples call one signature of `exported`; `version` is the name of the
    export's folder. `data` (what the model was trained on) and `figures`
    (results) map names to values or nested values.
    """
    table = []
    for name, (function, _) in exported.items():
        traced = function.get_concrete_function()
        specs = tf.nest.flatten(traced.structured_input_signature)
        takes = _tensors({spec.name: spec for spec in specs})
        returns = _tensors(traced.structured_outputs)
        table.append(f"| `{name}` | {takes} | {returns} |")
    name = next(name for name in _SHOWN_FIRST if name in exported)
    sample = exported[name][1]
    if name == "serve_ids":  # a row may have any length
        sample = {n: x[..., :_SHOWN].tolist() for n, x in sample.items()}
    has_text = "serve_text" in exported
    return _CARD.read_text("utf-8").format(
        title=serving.description.task_name,
        task=serving.in_words(),
        data="\n".join(_lines(data)) or "Not known here.",
        figures="\n".join(_lines(figures)) or "None were measured.",
        needs=_NEEDS_TEXT if has_text else _NEEDS,
        tensorflow=".".join(tf.version.VERSION.split(".")[:2]),
        packages="TensorFlow and tensorflow-text" if has_text else "TensorFlow",
        imports=_IMPORT if has_text else "",
        name=name,
        version=version,
        # A quote inside a quoted string of the shell.
        body=requests.rest_body(name, sample).replace("'", "'\\''"),
        sample=sample,
        signatures="\n".join(table),
    )


def _tensors(specs: Mapping[str, Any]) -> str:
    """Returns names, types and shapes, such as "`text` string [?]"."""
    shown = []
    for name, spec in specs.items():
        shape = "..."  # any
        if spec.shape.rank is not None:
            shape = ", ".join("?" if n is None else str(n) for n in spec.shape)
        shown.append(f"`{name}` {spec.dtype.name} [{shape}]")
    return ", ".join(shown)


def _lines(figures: Mapping[str, Any], indent: str = "") -> list[str]:
    """Returns the lines of a nested Markdown list."""
    lines = []
    for name, value in figures.items():
        if isinstance(value, Mapping):
            lines += [f"{indent}- {name}:", *_lines(value, indent + "  ")]
        else:
            shown = f"{value:.4g}" if isinstance(value, float) else value
            lines.append(f"{indent}- {name}: {shown}")
    return lines
