"""The longest kernels, and the copies, of steps that TensorFlow profiles."""

import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import tensorflow as tf

_MOST = 20  # kernels
_COPY = re.compile(r"Memcpy(D2H|H2D)", re.IGNORECASE)
_SIZE = re.compile(r"\bsize:(\d+)")


def of_steps(step: Callable[[], None], count: int) -> dict[str, Any]:
    """Profiles calls of a step that has run before; see `read`.

    Returns `error` alone, if there is no profile that can be read.
    """
    try:
        planes = _planes_of(step, count)
    # Broad, because CUPTI may be missing or forbidden, in ways that depend on
    # the driver. The other figures must not be lost.
    except Exception as error:  # noqa: BLE001
        return {"error": f"{type(error).__name__}: {error}"}
    return read(planes, count)


def _planes_of(step: Callable[[], None], count: int) -> Iterable[Any]:
    """Returns the planes of an `XSpace`, the profile of calls of a step."""
    # TensorFlow's copy of the format; it has no public name.
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    with tempfile.TemporaryDirectory() as folder:
        with tf.profiler.experimental.Profile(folder):
            for _ in range(count):
                step()
        (path,) = Path(folder).rglob("*.xplane.pb")
        return xplane_pb2.XSpace.FromString(path.read_bytes()).planes


def read(planes: Iterable[Any], count: int) -> dict[str, Any]:
    """Sums the events of a profile, the planes of an `XSpace`, over its steps.

    Returns `kernels`: name, milliseconds and starts in a step of the longest
    ones; `copies`: MB and number in a step by direction and operation. Or
    `error` alone, if there is no event of a GPU.
    """
    times, starts, sizes, copies = Counter(), Counter(), Counter(), Counter()
    for name, event, stats in _events(planes):
        times[name] += event.duration_ps
        starts[name] += 1
        if direction := _COPY.search(name):
            size = _SIZE.search(str(stats.get("memcpy_details", "")))
            place = direction[1].upper(), str(stats.get("tf_op", ""))
            sizes[place] += int(size[1]) if size else 0
            copies[place] += 1
    if not times:
        return {"error": "the profile has no event of a GPU"}
    found = {"kernels": [], "copies": []}
    for name, time in times.most_common(_MOST):
        row = {"name": name, "ms": time / 1e9 / count}
        found["kernels"].append(row | {"starts": starts[name] / count})
    for place, size in sizes.most_common(_MOST):
        row = {"direction": place[0], "operation": place[1]}
        row |= {"mb": size / 1e6 / count, "number": copies[place] / count}
        found["copies"].append(row)
    return found


def _events(planes) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """Yields name, event and its values, of the streams of all GPUs."""
    for plane in planes:
        if not plane.name.startswith("/device:GPU"):
            continue
        for line in plane.lines:
            if not line.name.startswith("Stream"):
                continue  # the same events again, by their scopes
            for event in line.events:
                name = plane.event_metadata[event.metadata_id].name
                yield name, event, dict(_values_of(plane, event))


def _values_of(plane: Any, event: Any) -> Iterator[tuple[str, Any]]:
    """Yields name and value of what an event says."""
    for stat in event.stats:
        kind = stat.WhichOneof("value")
        value = getattr(stat, kind) if kind else ""
        if kind == "ref_value":
            value = plane.stat_metadata[stat.ref_value].name
        yield plane.stat_metadata[stat.metadata_id].name, value
