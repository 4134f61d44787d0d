"""Runs one part of check-gpu in a process of its own.

  python -m benchmarks.check_gpu.part NAME OPTIONS FILE

OPTIONS are JSON: the attributes of `Request` that differ. The result is written
to FILE as JSON: `checks` and `figures`.
"""

import json
import sys
from pathlib import Path

import tensorflow as tf

from benchmarks.check_gpu import equality, machine, room, signals, speed
from benchmarks.check_gpu.results import Request
from training.devices import gpus
from training.devices.precision import of_gpus

_CPUS = 2  # logical ones, if there is no GPU
PARTS = {
    "machine": machine.machine,
    "goldens": equality.goldens,
    "forms": equality.forms,
    "repeats": equality.repeats,
    "devices": equality.devices,
    "sigterm": signals.sigterm,
    "placement": speed.placement,
    "speed": speed.speed,
    "scaling": speed.scaling,
}


def make_request(options: dict) -> Request:
    """Adds what the machine has; call it before TensorFlow computes."""
    compiles, found = options.pop("compiles", None), gpus.seen()
    if not found:
        tf.config.set_logical_device_configuration(
            tf.config.list_physical_devices("CPU")[0],
            [tf.config.LogicalDeviceConfiguration()] * _CPUS,
        )
    precision = "float32"
    if found:
        has_bfloat16 = of_gpus([gpu.capability for gpu in found]).is_faster
        precision = "bfloat16" if has_bfloat16 else "float16"
    return Request(
        gpus=tuple(gpu.name for gpu in found),
        num_devices=len(found) or _CPUS,
        compiles=not gpus.why_not_compiled(found)
        if compiles is None
        else compiles,
        memory_gb=room.memory_gb() if found else 0.0,
        precision=precision,
        **options,
    )


def main(name, options, path):
    """Runs a part and writes its results."""
    request = make_request(json.loads(options) | {"result": Path(path)})
    PARTS[name](request).save(request.result)


if __name__ == "__main__":
    main(*sys.argv[1:])
