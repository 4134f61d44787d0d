"""Requests to TF Serving, without the package tensorflow-serving-api.

A request consists of three short messages, which are encoded here.
"""

import base64
import json
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

Inputs = Mapping[str, Any]


def rest_body(signature: str, inputs: Inputs) -> str:
    """Returns the JSON body of `POST /v1/models/NAME:predict`.

    `inputs` maps names to arrays [B, ...], texts as str, other strings as
    bytes.
    """
    columns = zip(*inputs.values(), strict=True)
    rows = [dict(zip(inputs, row, strict=True)) for row in columns]
    body = {"signature_name": signature, "instances": rows}
    return json.dumps(body, ensure_ascii=False, default=_json_value)


def _json_value(value: Any) -> Any:
    """Converts bytes, and arrays and numbers of NumPy."""
    if isinstance(value, bytes):
        return {"b64": base64.b64encode(value).decode()}
    return value.tolist()


def prediction_log(signature: str, inputs: Inputs) -> bytes:
    """Serializes a `tensorflow.serving.PredictionLog`, for warm-up files.

    `inputs` maps names to arrays [B, ...]. Its `PredictRequest`, which gRPC
    sends too, names no model.
    """
    # PredictionLog { PredictLog predict_log = 6; }, PredictLog {
    # PredictRequest request = 1; }, PredictRequest { ModelSpec model_spec = 1;
    # map<string, TensorProto> inputs = 2; }, ModelSpec { string signature_name
    # = 3; }
    request = _field(1, _field(3, signature.encode()))
    for name, value in inputs.items():
        tensor = tf.make_tensor_proto(value).SerializeToString()
        request += _field(2, _field(1, name.encode()) + _field(2, tensor))
    return _field(6, _field(1, request))


def _field(number: int, payload: bytes) -> bytes:
    """Encodes a protobuf field of bytes, as a `BytesList` has it as field 1."""
    first = tf.train.BytesList(value=[payload]).SerializeToString()
    return bytes([number << 3 | 2]) + first[1:]
