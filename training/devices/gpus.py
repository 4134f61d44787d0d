"""NVIDIA GPUs: whether TensorFlow sees them, and what they can do."""

import ctypes
import errno
import functools
import glob
import math
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import tensorflow as tf

from data.storage import cuda

_ROOT = pathlib.Path(__file__).resolve().parents[2]
# Of NVIDIA's driver for Linux; and in WSL 2 the way to any GPU of Windows,
# where NVIDIA's driver is the library.
_DEVICES, _WINDOWS = "dev/nvidia[0-9]*", "dev/dxg"
_WINDOWS_DRIVER = "usr/lib/wsl/lib/libcuda.so.1"
# What TensorFlow 2.21 needs of the driver and of CUDA 12 before it uses a GPU.
_LIBRARIES = (
    "libcuda.so.1 libcudart.so.12 libcublas.so.12 libcublasLt.so.12 "
    "libcufft.so.11 libcusolver.so.11 libcusparse.so.12 libcudnn.so.9"
).split()
_NONE = ("", "-1", "NoDevFiles", "none")  # values of CUDA_VISIBLE_DEVICES
_FIRST_TF32 = (8, 0)  # Ampere
_FATAL = re.compile(r"F\d{4} ")  # in TensorFlow's log
_TRIAL_S = 300.0  # most seconds of `_compile` in a process of its own


class Gpu(NamedTuple):
    """A GPU that TensorFlow uses, such as `NVIDIA A100-SXM4-80GB`.

    `capability` is its CUDA compute capability; None = unknown.
    """

    name: str
    capability: tuple[int, int] | None


def seen() -> tuple[Gpu, ...]:
    """Returns the GPUs that TensorFlow uses."""
    devices = tf.config.get_visible_devices("GPU")
    return tuple(
        Gpu(x.get("device_name", "GPU"), x.get("compute_capability"))
        for x in map(tf.config.experimental.get_device_details, devices)
    )


def check_seen(
    gpus: Sequence[Gpu], environment: Mapping[str, str], root: str = "/"
) -> None:
    """Raises ValueError for an NVIDIA GPU that TensorFlow does not use.

    `environment` may hide GPUs on purpose with CUDA_VISIBLE_DEVICES; `root` is
    the folder of `dev`.
    """
    hidden = environment.get("CUDA_VISIBLE_DEVICES")
    if gpus or hidden is not None and hidden.strip() in _NONE:
        return
    names = glob.glob(_DEVICES, root_dir=root)
    if os.path.exists(os.path.join(root, _WINDOWS_DRIVER)):
        names += glob.glob(_WINDOWS, root_dir=root)
    paths = [os.path.join(root, name) for name in sorted(names)]
    if present := [path for path in paths if _may_open(path)]:
        raise ValueError(
            f"this machine has an NVIDIA GPU ({present[0]}), but TensorFlow "
            f"{tf.__version__} does not see it ({_found_of_cuda()}). Install "
            "NVIDIA's driver 555 or later, the first for CUDA 12.5, and `pip "
            "install -r requirements-gpu.txt`; `nvidia-smi` says whether the "
            "driver works, `--verbosity=1` shows what TensorFlow says. Or set "
            "CUDA_VISIBLE_DEVICES=-1 to compute on the CPU."
        )


def _found_of_cuda() -> str:
    """Says which libraries of the driver and of CUDA cannot be loaded."""
    missing = []
    for name in _LIBRARIES:
        try:
            ctypes.CDLL(name)
        except OSError:
            missing.append(name)
    if missing:
        return f"{', '.join(missing)} cannot be loaded"
    return "all of CUDA's libraries are loaded"


def _may_open(path):
    """Whether this process may use a device, which a scheduler can forbid."""
    try:
        os.close(os.open(path, os.O_RDWR))
    except OSError as error:
        return error.errno not in (errno.EPERM, errno.EACCES, errno.ENOENT)
    return True


def why_not_compiled(gpus: Sequence[Gpu]) -> str:
    """Says for which of the GPUs XLA fails to compile, and how; "" = none.

    The first call may take as long as the start of a program. Make it before
    TensorFlow takes the memory of the GPUs.
    """
    build = tf.sysconfig.get_build_info()
    names = build.get("cuda_compute_capabilities", ())  # such as `compute_90`
    numbers = (int(name.rpartition("_")[2]) for name in names)
    newest = max(numbers, default=math.inf)
    for index, gpu in enumerate(gpus):
        major, minor = gpu.capability or (0, 0)
        if 10 * major + minor > newest and (error := _trial(index)):
            return (
                f"XLA of TensorFlow {tf.__version__} fails to compile for "
                f"{gpu.name} of compute capability {major}.{minor} ({error})"
            )
    return ""


@functools.cache
def _trial(index: int) -> str:
    """Compiles in a process of its own, which XLA may end; returns an error.

    XLA of CUDA 12.5 has ended on a GPU that is newer: "PTX version 8.5 does not
    support target 'sm_120'", tensorflow/tensorflow#111958.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-m", "training.devices.gpus", str(index)],
            cwd=_ROOT,
            env=os.environ | {"TF_FORCE_GPU_ALLOW_GROWTH": "true"},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TRIAL_S,
        )
    except subprocess.TimeoutExpired:
        return f"not done within {_TRIAL_S:.0f} s"
    if not done.returncode:
        return ""
    lines = done.stderr.splitlines()
    # A stack trace follows what ended the process.
    ends = [line for line in lines if _FATAL.match(line)]
    return (ends or [f"exit code {done.returncode}", *lines])[-1][:300]


def _compile(index: int, kind: str = "GPU") -> None:
    """Compiles and runs products, a softmax and their gradients."""

    @tf.function(jit_compile=True)
    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            shares = tf.nn.softmax(tf.matmul(x, x, transpose_b=True))
            total = tf.reduce_sum(tf.tanh(tf.matmul(shares, x)))
        return tape.gradient(total, x)

    with tf.device(f"{kind}:{index}"):
        for dtype in (tf.float32, tf.bfloat16):
            gradient(tf.ones([128, 64], dtype)).numpy()


def has_tf32(gpus: Sequence[Gpu]) -> bool:
    """Whether float32 products are computed in TF32 on any of the GPUs."""
    return tf.config.experimental.tensor_float_32_execution_enabled() and any(
        x.capability is None or x.capability >= _FIRST_TF32 for x in gpus
    )


if __name__ == "__main__":
    cuda.find()
    _compile(int(sys.argv[1]))
