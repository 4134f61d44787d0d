"""Where pip has put NVIDIA's libraries and tools, for TensorFlow and XLA."""

import contextlib
import ctypes
import importlib.util
import os
import pathlib


def find() -> None:
    """Loads libcusolver and puts pip's `ptxas` first on the PATH.

    Call it before TensorFlow looks for devices. TensorFlow 2.21 does not search
    these packages for libcusolver (tensorflow/tensorflow#112973) and uses no
    GPU without it, unless the process has loaded it. XLA takes the first
    `ptxas` on the PATH; that of another CUDA may not support the GPU.
    """
    tensorflow = importlib.util.find_spec("tensorflow")
    if not tensorflow or not tensorflow.origin:
        return
    packages = pathlib.Path(tensorflow.origin).parents[1] / "nvidia"
    # Without them TensorFlow looks for the CUDA of the system.
    with contextlib.suppress(OSError):
        ctypes.CDLL(str(packages / "cusolver/lib/libcusolver.so.11"))
    tools = str(packages / "cuda_nvcc/bin")
    path = os.environ.get("PATH", "").split(os.pathsep)
    if os.path.isdir(tools) and path[0] != tools:
        os.environ["PATH"] = os.pathsep.join([tools, *path])
