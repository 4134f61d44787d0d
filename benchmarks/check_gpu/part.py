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
_FUNCTIONS = vars(machine) | vars(equality) | vars(signals) | vars(speed)


def make_request(options: dict) -> Request:
    """Adds what the machine has; call it before TensorFlow computes."""
    found, facts = gpus.seen(), {"num_devices": _CPUS}
    if found:
        has_bfloat16 = of_gpus([gpu.capability for gpu in found]).is_faster
        facts = {
            "gpus": tuple(gpu.name for gpu in found),
            "num_devices": len(found),
            "memory_gb": room.memory_gb(),
            "precision": "bfloat16" if has_bfloat16 else "float16",
        }
    else:
        tf.config.set_logical_device_configuration(
            tf.config.list_physical_devices("CPU")[0],
            [tf.config.LogicalDeviceConfiguration()] * _CPUS,
        )
    if options.get("compiles") is None:
        options["compiles"] = not gpus.why_not_compiled(found)
    return Request(**facts, **options)


def main(name, options, path):
    """Runs a part and writes its results."""
    request = make_request(json.loads(options) | {"result": Path(path)})
    _FUNCTIONS[name](request).save(request.result)


if __name__ == "__main__":
    main(*sys.argv[1:])
