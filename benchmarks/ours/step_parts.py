"""Which share of a training step each kind of work takes.

From TensorFlow's profiler. Where two operations run at once, they share the
time. What oneDNN does together with a product, such as adding the bias, counts
as the product.
"""

import re
from collections import Counter, defaultdict

from benchmarks.check_gpu import profile

FORWARD = "matrix products, forward"
BACKWARD = "matrix products, backward"
ATTENTION = "attention products"
RANDOM = "dropout's random numbers"
ELEMENTWISE = "compiled elementwise parts"
VOCABULARY_LOSS = "vocabulary loss"
OPTIMIZER = "optimizer"
REST = "casts, transposes, rest"
PARTS = (
    *(FORWARD, BACKWARD, ATTENTION, RANDOM),
    *(ELEMENTWISE, VOCABULARY_LOSS, OPTIMIZER, REST),
)
_MODULE = re.compile(r"a_inference_(\w+?)_\d+__")


def parts(step, repeats):
    """Profiles calls of a step that has run before; see `shares`."""
    found = []
    for plane in profile.planes_of(step, repeats):
        for line in plane.lines:
            for event in line.events:
                begin = 1000 * line.timestamp_ns + event.offset_ps
                if part := _part(plane, event):
                    found.append((begin, begin + event.duration_ps, part))
    return shares(found)


def _part(plane, event):
    """Part that an event belongs to; None = it only calls others."""
    for name, value in profile.values_of(plane, event):
        if name == "hlo_module":
            function = _MODULE.match(value)
            updates = function and "update" in function[1]
            return OPTIMIZER if updates else ELEMENTWISE
    name = plane.event_metadata[event.metadata_id].name
    kind = profile.type_of(name)
    return part_of(name, kind) if kind else None


def part_of(name, kind):
    """Part of an operation, by its name with scopes, and its type."""
    if "BatchMatMul" in kind:
        return ATTENTION
    if "MatMul" in kind and "bias_gradient" not in name:
        backward = "gradient_tape/" in name or "vocabulary_gradient" in name
        return BACKWARD if backward else FORWARD
    if "vocabulary_" in name:
        return VOCABULARY_LOSS
    return RANDOM if "StatelessRandom" in kind else REST


def shares(found):
    """Part -> share of the time from the first span to the last.

    Spans are (begin, end, part). Those that overlap share the time. Time
    without a span belongs to `REST`.
    """
    changes = sorted(
        [(begin, 1, part) for begin, _, part in found]
        + [(end, -1, part) for _, end, part in found]
    )
    total, active, before = defaultdict(float), Counter(), changes[0][0]
    for time, change, part in changes:
        running = active.total()
        if running:
            for name, count in active.items():
                total[name] += (time - before) * count / running
        else:
            total[REST] += time - before
        active[part] += change
        before = time
    whole = sum(total.values())
    return {part: total[part] / whole for part in PARTS}
