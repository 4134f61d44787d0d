"""The parts about speed: sequences a second, memory, kernels, placement.

Sequences are random ids without padding; the weights are random.
"""

import collections
import itertools
import math
import re
import resource
import statistics
import time
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from benchmarks.check_gpu import profile, room
from benchmarks.check_gpu.results import MIRRORED, Found, Request, one_device
from benchmarks.peers import inputs
from benchmarks.peers.cases import VOCAB_SIZE, model_of
from modeling import BertConfig, PretrainingModel
from training.config.run_options import TrainOptions, dtype_policy
from training.devices import strategy
from training.loop.trainer import Trainer

# Sequence length -> micro-batches, the largest first, which is the fastest.
# 312 and 40 are those of NVIDIA's figures (docs/gpu.md).
MICRO_BATCHES = {
    128: (1024, 512, 312, 128, 32, 16),
    512: (256, 128, 80, 40, 16, 8, 2),
    16: (4, 2),
}
_WARM_UPS = 3  # steps
_CALLS, _LEAST_S = 5, 3.0  # that are timed, at least
_PROFILED = 3
# In errors of this project, of TensorFlow's allocator and of XLA.
_FULL = re.compile("out of memory|RESOURCE_EXHAUSTED", re.IGNORECASE)


class _Step:
    """An update of a model, for batches of any size."""

    def __init__(self, request: Request, rows: int):
        self._length = request.length
        self._strategy = tf.distribute.get_strategy()
        config = BertConfig(**model_of(request.model))
        model = PretrainingModel(config, dtype=dtype_policy(request.precision))
        options = TrainOptions(
            output_dir="unused",
            train_batch_size=rows,
            num_train_steps=100_000,
            xla=request.xla,
            fuse=request.compiles and not request.xla,
        )
        self._trainer = Trainer(model, options)
        self._numbers = itertools.count(1)

    def iterator(self, rows):
        """One batch, again and again."""
        length = self._length
        batch = inputs.pretraining_batch(
            *(VOCAB_SIZE, rows, length, round(0.15 * length + 1))
        )

        def batches(_):
            return tf.data.Dataset.from_tensors(batch).repeat()

        return iter(strategy.distribute(self._strategy, batches))

    def run(self, iterator, num_steps=1):
        """Makes updates in one call."""
        steps = {"first_step": next(self._numbers), "num_steps": num_steps}
        metrics = self._trainer.run_steps(iterator, **steps)
        if not np.isfinite(metrics).all():
            raise FloatingPointError("a loss or a gradient is not finite")


def _measure(step, rows, has_gpu):
    """Figures of a batch size, and its batches."""
    if has_gpu:
        tf.config.experimental.reset_memory_stats("GPU:0")
    iterator = step.iterator(rows)

    def seconds_of(num_steps):
        began = time.perf_counter()
        step.run(iterator, num_steps)
        return (time.perf_counter() - began) / num_steps

    first = seconds_of(1)
    # About as many steps in a call as the calls need. The warm-ups are slower.
    in_call, calls = math.ceil(_LEAST_S / _CALLS / seconds_of(_WARM_UPS)), []
    while len(calls) < _CALLS or in_call * sum(calls) < _LEAST_S:
        calls.append(seconds_of(in_call))
    seconds = statistics.median(calls)
    return {
        "rows": rows,
        "sequences_per_s": rows / seconds,
        "compile_s": first - seconds,
        "peak_gb": _peak_gb(has_gpu),
    }, iterator


def _peak_gb(has_gpu):
    """Peak memory: of the first GPU, or of this process."""
    if has_gpu:
        return tf.config.experimental.get_memory_info("GPU:0")["peak"] / 1e9
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def sizes_for(request: Request) -> Sequence[int]:
    """The micro-batches that may fit, the largest first."""
    sizes = MICRO_BATCHES[request.length]
    if request.small or not request.memory_gb:
        return sizes
    model = request.model.title()
    most = room.sequences(model, request.length, request.memory_gb)
    # It is an estimate, and a batch that is too large costs a minute.
    return [rows for rows in sizes if rows <= 1.1 * most] or sizes[-1:]


def speed(request: Request) -> Found:
    """Updates of a model at one length, by micro-batch; one batch with XLA."""
    found, began = Found(), time.monotonic()
    found.figures = {"batches": [], "kernels": {"error": "not profiled"}}
    if request.xla and not request.compiles:
        found.figures["left_out"] = "XLA cannot compile for this GPU"
        return found
    sizes, iterator = sizes_for(request), None
    step = _Step(request, sizes[0])
    for rows in sizes:
        if time.monotonic() - began > request.seconds and iterator:
            found.figures["stopped"] = f"no time for batches of {rows}"
            break
        try:
            row, batches = _measure(step, rows, bool(request.gpus))
        except (ValueError, tf.errors.OpError) as error:
            if not _FULL.search(str(error)):
                raise
            found.figures["stopped"] = f"out of memory with {rows} sequences"
            continue
        found.figures["batches"].append(row)
        found.save(request.result)  # the next batch may take too long
        iterator = iterator or batches
        if request.xla:  # it compiles for a minute or more
            break
    label = f"{request.model} at {request.length} trains"
    text = found.figures.get("stopped", "every micro-batch")
    found.check(label, iterator is not None, text)
    if iterator is not None:
        found.figures["kernels"] = _profile(step, iterator)
    return found


def _profile(step, iterator):
    return profile.of_steps(lambda: step.run(iterator), _PROFILED)


def placement(request: Request) -> Found:
    """Operations of a step on the host, and what is copied for them."""
    from tensorflow.python.eager import context  # it has no public name

    found = Found()
    step = _Step(request, rows := MICRO_BATCHES[request.length][-1])
    iterator = step.iterator(rows)
    context.enable_graph_collection()
    try:
        step.run(iterator)
        graphs = context.export_run_metadata().function_graphs
    finally:
        context.disable_graph_collection()
    parts = [graph for x in graphs for graph in x.partition_graphs]
    nodes = [node for graph in parts for node in graph.node]
    on_host = collections.Counter(
        node.op for node in nodes if "device:CPU" in node.device
    )
    found.figures = {
        "operations": len(nodes),
        "on_host": dict(on_host.most_common()),
        "copies": _profile(step, iterator),
    }
    if request.gpus:
        # Arguments and constants lie there. A product would be slow there.
        slow = sorted(op for op in on_host if "MatMul" in op)
        text = ", ".join(slow) or "none"
        found.check("no matrix product on the host", not slow, text)
    return found


def scaling(request: Request) -> Found:
    """Sequences a second on one device and on all, the same batch on each."""
    found, count = Found(), request.num_devices
    if count < 2:
        return one_device()
    rows = sizes_for(request)[-2:][0]  # surely fits
    one, _ = _measure(_Step(request, rows), rows, bool(request.gpus))
    with strategy.create_strategy(MIRRORED).scope():
        step = _Step(request, rows * count)
        many, _ = _measure(step, rows * count, bool(request.gpus))
    ratio = many["sequences_per_s"] / one["sequences_per_s"]
    found.figures = {"devices": count, "one": one, "all": many, "ratio": ratio}
    return found
