"""The part about the machine: versions, driver, GPUs, arithmetic."""

import os
import platform
import shutil
import subprocess

import keras
import tensorflow as tf

from benchmarks import programs
from benchmarks.check_gpu import room
from benchmarks.check_gpu.results import Found, Request
from training.devices import gpus

_ASKED = "name,driver_version,memory.total,power.limit,clocks.max.sm"
_BUILT_WITH = ("cuda_version", "cudnn_version", "cuda_compute_capabilities")
# By name, because the page is sent to others and variables may hold secrets.
_SET = (
    *("CUDA_VISIBLE_DEVICES", "NVIDIA_TF32_OVERRIDE", "XLA_FLAGS"),
    *("TF_XLA_FLAGS", "TF_GPU_ALLOCATOR", "TF_GPU_THREAD_MODE"),
    *("TF_FORCE_GPU_ALLOW_GROWTH", "TF_ENABLE_ONEDNN_OPTS", "NCCL_ALGO"),
)


def machine(request: Request) -> Found:
    """What computes, and in what."""
    found, seen = Found(), gpus.seen()
    build = tf.sysconfig.get_build_info()
    found.figures = {
        "system": platform.platform(),
        "processor": programs.processor(),
        "python": platform.python_version(),
        "tensorflow": tf.__version__,
        "keras": keras.__version__,
        "built_with": {name: build.get(name) for name in _BUILT_WITH},
        "gpus": [
            {"name": gpu.name, "capability": gpu.capability} for gpu in seen
        ],
        "driver": _driver(),
        "tf32": gpus.has_tf32(seen),
        "compiles": request.compiles,
        "memory_gb": room.memory_gb(),
        "environment": {
            name: os.environ[name] for name in _SET if name in os.environ
        },
    }
    text = ", ".join(gpu.name for gpu in seen) or "there is none"
    passed = bool(seen or request.small)
    try:
        gpus.check_seen(seen, os.environ)
    except ValueError as error:
        text, passed = str(error), False
    found.check("TensorFlow uses the machine's GPUs", passed, text)
    product = tf.linalg.trace(tf.matmul(tf.eye(256), tf.eye(256)))
    found.check("a matrix product", float(product) == 256, f"{product:.0f}")
    return found


def _driver():
    """What nvidia-smi says of each GPU, a line each; None = there is none."""
    if not shutil.which("nvidia-smi"):
        return None
    done = subprocess.run(
        ["nvidia-smi", f"--query-gpu={_ASKED}", "--format=csv"],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=30,
    )
    return (done.stdout or done.stderr).strip().splitlines()
