"""Settings for training on a CPU, a GPU and a TPU."""

from typing import NamedTuple


class Kind(NamedTuple):
    """How training uses a kind of device.

    Attributes:
      repaid: wordpieces x layers x hidden size, for each length, from which
        `Form.COMPILED` saves more time than compiling takes, in training and on
        a GPU in predictions.
      multiple: the lengths of trimmed batches are multiples of it, except the
        longest.
      compiled_multiple: the same where XLA compiles a step for each length.
      bytes_per_pack: gradients of at least this size travel together between
        devices; 0 = all of them together.
      at_once: batches of an answer that are computed at the same time.
      call_seconds: duration of a call into the device that makes several steps.
    """

    repaid: float
    multiple: int = 1
    compiled_multiple: int = 1
    bytes_per_pack: int = 0
    at_once: int = 1
    # Differs from the original: a call may be shorter than
    # --iterations_per_loop, because progress is shown, and ^C and SIGTERM are
    # handled, between calls.
    call_seconds: float = 1.0


# Compiling takes 0.5 to 1 s for each length and saves 24 ms of a step of
# 4 x 256 on 32 x 128, so it is worthwhile after about 48 such steps, two times
# the break-even (benchmarks/measurements.md). Computation and communication
# share memory and network, so all gradients are sent together. Two batches at
# once keep cores busy in single-threaded operations: 1.1 times as many texts/s.
CPU = Kind(repaid=2e8, at_once=2)
# Estimates: see docs/gpu.md.
GPU = Kind(
    # What is saved is memory traffic. A GPU has a hundred times the bandwidth
    # of two CPU cores (A100: 2 TB/s in NVIDIA's data sheet), and compiling,
    # which its host does, takes as long.
    repaid=2e10,
    # In 16 bits tensor cores are most efficient with multiples of 8: NVIDIA,
    # "Matrix Multiplication Background User's Guide", section "Tensor Core
    # Requirements".
    multiple=8,
    # A step of Large compiles for about a minute: 8 lengths up to 512, not 32.
    compiled_multiple=64,
    # The packs of the last layers travel while the gradients of the others are
    # computed. Large has 1.34 GB, and so 21 packs.
    bytes_per_pack=64 << 20,
)
# The whole step is compiled, for one length: parts are neither compiled nor
# trimmed. The compiler decides what travels together. A call may cross a
# network, so fewer are made.
TPU = Kind(repaid=float("inf"), call_seconds=5.0)
