"""The README.md of an export: the model's task, and how to call it."""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from training.export import requests

_CARD = """# {title}

{task}

## Data

{data}

## Figures

{figures}

## How to call it

With TF Serving; `EXPORT_DIR` is the folder above this one, as an absolute path.
`serve_text` has operations of TensorFlow Text in its graph: the server must be
built with them, of TensorFlow {version} or newer. No server was run to make
this card.

```shell
docker run -p 8500:8500 -p 8501:8501 -e MODEL_NAME=bert \\
  -v EXPORT_DIR:/models/bert tensorflow/serving
```

By REST:

```shell
curl http://localhost:8501/v1/models/bert:predict -d '{body}'
```

By gRPC (`pip install tensorflow-serving-api`):

```python
import grpc
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

channel = grpc.insecure_channel("localhost:8500")
service = prediction_service_pb2_grpc.PredictionServiceStub(channel)
request = predict_pb2.PredictRequest()
request.model_spec.name = "bert"
request.model_spec.signature_name = "serve_text"
sample = {sample}
for name, value in sample.items():
    request.inputs[name].CopyFrom(tf.make_tensor_proto(value))
print(service.Predict(request, timeout=10.0).outputs)
```

In Python, with TensorFlow and tensorflow-text alone:

```python
import tensorflow as tf
import tensorflow_text  # noqa: F401, operations of the graph

model = tf.saved_model.load("EXPORT_DIR/1")
sample = {sample}
inputs = {{name: tf.constant(value) for name, value in sample.items()}}
print(model.signatures["serve_text"](**inputs))
```

## Signatures

| signature | takes | returns |
| --- | --- | --- |
{signatures}
"""


def text(
    title: str,
    task: str,
    *,
    data: Mapping[str, Any],
    figures: Mapping[str, Any],
    signatures: Mapping[str, Any],
    sample: Mapping[str, Any],
) -> str:
    """Writes the text of an export's model card.

    Args:
      title: heading of the card.
      task: what the model does, as Markdown.
      data: the data it was trained on, name -> value or nested values.
      figures: results, likewise.
      signatures: name -> `tf.function`.
      sample: an input of `serve_text`.

    Returns:
      Markdown.
    """
    table = [
        f"| `{name}` | {_tensors(_inputs(function))} | "
        f"{_tensors(function.structured_outputs)} |"
        for name, function in (
            (name, function.get_concrete_function())
            for name, function in signatures.items()
        )
    ]
    # A quote inside a quoted string of the shell.
    body = requests.rest_body("serve_text", sample).replace("'", "'\\''")
    return _CARD.format(
        title=title,
        task=task,
        data="\n".join(_lines(data)) or "Not known here.",
        figures="\n".join(_lines(figures)) or "None were measured.",
        version=".".join(tf.version.VERSION.split(".")[:2]),
        body=body,
        sample=dict(sample),
        signatures="\n".join(table),
    )


def _inputs(function: Any) -> dict[str, Any]:
    """Returns the inputs of a concrete function by name."""
    specs = tf.nest.flatten(function.structured_input_signature)
    return {spec.name: spec for spec in specs}


def _tensors(specs: Mapping[str, Any]) -> str:
    """Returns names, types and shapes, such as "`text` string [?]"."""
    return ", ".join(
        f"`{name}` {spec.dtype.name} "
        f"[{', '.join('?' if n is None else str(n) for n in spec.shape)}]"
        for name, spec in specs.items()
    )


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
