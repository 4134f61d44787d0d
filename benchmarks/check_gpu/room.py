"""How many sequences the memory of a GPU has room for; see docs/gpu.md."""

import ctypes

_DRIVER = "libcuda.so.1"
# GB of a step in bfloat16 with --fuse: of weights, gradients and slots; and of
# each sequence of 512, the part that grows with its length, and the part that
# grows with the square of it (8 bytes for each score of attention). By
# TensorFlow's allocator, 32 x 512 of Base take 19.1 GB, 40 x 512 of Large 62.8.
_STEP_GB = {"Base": (1.9, 0.26, 0.277), "Large": (5.9, 0.65, 0.772)}
_USED = 0.93  # share of a GPU's memory that TensorFlow takes


def memory_gb() -> float:
    """The memory of the first visible GPU in GB, as its driver says; or 0."""
    size, device = ctypes.c_size_t(), ctypes.c_int()
    try:
        driver = ctypes.CDLL(_DRIVER)
    except OSError:
        return 0.0
    is_known = not (
        driver.cuInit(0)
        or driver.cuDeviceGet(ctypes.byref(device), 0)
        or driver.cuDeviceTotalMem_v2(ctypes.byref(size), device)
    )
    return size.value / 1e9 if is_known else 0.0


def sequences(model: str, length: int, memory_gb: float) -> int:
    """Estimates the largest micro-batch, in bfloat16, for `Base` or `Large`."""
    fixed, linear, square = _STEP_GB[model]
    share = length / 512
    each = linear * share + square * share**2
    return max(0, int((_USED * memory_gb - fixed) / each))
