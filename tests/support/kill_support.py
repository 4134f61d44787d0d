"""Programs that are interrupted at points of their own work and started again.

A `Run` is one program, or several that work together: all of them are started,
interrupted and awaited alike.

A point is a function from a `Run` to a `POINT COUNT` of
`self_interrupting.py`. It is random, and bounded by the steps of the run. So a
run cannot end before it is interrupted, and no point can be missed, however
slow the machine is.
"""

import random
import re
import signal
import sys

import tensorflow as tf

from data.records import tfrecord
from tests.support import fork_server
from tests.support.pretraining_support import latest_step
from training.devices.preemption import EXIT_CODE

HANG = "HANG"  # see self_interrupting.py
HANGS = 900  # seconds after which a process is taken to hang


class Run:
    """A run in a folder, over as many starts as it takes.

    `commands` are of each process: arguments, variables of the environment.
    """

    def __init__(self, folder, *commands):
        self._commands = commands
        self.folder = folder
        self.processes = []
        self.starts = 0

    def start(self, number=None, point=None, who=None):
        """Starts all processes.

        Args:
          number: a signal that processes send to themselves, or HANG; None =
            none.
          point: when.
          who: index of the one that does; None = all.
        """
        self.starts += 1
        self.before = latest_step(self.folder)
        self._events_before = self._events()
        wrapper = []
        if number:
            name = number if number == HANG else signal.Signals(number).name
            wrapper = ["tests/support/self_interrupting.py", name, *point(self)]
        self.processes = [
            fork_server.start(
                [
                    sys.executable,
                    *(wrapper if who in (None, i) else ()),
                    *arguments[1:],
                ],
                cwd=fork_server.ROOT,
                stdout=self._log(i),
                stderr=self._log(i),
                env=env,
            )
            for i, (arguments, env) in enumerate(self._commands)
        ]

    def log(self):
        """What the processes have said since the last start."""
        texts = [
            path.read_text("utf-8", "replace")
            for i in range(len(self._commands))
            if (path := self._log(i)).exists()
        ]
        return "\n".join(texts)

    def finish(self):
        """Starts all processes and lets them end well."""
        self.start()
        for process in self.processes:
            assert process.wait(HANGS) == 0, self.log()[-3000:]

    def interrupt(self, number, point, expected=None):
        """Starts all processes, which send themselves a signal at a point.

        `expected` is the exit status; None = that of a process that is killed.
        """
        self.start(number, point)
        for process in self.processes:
            # A run that ended before it was hit would prove nothing.
            status = process.wait(HANGS)
            assert status == (expected or -number), self.log()[-3000:]

    def resumed_at(self):
        """The step that the last start went on from."""
        found = re.search(r"Resuming .* at step (\d+)\.", self.log())
        return int(found[1]) if found else 0

    def seen_step(self):
        """The last step of the last start, by its events: saved or not."""
        last = 0
        for path in self._events() - self._events_before:
            try:
                for record in tfrecord.read_records(str(path)):
                    last = max(last, tf.compat.v1.Event.FromString(record).step)
            except ValueError:
                pass  # cut off by the kill
        return last

    def _events(self):
        return set(self.folder.glob("events.out.tfevents.*"))

    def _log(self, i):
        name = f"{self.folder.name}-start{self.starts}-process{i}.log"
        return self.folder.parent / name


def after_steps(least, most):
    """A point: between so many steps after the newest checkpoint."""
    return lambda run: ("training", run.before + random.randint(least, most))


def while_saving(run):
    """A point: at one of the file operations of the first three saves.

    A save has 4 file operations or more.
    """
    return "renamed", random.randint(1, 12)


def in_the_start_up(run):
    """A point: one of the log lines before training."""
    return "line", random.randint(0, 2)


def while_making_records(run):
    """A point: records are being written."""
    return "writing", 1


def twenty_one(number):
    """So many interruptions by a signal, at all kinds of points.

    They take 7 x 44 + 7 x 16 + 3 x 40 = 540 steps at most of a run that saves
    every 4.
    """
    points = [
        after_steps(5, 44),
        while_saving,
        in_the_start_up,
        after_steps(5, 44),
        while_saving,
        after_steps(1, 40),
    ]
    return [(number, points[i % len(points)]) for i in range(21)]


def interrupt_again_and_again(run, interruptions, save_checkpoints_steps):
    """Interrupts a run, then lets it end; no work is lost that need not be.

    `interruptions` are (signal, point) of each. A kill may cost
    `save_checkpoints_steps` steps, and SIGTERM none.
    """
    kept = 0  # the next start must resume at this step or later
    for number, point in interruptions:
        if number == signal.SIGTERM:
            # A kill before may have left some, which training removes.
            before = set(run.folder.glob("**/*incomplete*"))
            run.interrupt(number, point, EXIT_CODE)
            assert "preempted by SIGTERM: files appear whole" in run.log()
            assert set(run.folder.glob("**/*incomplete*")) <= before
        else:
            run.interrupt(number, point)
        seen = run.seen_step()
        if seen:
            assert run.resumed_at() >= kept
        cost = 0 if number == signal.SIGTERM else save_checkpoints_steps
        kept = max(kept, seen - cost)
    assert kept > 0
    run.finish()
    assert run.resumed_at() >= kept
    assert not list(run.folder.glob("**/*incomplete*"))
