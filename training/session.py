"""What lies around a run: its workers, and its hold on the output folder."""

import contextlib
import os
import re
import sys
from collections.abc import Iterator
from typing import NamedTuple

import tensorflow as tf
from absl import logging

from data import locks
from training import preemption, strategy, workers
from training.options import DeviceOptions


class Session(NamedTuple):
    """What a run may touch.

    Attributes:
      output_dir: the folder to work in.
      is_chief: this process alone may write elsewhere.
    """

    output_dir: str
    is_chief: bool


@contextlib.contextmanager
def joined(options: DeviceOptions, output_dir: str) -> Iterator[Session]:
    """Holds the output folder, and keeps several workers together.

    To be entered before TensorFlow computes anything.

    Args:
      options: what the flags say.
      output_dir: of the run; every worker must see the same.

    Yields:
      What this process may touch.

    Raises:
      ValueError: another run holds the folder, or TF_CONFIG is none.
      SystemExit: another worker was lost.
    """
    cluster = strategy.cluster_of(options)
    if not cluster:
        with locks.sole_use(output_dir):
            yield Session(output_dir, is_chief=True)
        return
    devices = strategy.create_strategy(options)
    preempted = preemption.requested()
    preemption.install()  # TensorFlow has put its own in its place
    if preempted:
        raise preemption.Preempted
    watchdog = workers.Watchdog(cluster)
    try:
        # The chief has written nothing yet.
        strategy.all_workers(devices, [0.0])
        watchdog.start()
        with _folder_of(cluster, output_dir) as folder:
            # All have seen what was there.
            strategy.all_workers(devices, [1.0])
            yield Session(folder, is_chief=cluster.index == 0)
            # Nobody needs this one any more.
            strategy.all_workers(devices, [2.0])
    except tf.errors.OpError as error:
        lost = _lost(cluster, error)
        if lost is None:
            raise
        logging.flush()
        print(f"error: {workers.lost_message(lost)}", file=sys.stderr)
        sys.stderr.flush()
        # Not sys.exit: TensorFlow would wait for the dead.
        os._exit(preemption.EXIT_CODE)
    finally:
        watchdog.stop()


@contextlib.contextmanager
def _folder_of(cluster: workers.Cluster, output_dir: str) -> Iterator[str]:
    """The folder itself for the chief, a copy for each other worker."""
    if cluster.index == 0:
        with locks.sole_use(output_dir):
            yield output_dir
    else:
        name = f"worker-{cluster.index}"
        with workers.private_copy(output_dir, name) as folder:
            yield folder


def _lost(
    cluster: workers.Cluster, error: tf.errors.OpError
) -> list[str] | None:
    """The workers whose loss an error tells of; None = it is another one."""
    missing = workers.unreachable(cluster)
    if not missing and "ollective" not in str(error):
        return None
    # One that hangs still has its port, but TensorFlow names it.
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
