"""Whether bfloat16 is faster than float32 on the devices of a run."""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

# The environment's switch with which oneDNN lays out the weights of a matrix
# product with a bias once, and never sees new ones.
FROZEN = "TF_ONEDNN_ASSUME_FROZEN_WEIGHTS"
# The names of Linux (/proc/cpuinfo) for instructions that multiply bfloat16.
_INSTRUCTIONS = ("avx512_bf16", "amx_bf16")
# oneDNN has 16-bit kernels on processors with one of these. Those for bfloat16
# compute in float32 where there are no bfloat16 instructions.
_KERNELS = {
    "bfloat16": {"avx512bw", "avx_ne_convert"},
    "float16": {"avx512_fp16", "amx_fp16", "avx_ne_convert"},
}
_FIRST_CAPABILITY = (8, 0)  # NVIDIA's Ampere


class Bfloat16(NamedTuple):
    """What the devices of a run can do with bfloat16.

    `is_faster` compares it with float32, None = unknown; `found` tells what the
    devices have, for messages.
    """

    is_faster: bool | None
    found: str


TPU = Bfloat16(True, "a TPU, which multiplies bfloat16")


def cpu_flags(cpuinfo: str) -> set[str]:
    """Reads an x86 processor's instruction sets from Linux's /proc/cpuinfo.

    For other processors the set is empty.
    """
    found = re.search(r"^\s*flags\s*:(.*)", cpuinfo, re.MULTILINE)
    return set(found[1].split()) if found else set()


def onednn_is_on(environment: Mapping[str, str]) -> bool:
    """Whether TensorFlow uses oneDNN, which it does on x86 by default."""
    switch = environment.get("TF_ENABLE_ONEDNN_OPTS", "1")
    return switch.lower() not in ("0", "false")


def has_kernels(dtype: str, cpuinfo: str) -> bool:
    """Whether oneDNN, if it is on, has kernels for a dtype on this processor.

    TensorFlow's own kernels replace the missing ones. In 16 bits those also
    compute in 16 bits, with the error of several roundings.
    """
    if dtype == "float32":
        return True
    return not _KERNELS[dtype].isdisjoint(cpu_flags(cpuinfo))


def of_cpu(cpuinfo: str, environment: Mapping[str, str]) -> Bfloat16:
    """Tells whether bfloat16 is faster on a CPU, from /proc/cpuinfo.

    TensorFlow's TF_ENABLE_ONEDNN_OPTS can switch the instructions off.
    """
    if not (flags := cpu_flags(cpuinfo)):
        return Bfloat16(None, "it is not known whether the CPU has bfloat16")
    if not (names := [name for name in _INSTRUCTIONS if name in flags]):
        missing = " nor ".join(_INSTRUCTIONS)
        return Bfloat16(False, f"no bfloat16 instructions: neither {missing}")
    found = f"bfloat16 instructions: {', '.join(names)}"
    if onednn_is_on(environment):
        return Bfloat16(True, found)
    return Bfloat16(False, f"{found}, not used: TF_ENABLE_ONEDNN_OPTS=0")


def of_gpus(capabilities: Sequence[tuple[int, int] | None]) -> Bfloat16:
    """Tells whether bfloat16 is faster on GPUs with these capabilities."""
    if None in capabilities:
        return Bfloat16(None, "the GPU's compute capability is not known")
    major, minor = least = min(capabilities)
    found = f"a GPU of compute capability {major}.{minor}"
    return Bfloat16(least >= _FIRST_CAPABILITY, found)


def choose(precision: str, bfloat16: Bfloat16) -> str:
    """Returns the precision, or what `auto` stands for on these devices."""
    if precision != "auto":
        return precision
    return "bfloat16" if bfloat16.is_faster else "float32"


def warning(precision: str, bfloat16: Bfloat16) -> str:
    """Returns what to say about a precision slower than float32, or ""."""
    if precision != "bfloat16" or bfloat16.is_faster is not False:
        return ""
    other = ""
    if "GPU" in bfloat16.found:
        other = ", --precision=float16 from compute capability 7.0 on"
    return (
        f"--precision=bfloat16 is slower than float32 here ({bfloat16.found}); "
        f"give --precision=float32{other}, or --precision=auto, which takes "
        "bfloat16 only where it is faster."
    )
