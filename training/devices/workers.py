"""Parses TF_CONFIG, waits for all workers, and stops if one disappears.

Every worker runs the same program with the same flags. The first worker, the
chief, writes to the output folder. Each other worker writes to a private copy
of the folder, which holds links to the files and is removed at the end.
"""

import contextlib
import errno
import json
import os
import shutil
import socket
import sys
import tempfile
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import tensorflow as tf
from absl import logging

from data.storage import files
from training.devices import preemption

# The run stops if a worker cannot be reached for this long. It is more than a
# restart of the network takes, and less than two minutes.
_SILENCE_SECONDS = 60.0
_LOOK_SECONDS = 5.0
# Intervals of checks and of messages while workers wait for each other.
_MEET_SECONDS = 0.5
_MESSAGE_SECONDS = 30.0
_EXAMPLE = (
    '{"cluster": {"worker": ["host0:2222", "host1:2222"]}, "task": '
    '{"type": "worker", "index": 0}}'
)
_copies: list[str] = []  # those of `private_copy`


class Cluster(NamedTuple):
    """The workers of a run, by name (`worker 1 (host:port)`) and address.

    `index` is this worker's; 0 is the chief.
    """

    names: tuple[str, ...]
    addresses: tuple[str, ...]
    index: int


def cluster_of(environment: Mapping[str, str]) -> Cluster | None:
    """Parses TF_CONFIG; None = this process is the only one.

    Raises ValueError if TF_CONFIG is malformed or has other kinds of processes.

    Source: tf.distribute.cluster_resolver.TFConfigClusterResolver.
    """
    text = environment.get("TF_CONFIG") or "{}"
    try:
        config = json.loads(text)
        jobs = config.get("cluster", {})
        members = {
            (job, i): address
            for job in ("chief", "worker")
            for i, address in enumerate(jobs.get(job, []))
        }
        if not jobs or len(members) == 1:
            return None
        task = config["task"]
        own = [*members].index((task["type"], int(task["index"])))
        if others := jobs.keys() - {"chief", "worker"}:
            raise ValueError(f"it names a job {min(others)!r}")
        addresses = tuple(members.values())
        for address in addresses:
            _host_and_port(address)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"TF_CONFIG={text}: expected something like {_EXAMPLE} ({error}). "
            "Correct it, or unset it to run on this host alone."
        ) from None
    names = tuple(f"{job} {i} ({at})" for (job, i), at in members.items())
    return Cluster(names, addresses, own)


def unreachable(cluster: Cluster) -> list[str]:
    """Returns the names of the other workers whose port does not answer."""
    return [
        cluster.names[i]
        for i, address in enumerate(cluster.addresses)
        if i != cluster.index and not _answers(address, 2.0)
    ]


def _answers(address: str, seconds: float) -> bool:
    """Whether a process listens at an address."""
    try:
        socket.create_connection(_host_and_port(address), seconds).close()
    except OSError:
        return False
    return True


def _host_and_port(address: str) -> tuple[str, int]:
    """Splits `host:port` or `[::1]:port`."""
    with contextlib.suppress(ValueError):
        parts = urllib.parse.urlsplit(f"//{address}")
        if parts.hostname and parts.port and parts.netloc == address:
            return parts.hostname, parts.port
    raise ValueError(f"worker at {address!r}; expected host:port or [::1]:port")


def meet(cluster: Cluster) -> None:
    """Waits until each worker has answered at its port.

    TensorFlow would wait without a message and would not react to SIGTERM or
    ^C. Meanwhile this worker listens at its own port. Raises ValueError if it
    cannot; `Preempted` after SIGTERM.
    """
    missing = dict(zip(cluster.names, cluster.addresses, strict=True))
    del missing[cluster.names[cluster.index]]
    logging.info("Waiting for %s.", ", ".join(missing))
    last_message = time.monotonic()
    with _listen(cluster) as server:
        while True:
            preemption.check()
            with contextlib.suppress(BlockingIOError):
                while True:
                    server.accept()[0].close()
            known = missing.items()
            missing = {name: at for name, at in known if not _answers(at, 1.0)}
            if not missing:
                return
            if time.monotonic() - last_message >= _MESSAGE_SECONDS:
                last_message = time.monotonic()
                logging.warning(
                    "Still waiting for %s, which does not answer. Was it "
                    "started, with the same TF_CONFIG except for the index?",
                    ", ".join(missing),
                )
            time.sleep(_MEET_SECONDS)


def _listen(cluster: Cluster) -> socket.socket:
    """Opens this worker's port on all addresses of the host."""
    _, port = _host_and_port(cluster.addresses[cluster.index])
    kinds = [{"family": socket.AF_INET6, "dualstack_ipv6": True}, {}]
    if not socket.has_dualstack_ipv6():
        del kinds[0]
    for kind in kinds:
        try:
            server = socket.create_server(("", port), backlog=1024, **kind)
            server.setblocking(False)
            return server
        except OSError as failure:
            error = failure
            if error.errno == errno.EADDRINUSE:
                break
    raise ValueError(
        f"TF_CONFIG makes this process {cluster.names[cluster.index]}, but it "
        f"cannot listen at port {port} ({os.strerror(error.errno)}). Stop the "
        "process that uses it, or give all workers another port."
    )


class Waits:
    """What a process waits for, and since when; read by the watchdog.

    A worker that hangs leaves the others inside a collective operation, which
    never ends by itself. TensorFlow's `CommunicationOptions.timeout_seconds` is
    only for debugging, because it starts a thread for each operation. `clock`
    returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._began: float | None = None
        self._what = "the start of the run"

    @contextlib.contextmanager
    def on(self, what: str = "") -> Iterator[None]:
        """A block that ends only when all other workers take part.

        `what` it does, such as `steps 5 to 8`, is for the watchdog's message;
        "" = the same as the last block.
        """
        self._what = what or self._what
        self._began = self._clock()
        try:
            yield
        finally:
            self._began = None

    def current(self) -> tuple[float, str]:
        """Returns seconds of waiting until now, and what for."""
        began = self._began
        return 0.0 if began is None else self._clock() - began, self._what


# Of this process: collective computations run inside its `on`.
WAITS = Waits()


@contextlib.contextmanager
def watched(cluster: Cluster, minutes: float) -> Iterator[None]:
    """In a block, ends this process when another worker disappears or hangs.

    TensorFlow detects a worker's missing gradients in about ten seconds. But a
    worker that reads files or waits at a barrier would not notice. A worker
    that hangs still answers, so that only the time of waiting shows it. All
    workers have answered before; `minutes` is the longest wait, 0 = no limit.
    """
    stopped = threading.Event()
    arguments = cluster, WAITS, minutes, stopped
    threading.Thread(target=_watch, args=arguments, daemon=True).start()
    try:
        yield
    finally:
        stopped.set()


def _watch(
    cluster: Cluster, waits: Waits, minutes: float, stopped: threading.Event
) -> None:
    """Checks the other workers every few seconds until `stopped`."""
    since: dict[str, float] = {}  # name of a silent worker -> seconds
    while not stopped.wait(_LOOK_SECONDS):
        waited, what = waits.current()
        if minutes and waited >= 60 * minutes:
            return end_process(
                f"{cluster.names[cluster.index]} has waited {waited / 60:.1f} "
                f"minutes for the other workers, at {what}. One of them hangs, "
                "or works alone for longer than --worker_timeout_minutes: the "
                "one whose log does not end with this message. End it, then "
                "start all workers again with the same commands; the run "
                "resumes from its last checkpoint."
            )
        now = time.monotonic()
        silent = unreachable(cluster)
        since = {name: since.get(name, now) for name in silent}
        gone = [n for n in silent if now - since[n] >= _SILENCE_SECONDS]
        if gone and not stopped.is_set():
            return end_process(lost_message(gone))


def lost_message(names: list[str]) -> str:
    """Returns the message about workers that disappeared."""
    return (
        f"lost {', '.join(names) or 'another worker'}: it ended, or the "
        "network failed. Look at its log, then start all workers again with "
        "the same commands; the run resumes from its last checkpoint."
    )


def end_process(message: str) -> None:
    """Exits immediately, because TensorFlow may wait for a lost worker."""
    logging.flush()
    print(f"error: {message}", file=sys.stderr, flush=True)
    for copy in _copies:
        shutil.rmtree(copy, ignore_errors=True)
    os._exit(preemption.EXIT_CODE)


@contextlib.contextmanager
def private_copy(folder: str, name: str) -> Iterator[str]:
    """Makes a private copy of a folder, as links, for a block.

    Writing a file replaces its link. The folder may be missing; `name` is part
    of the copy's name, such as `worker-1`. The copy is in the system's
    temporary folder (TMPDIR), and only this user can read it. It is removed at
    the end; a process that is killed leaves it.
    """
    with tempfile.TemporaryDirectory(
        prefix=f"bert-{name}{files.OF_LINKS}", ignore_cleanup_errors=True
    ) as copy:
        _copies.append(copy)
        logging.info("The chief writes %s, this worker %s.", folder, copy)
        if tf.io.gfile.isdir(folder):
            _link(folder, copy)
        yield copy


def _link(source: str, target: str) -> None:
    """Fills a folder with links to the files of another one."""
    for name in tf.io.gfile.listdir(source):
        name = name.rstrip("/")
        path, place = os.path.join(source, name), os.path.join(target, name)
        # Not temporary files, events and hidden files such as locks.
        if ".incomplete-" in name or name.startswith(("events.out.", ".")):
            continue
        if tf.io.gfile.isdir(path):
            os.makedirs(place)
            _link(path, place)
        elif "://" in path:
            tf.io.gfile.copy(path, place)
        else:
            os.symlink(os.path.abspath(path), place)
