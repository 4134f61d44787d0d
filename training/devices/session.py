"""Joins the workers of a run and locks its output folder."""

import contextlib
import os
import re
import secrets
from collections.abc import Iterator, Mapping

import numpy as np
import tensorflow as tf

from data.storage import files, locks
from modeling import checkpoints
from training.config.run_options import DeviceOptions
from training.devices import preemption, strategy, workers


@contextlib.contextmanager
def joined(
    options: DeviceOptions,
    output_dir: str,
    flag_values: Mapping[str, object] | None = None,
) -> Iterator[str]:
    """Locks the output folder and joins the workers for the duration of a run.

    Yields the folder that this process may write to: `output_dir`, or its own
    copy if it is not the chief, who alone may also write elsewhere.

    Enter it before TensorFlow computes anything. All workers must have the same
    `flag_values` (flag -> value) and see the same folder. Raises ValueError for
    other flags, a malformed TF_CONFIG or unreadable checkpoints; OSError if
    another run holds the lock; SystemExit if a worker disappears.
    """
    if not output_dir:  # a variable that is not set
        raise ValueError("--output_dir is empty; give a folder (. = this one).")
    checkpoints.require_readable(output_dir)
    preemption.check()  # SIGTERM may have arrived while TensorFlow was loaded
    if not (cluster := strategy.cluster_of(options)):
        with locks.sole_use(output_dir):
            yield output_dir
        return
    devices = strategy.create_strategy(options)
    preemption.install()  # TensorFlow has replaced the signal handler
    preemption.check()
    minutes = options.worker_timeout_minutes
    is_chief = cluster.index == 0
    try:
        with contextlib.ExitStack() as held:
            # Take the lock first, so that no worker starts when the chief is
            # refused.
            if is_chief:
                held.enter_context(locks.sole_use(output_dir))
            _check_flags(cluster, devices, options, flag_values or {})
            held.enter_context(workers.watched(cluster, minutes))
            _check_folder(cluster, devices, output_dir)
            if not is_chief:
                name = f"worker-{cluster.index}"
                copy = workers.private_copy(output_dir, name)
                output_dir = held.enter_context(copy)
            # All copies are made before the chief writes anything.
            strategy.check_together(devices, "the beginning")
            yield output_dir
            # All workers have finished before the chief ends.
            strategy.check_together(devices, "the end")
    except tf.errors.OpError as error:
        if (lost := _lost(cluster, error)) is None:
            raise
        # sys.exit would let TensorFlow wait for the lost workers.
        workers.end_process(workers.lost_message(lost))


def _check_flags(
    cluster: workers.Cluster,
    devices: tf.distribute.Strategy,
    options: DeviceOptions,
    flag_values: Mapping[str, object],
) -> None:
    """Raises ValueError if workers differ in their flags or arithmetic."""
    flags = {f"--{name}": repr(x) for name, x in sorted(flag_values.items())}
    kind = {"flags": ",".join(flags), "TensorFlow": tf.__version__}
    # Processors may differ.
    name = "what --precision=auto takes (give --precision=float32 to all)"
    flags[name] = strategy.precision_of(options)
    # The names first: the checksums of the values are compared only if all
    # workers have equally many.
    for texts in (kind, flags):
        sums = [*map(strategy.checksum, texts.values())]
        sums = strategy.all_workers(devices, sums)
        differs = sums != sums[0]
        if differs.any():
            other = int(np.argmax(differs.any(axis=1)))
            names = np.array(list(texts))[differs[other]]
            here = "; ".join(f"{name}={texts[name]}" for name in names)
            raise ValueError(
                f"{cluster.names[other]} differs from {cluster.names[0]} in "
                f"{', '.join(names)} (here: {here}). Start the same version "
                "with the same command for all workers; only the index in "
                "TF_CONFIG and the place of --output_dir may differ."
            )


def _check_folder(
    cluster: workers.Cluster, devices: tf.distribute.Strategy, output_dir: str
) -> None:
    """Raises ValueError if a worker cannot see the files of the chief."""
    # A new name cannot be in a file system's cache.
    marks = strategy.all_workers(devices, [secrets.randbelow(1 << 48)])
    # The next run removes it if this one is killed.
    name = os.path.join(output_dir, ".workers")
    path = files.incomplete(name, str(int(marks[0, 0])))
    if cluster.index == 0:
        with files.open_write(path) as file:
            file.write(b"")
    try:
        strategy.check_together(devices, "the first file")
        sees = strategy.all_workers(devices, [files.exists(path)])[:, 0]
    finally:
        if cluster.index == 0:
            files.remove(path)
    if blind := [n for n, x in zip(cluster.names, sees, strict=True) if not x]:
        raise ValueError(
            f"{', '.join(blind)} cannot see what {cluster.names[0]} writes to "
            f"--output_dir (here: {output_dir}). It must be a folder that all "
            "of them see: on a network file system, or gs://."
        )


def _lost(cluster: workers.Cluster, error: Exception) -> list[str] | None:
    """Returns the lost workers that caused an error; None = another cause."""
    missing, text = workers.unreachable(cluster), str(error)
    if missing or "ollective" not in text:
        return missing or None
    # A worker that hangs still has its port, but TensorFlow names it.
    found = re.findall(r"/job:(\w+)/(?:replica:0/)?task:(\d+)", text)
    named = tuple(f"{job} {task} " for job, task in found)
    own = cluster.names[cluster.index]
    return [n for n in cluster.names if n != own and n.startswith(named)]
