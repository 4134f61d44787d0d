"""The parts about values: the goldens, forms of computation, repeats, GPUs.

The model is the tiny one of tests/goldens, and so are the records. Its first
weights and 60 steps come from the original release on a CPU.
"""

import tempfile

import numpy as np
import tensorflow as tf

from benchmarks.check_gpu.results import (
    GOLDENS,
    MIRRORED,
    Found,
    Request,
    one_device,
)
from tests.support import rounding
from tests.training import support
from training.devices import strategy

# TF32 keeps as many bits as float16.
_ROUNDINGS = {
    "tf32": "float16",
    "mixed_float16": "float16",
    "mixed_bfloat16": "bfloat16",
}


def _run(**options):
    """Metrics and weights of a run in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        return support.golden_run(GOLDENS, folder, **options)


def _difference(ours, theirs):
    """The largest difference of two arrays."""
    return float(np.abs(ours - theirs).max())


def _largest(ours, theirs):
    """The largest difference of two sets of arrays."""
    return max(_difference(ours[name], theirs[name]) for name in theirs)


def goldens(request: Request) -> Found:
    """60 steps beside those of the original on a CPU, in each arithmetic."""
    found = Found()
    with np.load(GOLDENS / "model/pretraining_trajectory.npz") as arrays:
        wanted = arrays["losses"][:, 0]
    for name in ("float32", *_ROUNDINGS):
        _set_tf32(name == "tf32")
        dtype = "float32" if name == "tf32" else name
        metrics, _ = _run(num_layers=3, dtype=dtype)
        losses = metrics["loss"]
        difference = _difference(losses, wanted)
        found.figures[name] = {
            "largest_difference": difference,
            "last_loss": float(losses[-1]),
        }
        label = f"60 losses in {name} beside the original's on a CPU"
        if name == "float32":
            found.at_most(label, difference, 1e-4)  # as docs/results.md
            continue
        try:
            support.assert_losses_near(losses, wanted, _ROUNDINGS[name])
            error = ""
        except AssertionError as failure:
            error = str(failure).splitlines()[0]
        text = f"largest difference {difference:.2g}"
        found.check(label, not error, "; ".join(filter(None, [text, error])))
    return found


def _set_tf32(is_on):
    tf.config.experimental.enable_tensor_float_32_execution(is_on)


def forms(request: Request) -> Found:
    """Plain, fused and compiled by XLA take the same steps in float32."""
    found = Found()
    _set_tf32(False)
    ways = {"plain": {"fuse": False}, "fused": {"fuse": True}}
    if request.compiles:
        ways["XLA"] = {"fuse": False, "xla": True}
    else:
        del ways["fused"]
        found.figures["left_out"] = "XLA cannot compile for this GPU"
    runs = {name: _run(num_train_steps=12, **way) for name, way in ways.items()}
    plain, weights = runs.pop("plain")
    for name, (metrics, other) in runs.items():
        difference = _difference(metrics["loss"], plain["loss"])
        found.at_most(f"12 losses, {name} = plain", difference, rounding.EQUAL)
        found.figures[name] = {
            "losses": difference,
            "weights": _largest(other, weights),
        }
    return found


def repeats(request: Request) -> Found:
    """Two runs and a resumed one, bit for bit."""
    options = {"dropout": 0.1, "num_train_steps": 20, "shuffle_window": 50}
    if request.deterministic:
        tf.config.experimental.enable_op_determinism()
    found = Found()
    first, second = (_run(**options)[1] for _ in range(2))
    with tempfile.TemporaryDirectory() as folder:
        for end in ({"stop_at_step": 7}, {}):
            given = options | end
            _, resumed = support.golden_run(GOLDENS, folder, **given)
    # Without determinism a GPU adds in no fixed order. A CPU always does.
    is_promised = request.deterministic or not request.gpus
    for name, other in ("second run", second), ("resumed run", resumed):
        difference = _largest(other, first)
        found.figures[name] = difference
        if is_promised:
            label = f"weights after 20 steps, {name} = first"
            found.at_most(label, difference, 0)
    return found


def devices(request: Request) -> Found:
    """The same steps on one device and on all of them."""
    if request.num_devices < 2:
        return one_device()
    found = Found()
    _set_tf32(False)
    options = {"num_train_steps": 20}
    one, weights = _run(**options)
    mirrored = strategy.create_strategy(MIRRORED)
    with mirrored.scope():
        many, other = _run(**options)
    difference = _difference(many["loss"], one["loss"])
    label = f"20 losses, 1 device = {mirrored.num_replicas_in_sync}"
    found.at_most(label, difference, rounding.EQUAL)
    found.figures["weights"] = _largest(other, weights)
    return found
