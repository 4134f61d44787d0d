"""Joins the workers of a run and locks its output folder."""

import contextlib
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from data.storage import files, locks
from modeling import checkpoints
from training.config.options import PRECISIONS, DeviceOptions
from training.devices import preemption, strategy, workers


class Session(NamedTuple):
    """The rights of a process: it may write to output_dir.

    Only the chief may also write elsewhere.
    """

    output_dir: str
    is_chief: bool


@contextlib.contextmanager
def joined(
    options: DeviceOptions,
    output_dir: str,
    flag_values: Mapping[str, object] | None = None,
) -> Iterator[Session]:
    """Locks the output folder and joins the workers for the duration of a run.

    Enter it before TensorFlow computes anything.

    Args:
      options: the devices.
      output_dir: folder of the run, the same for all workers.
      flag_values: value of each flag that must be the same for all workers.

    Yields:
      The rights of this process.

    Raises:
      ValueError: TF_CONFIG is malformed, the workers have different flags, or
        no checkpoint in output_dir can be read.
      OSError: another run holds the lock.
      SystemExit: another worker disappeared.
    """
    checkpoints.require_readable(output_dir)
    preemption.check()  # SIGTERM may have arrived while TensorFlow was loaded
    cluster = strategy.cluster_of(options)
    if not cluster:
        with locks.sole_use(output_dir):
            yield Session(output_dir, is_chief=True)
        return
    with _joined_workers(
        cluster, options, output_dir, flag_values or {}
    ) as session:
        yield session


@contextlib.contextmanager
def _joined_workers(
    cluster: workers.Cluster,
    options: DeviceOptions,
    output_dir: str,
    flag_values: Mapping[str, object],
) -> Iterator[Session]:
    """`joined` for several workers."""
    devices = strategy.create_strategy(options)
    preempted = preemption.requested()
    preemption.install()  # TensorFlow has replaced the signal handler
    if preempted:
        raise preemption.Preempted
    minutes = options.worker_timeout_minutes
    watchdog = workers.Watchdog(cluster, strategy.waits(devices), minutes)
    is_chief = cluster.index == 0
    try:
        with contextlib.ExitStack() as held:
            # Take the lock first, so that no worker starts when the chief is
            # refused.
            if is_chief:
                held.enter_context(locks.sole_use(output_dir))
            _check_flags(cluster, devices, flag_values)
            _check_precision(cluster, devices, options)
            watchdog.start()
            _check_folder(cluster, devices, output_dir)
            if not is_chief:
                name = f"worker-{cluster.index}"
                output_dir = held.enter_context(
                    workers.private_copy(output_dir, name)
                )
            # All copies are made before the chief writes anything.
            strategy.check_together(devices, "the beginning")
            yield Session(output_dir, is_chief)
            # All workers have finished before the chief ends.
            strategy.check_together(devices, "the end")
    except tf.errors.OpError as error:
        lost = _lost(cluster, error)
        if lost is None:
            raise
        # sys.exit would let TensorFlow wait for the lost workers.
        workers.end_process(workers.lost_message(lost))
    finally:
        watchdog.stop()


def _check_flags(
    cluster: workers.Cluster,
    devices: tf.distribute.Strategy,
    flag_values: Mapping[str, object],
) -> None:
    """Raises ValueError if workers were started with different flags."""
    flags = {f"--{name}": repr(x) for name, x in sorted(flag_values.items())}
    kind = {"flags": ",".join(flags), "TensorFlow": tf.__version__}
    # The names first: the checksums of the values are compared only if all
    # workers have equally many.
    for texts in (kind, flags):
        sums = strategy.all_workers(
            devices, [0.0, *map(strategy.checksum, texts.values())]
        )[:, 1:]
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


def _check_precision(
    cluster: workers.Cluster,
    devices: tf.distribute.Strategy,
    options: DeviceOptions,
) -> None:
    """Raises ValueError if `--precision=auto` differs between workers."""
    if options.precision != "auto":
        return
    own = PRECISIONS.index(strategy.precision_of(options))
    found = strategy.all_workers(devices, [own])[:, 0].astype(int)
    for name, number in zip(cluster.names, found, strict=True):
        if number != found[0]:
            raise ValueError(
                f"--precision=auto takes {PRECISIONS[found[0]]} on "
                f"{cluster.names[0]} and {PRECISIONS[number]} on {name}: their "
                "processors differ. Give all of them --precision=float32, or "
                "--precision=bfloat16."
            )


def _check_folder(
    cluster: workers.Cluster, devices: tf.distribute.Strategy, output_dir: str
) -> None:
    """Raises ValueError if a worker cannot see the files of the chief."""
    mark = secrets.randbelow(1 << 48)

    def path():
        # The next run removes it if this one is killed.
        name = os.path.join(output_dir, ".workers")
        return files.incomplete(name, str(mark))

    written = path() if cluster.index == 0 else None
    if written:
        with files.open_write(written) as file:
            file.write(b"")
    try:
        # A new name cannot be in a file system's cache.
        mark = int(strategy.all_workers(devices, [mark])[0, 0])
        sees = strategy.all_workers(devices, [files.exists(path())])[:, 0]
    finally:
        if written:
            files.remove(written)
    blind = [n for n, it in zip(cluster.names, sees, strict=True) if not it]
    if blind:
        raise ValueError(
            f"{', '.join(blind)} cannot see what {cluster.names[0]} writes to "
            f"--output_dir (here: {output_dir}). It must be a folder that all "
            "of them see: on a network file system, or gs://."
        )


def _lost(
    cluster: workers.Cluster, error: tf.errors.OpError
) -> list[str] | None:
    """Returns the lost workers that caused an error; None = another cause."""
    missing = workers.unreachable(cluster)
    if not missing and "ollective" not in str(error):
        return None
    # A worker that hangs still has its port, but TensorFlow names it.
    named = {
        f"{job} {task} "
        for job, task in re.findall(
            r"/job:(\w+)/(?:replica:0/)?task:(\d+)", str(error)
        )
    }
    return missing or [
        name
        for i, name in enumerate(cluster.names)
        if i != cluster.index and name.startswith(tuple(named or {"?"}))
    ]
