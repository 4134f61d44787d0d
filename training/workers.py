"""Several processes that train one model: who they are, and whether they live.

Every worker runs the same program on the same flags and does the same, so that
there is nothing to tell each other but gradients. Only the first, the chief,
writes into the output folder; each other one works in a copy of its own that
nobody sees (links, and what it writes itself), and that is removed at the end.
"""

import contextlib
import hashlib
import json
import os
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import tensorflow as tf
from absl import logging

from training.preemption import EXIT_CODE

# A worker that nobody reaches for so long is given up; within the two minutes
# that its absence may cost, and more than a restart of the network takes.
_SILENCE_SECONDS = 60.0
_LOOK_SECONDS = 5.0


class Cluster(NamedTuple):
    """The workers of a run, as this process sees them.

    Attributes:
      names: of each worker, as in `worker 1 (host:port)`.
      addresses: `host:port` of each.
      index: of this one; 0 is the chief.
    """

    names: tuple[str, ...]
    addresses: tuple[str, ...]
    index: int


def cluster_of(environment: Mapping[str, str]) -> Cluster | None:
    """Reads TF_CONFIG, which says who takes part.

    Args:
      environment: such as `os.environ`.

    Returns:
      The workers; None if there are no others than this process.

    Raises:
      ValueError: it is no such JSON, or names processes of another kind.

    Source: tf.distribute.cluster_resolver.TFConfigClusterResolver.
    """
    text = environment.get("TF_CONFIG")
    if not text:
        return None
    example = (
        '{"cluster": {"worker": ["host0:2222", "host1:2222"]}, "task": '
        '{"type": "worker", "index": 0}}'
    )
    try:
        config = json.loads(text)
        jobs = config.get("cluster", {})
        members = [
            (job, i, address)
            for job in ("chief", "worker")
            for i, address in enumerate(jobs.get(job, []))
        ]
        if not jobs or [(job, i) for job, i, _ in members] == [("worker", 0)]:
            return None
        task = config["task"]
        own = [m[:2] for m in members].index((task["type"], int(task["index"])))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"TF_CONFIG={text}: expected something like {example} ({error}). "
            "Mend it, or unset it to run on this host alone."
        ) from None
    others = jobs.keys() - {"chief", "worker"}
    if others:
        raise ValueError(
            f"TF_CONFIG names a job {min(others)!r}; only chief and worker are "
            f"known: all processes train alike, as in {example}."
        )
    return Cluster(
        tuple(f"{job} {i} ({address})" for job, i, address in members),
        tuple(address for _, _, address in members),
        own,
    )


def unreachable(cluster: Cluster, seconds: float = 2.0) -> list[str]:
    """Names of the other workers whose port nobody answers at."""
    missing = []
    for i, address in enumerate(cluster.addresses):
        host, _, port = address.rpartition(":")
        try:
            if i != cluster.index:
                socket.create_connection((host, int(port)), seconds).close()
        except OSError:
            missing.append(cluster.names[i])
    return missing


class Watchdog(threading.Thread):
    """Ends this process when another worker is gone.

    TensorFlow notices when the gradients of a dead worker fail to come, in some
    ten seconds; but who is busy with files or waits at a barrier notices
    nothing.

    Args:
      cluster: the workers; all of them have been seen alive.
      look: names of those that do not answer now.
      end: called with those that have been silent for too long.
    """

    def __init__(
        self,
        cluster: Cluster,
        look: Callable[[Cluster], list[str]] = unreachable,
        end: Callable[[list[str]], None] | None = None,
    ):
        super().__init__(name="watchdog", daemon=True)
        self._cluster = cluster
        self._look = look
        self._end = end or _end_process
        self._stopped = threading.Event()

    def run(self) -> None:
        """Looks every few seconds, until `stop`."""
        silent_since: dict[str, float] = {}
        while not self._stopped.wait(_LOOK_SECONDS):
            now = time.monotonic()
            silent_since = {
                name: silent_since.get(name, now)
                for name in self._look(self._cluster)
            }
            gone = [
                name
                for name, since in silent_since.items()
                if now - since >= _SILENCE_SECONDS
            ]
            if gone and not self._stopped.is_set():
                self._end(gone)
                return

    def stop(self) -> None:
        """Looks no more: from here on the others may end, too."""
        self._stopped.set()


def lost_message(names: list[str]) -> str:
    """What to say when workers are gone."""
    return (
        f"lost {', '.join(names) or 'another worker'}: it ended, or the "
        "network did. Look at its log, then start all workers again with the "
        "same commands; the run goes on from its last checkpoint."
    )


def _end_process(names: list[str]) -> None:
    """Ends it at once: its main thread may wait for the dead."""
    logging.flush()
    print(f"error: {lost_message(names)}", file=sys.stderr, flush=True)
    os._exit(EXIT_CODE)


@contextlib.contextmanager
def private_copy(folder: str, name: str) -> Iterator[str]:
    """A folder that begins as another one, and changes without it.

    Its files are links; who writes one puts a new file in the link's place.

    Args:
      folder: is read; need not be there.
      name: part of the copy's name, such as `worker-1`.

    Yields:
      The copy, in the system's folder of temporary files (TMPDIR); it is
      removed in the end, or by the next run if this one is killed.
    """
    full = folder if "://" in folder else os.path.abspath(folder)
    mark = hashlib.sha256(full.encode()).hexdigest()[:8]
    copy = os.path.join(
        tempfile.gettempdir(), f"bert-{os.getuid()}-{name}-{mark}"
    )
    shutil.rmtree(copy, ignore_errors=True)
    os.mkdir(copy, mode=0o700)
    logging.info(
        "The chief writes %s; what this worker writes goes to %s, and is "
        "removed at the end.",
        folder,
        copy,
    )
    try:
        if tf.io.gfile.isdir(folder):
            _link(folder, copy)
        yield copy
    finally:
        shutil.rmtree(copy, ignore_errors=True)


def _link(source: str, target: str) -> None:
    """Fills a folder with links to the files of another one."""
    for name in tf.io.gfile.listdir(source):
        name = name.rstrip("/")
        path, place = os.path.join(source, name), os.path.join(target, name)
        if ".incomplete-" in name or name.startswith("events.out."):
            continue
        if tf.io.gfile.isdir(path):
            os.makedirs(place)
            _link(path, place)
        elif "://" in path:
            tf.io.gfile.copy(path, place)
        else:
            os.symlink(os.path.abspath(path), place)
