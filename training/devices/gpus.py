"""NVIDIA GPUs: whether TensorFlow sees them, and what they can do."""

import contextlib
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
_DRIVER = "libcuda.so.1"
# What TensorFlow 2.21 needs of CUDA 12 before it uses a GPU.
_LIBRARIES = (
    *("libcudart.so.12", "libcublas.so.12", "libcublasLt.so.12"),
    *("libcufft.so.11", "libcusolver.so.11", "libcusparse.so.12"),
    "libcudnn.so.9",
)
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
    return tuple(
        Gpu(x.get("device_name", "GPU"), x.get("compute_capability"))
        for x in map(
            tf.config.experimental.get_device_details,
            tf.config.get_visible_devices("GPU"),
        )
    )


def check_seen(
    gpus: Sequence[Gpu], environment: Mapping[str, str], root: str = "/"
) -> None:
    """Raises ValueError for an NVIDIA GPU that TensorFlow does not use.

    `environment` may hide GPUs on purpose with CUDA_VISIBLE_DEVICES; `root` is
    the folder of `dev`.
    """
    if gpus or _are_hidden(environment):
        return
    names = glob.glob(_DEVICES, root_dir=root)
    if os.path.exists(os.path.join(root, _WINDOWS_DRIVER)):
        names += glob.glob(_WINDOWS, root_dir=root)
    paths = [os.path.join(root, name) for name in sorted(names)]
    present = [path for path in paths if _may_open(path)]
    if present:
        raise ValueError(
            f"this machine has an NVIDIA GPU ({present[0]}), but TensorFlow "
            f"{tf.__version__} does not see it{_why_not_seen()} "
            "`--verbosity=1` shows what TensorFlow says. Or set "
            "CUDA_VISIBLE_DEVICES=-1 to compute on the CPU."
        )


def _why_not_seen():
    """Says which library this process cannot load, and the remedy."""
    driver = "driver 555 or later, the first for CUDA 12.5"
    if not _is_loaded(_DRIVER):
        return f": {_DRIVER} cannot be loaded. Install {driver}."
    missing = [name for name in _LIBRARIES if not _is_loaded(name)]
    if missing:
        return (
            f": {', '.join(missing)} cannot be loaded. Install CUDA's "
            "libraries, `pip install -r requirements-gpu.txt`."
        )
    return (
        ", though all of CUDA's libraries are loaded. `nvidia-smi` says "
        f"whether the driver works; install {driver}."
    )


def _is_loaded(name):
    with contextlib.suppress(OSError):
        ctypes.CDLL(name)
        return True
    return False


def _are_hidden(environment):
    """Whether CUDA_VISIBLE_DEVICES names no GPU."""
    text = environment.get("CUDA_VISIBLE_DEVICES")
    return text is not None and text.strip() in ("", "-1", "NoDevFiles", "none")


def _may_open(path):
    """Whether this process may use a device, which a scheduler can forbid."""
    try:
        os.close(os.open(path, os.O_RDWR))
    except OSError as error:
        return error.errno not in (errno.EPERM, errno.EACCES, errno.ENOENT)
    return True


def can_compile(gpus: Sequence[Gpu]) -> bool:
    """Whether XLA can compile for the GPUs; for a CPU it always can.

    The first call may take as long as the start of a program. Make it before
    TensorFlow takes the memory of the GPUs.
    """
    return not why_not_compiled(gpus)


def check_compiling(gpus: Sequence[Gpu], *flags: str) -> None:
    """Raises ValueError for flags that compile if XLA fails on a GPU."""
    if flags and (reason := why_not_compiled(gpus)):
        avoided = " ".join(f"--{name}=false" for name in flags)
        given = " and ".join(f"--{name}" for name in flags)
        raise ValueError(f"{given} cannot be used: {reason}. Give {avoided}.")


def why_not_compiled(gpus: Sequence[Gpu]) -> str:
    """Says for which of the GPUs XLA fails to compile, and how; "" = none."""
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
    command = [sys.executable, "-m", "training.devices.gpus", str(index)]
    try:
        done = subprocess.run(
            command,
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
