"""Runs a program that sends itself a signal at a point of its own work.

    python tests/support/self_interrupting.py SIGNAL POINT COUNT PROGRAM ...

A point is reached at the same place however fast the machine is. It is one of:

`line`: the log line number COUNT after "Computing on", which has number 0.
`renamed`: the file operation number COUNT after the first training step. File
  operations are what makes a checkpoint appear or removes one.
anything else: the description of a `Progress` that has counted COUNT units,
  for example `training` and a step.

SIGNAL may also be `HANG`: the main thread stops for ever, and the other threads
of the process go on, as when a file system does not respond.
"""

import os
import runpy
import signal
import sys
import threading

import tensorflow as tf
from absl import logging

from data.progress import Progress


class Interrupter:
    """Sends a signal, None = hang, to this process when a point is reached."""

    def __init__(self, number, point, count):
        self._number = number
        self._point = point
        self._count = count
        self._pid = os.getpid()
        self._num_sent = 0
        self._num_lines = -1  # "Computing on" is not logged yet
        self._num_operations = -1  # no step is made yet

    def install(self):
        """Watches log lines, progress and file operations."""
        logging.get_absl_logger().addFilter(self._line)
        Progress.advance = self._watched_progress(Progress.advance)
        os.replace = self._watched_operation(os.replace)
        for name in ("makedirs", "rename", "remove", "rmtree"):
            operation = getattr(tf.io.gfile, name)
            setattr(tf.io.gfile, name, self._watched_operation(operation))

    def _reached(self, point, count):
        if point == self._point and count >= self._count:
            self._send(first=True)

    def _send(self, first):
        # Processes that this one forks are not interrupted.
        if os.getpid() == self._pid and self._num_sent == (not first):
            self._num_sent += 1
            if self._number is None:
                threading.Event().wait()
            os.kill(self._pid, self._number)

    def _line(self, record):
        if self._num_lines >= 0 or record.msg.startswith("Computing on"):
            self._num_lines += 1
            self._reached("line", self._num_lines)
        return True

    def _watched_progress(self, advance):
        def watched(progress, count=1, figures=""):
            advance(progress, count, figures)
            if progress._description == "training":
                self._num_operations = max(self._num_operations, 0)
            self._reached(progress._description.split()[0], progress._done)

        return watched

    def _watched_operation(self, operation):
        def watched(*args, **kwargs):
            if self._num_operations >= 0:
                self._num_operations += 1
                self._reached("renamed", self._num_operations)
                # A second signal, which must not break the saving. Nothing
                # would end a second stop.
                if self._number != signal.SIGSTOP:
                    self._send(first=False)
            return operation(*args, **kwargs)

        return watched


if __name__ == "__main__":
    name, point, count, *sys.argv = sys.argv[1:]
    number = None if name == "HANG" else signal.Signals[name]
    Interrupter(number, point, int(count)).install()
    runpy.run_path(sys.argv[0], run_name="__main__")
