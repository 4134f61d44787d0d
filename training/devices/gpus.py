"""NVIDIA GPUs: whether TensorFlow sees them, and what they can do."""

import errno
import glob
import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import tensorflow as tf

_DEVICES = "/dev/nvidia[0-9]*"
# XLA ends the process on a GPU that its CUDA is too old for: "PTX version 8.5
# does not support target 'sm_120'", tensorflow/tensorflow#111958. TensorFlow
# 2.21 is built with CUDA 12.5, which is PTX 8.5. sm_100 needs 8.6, and sm_120
# 8.7 (llvm/llvm-project#124155), so 10.0 must end like the 12.0 of the report.
_FIRST_NOT_COMPILED = (10, 0)
_FIRST_TF32 = (8, 0)  # Ampere


class Gpu(NamedTuple):
    """A GPU that TensorFlow uses.

    Attributes:
      name: such as `NVIDIA A100-SXM4-80GB`.
      capability: CUDA compute capability; None = not known.
    """

    name: str
    capability: tuple[int, int] | None


def seen() -> tuple[Gpu, ...]:
    """Returns the GPUs that TensorFlow uses."""
    details = map(
        tf.config.experimental.get_device_details,
        tf.config.get_visible_devices("GPU"),
    )
    return tuple(
        Gpu(x.get("device_name", "GPU"), x.get("compute_capability"))
        for x in details
    )


def check_seen(
    gpus: Sequence[Gpu],
    environment: Mapping[str, str],
    pattern: str = _DEVICES,
) -> None:
    """Refuses to compute on the CPU of a machine with an NVIDIA GPU.

    Args:
      gpus: those that TensorFlow uses.
      environment: such as `os.environ`. CUDA_VISIBLE_DEVICES hides GPUs on
        purpose.
      pattern: of the devices of NVIDIA's driver.

    Raises:
      ValueError: there is a GPU, not hidden, that TensorFlow does not use.
    """
    if gpus or _are_hidden(environment):
        return
    present = [path for path in sorted(glob.glob(pattern)) if _may_open(path)]
    if present:
        raise ValueError(
            f"this machine has an NVIDIA GPU ({present[0]}), but TensorFlow "
            f"{tf.__version__} does not see it. Install its CUDA libraries, "
            "`pip install -r requirements-gpu.txt`, and a driver for CUDA 12.5 "
            "or later; `--verbosity=1` shows what TensorFlow lacks. Or set "
            "CUDA_VISIBLE_DEVICES=-1 to compute on the CPU."
        )


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
    """Whether XLA can compile for the GPUs; for a CPU it always can."""
    return not _not_compiled(gpus)


def check_compiling(gpus: Sequence[Gpu], *flags: str) -> None:
    """Refuses to compile with XLA for a GPU that is too new for it.

    Args:
      gpus: those that TensorFlow uses.
      *flags: those that were given and compile.

    Raises:
      ValueError: names the GPU and the flags that avoid it.
    """
    for gpu in _not_compiled(gpus) if flags else ():
        major, minor = gpu.capability
        avoided = " ".join(f"--{name}=false" for name in flags)
        given = " and ".join(f"--{name}" for name in flags)
        raise ValueError(
            f"{given} would compile for {gpu.name} of compute capability "
            f"{major}.{minor}, which XLA in TensorFlow {tf.__version__} "
            f"cannot: it knows those below 10.0. Give {avoided}."
        )


def _not_compiled(gpus):
    return [
        x for x in gpus if x.capability and x.capability >= _FIRST_NOT_COMPILED
    ]


def has_tf32(gpus: Sequence[Gpu]) -> bool:
    """Whether float32 products are computed in TF32 on any of the GPUs."""
    return tf.config.experimental.tensor_float_32_execution_enabled() and any(
        x.capability is None or x.capability >= _FIRST_TF32 for x in gpus
    )
