"""Programs that are started, interrupted at some moment, and started again.

A `Run` is one program, or several that work together: all of them are started,
interrupted and awaited alike.

Moments are random in time, but bounded by the run's own steps: however fast the
machine is, it cannot come to the end before it is hit.
"""

import random
import re
import signal
import time

import numpy as np
import tensorflow as tf

from data.records import tfrecord
from tests import fork_server
from tests.pretraining_support import latest_step, read_all
from training.devices.preemption import EXIT_CODE


class Run:
    """A run in a folder, over as many starts as it takes.

    Args:
      root: the project.
      folder: its output_dir.
      commands: of each process: arguments, variables of the environment.
    """

    def __init__(self, root, folder, *commands):
        self._root = root
        self._commands = commands
        self.folder = folder
        self.processes = []
        self.starts = 0

    def start(self):
        """Starts all processes."""
        self.starts += 1
        self.before = latest_step(self.folder)
        self._events_before = self._events()
        self.processes = [
            fork_server.start(
                arguments,
                cwd=self._root,
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

    def is_running(self):
        return all(process.poll() is None for process in self.processes)

    def finish(self):
        """Starts all processes and lets them end well."""
        self.start()
        for process in self.processes:
            assert process.wait(900) == 0, self.log()[-3000:]

    def interrupt(self, number, moment, expected=None):
        """Starts all processes and sends them a signal.

        Args:
          number: the signal.
          moment: waits for it, with the run as its argument.
          expected: exit status; None = that of a process that is killed.
        """
        self.start()
        moment(self)
        for process in self.processes:
            process.send_signal(number)
        if number == signal.SIGTERM:
            # As of who is impatient; it must not break the saving.
            time.sleep(random.uniform(0, 0.1))
            for process in self.processes:
                process.send_signal(number)
        for process in self.processes:
            # A run that ended before it was hit would prove nothing.
            status = process.wait()
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
                    event = tf.compat.v1.Event.FromString(record)
                    last = max(last, event.step)
            except ValueError:
                pass  # cut off by the kill
        return last

    def _events(self):
        return set(self.folder.glob("events.out.tfevents.*"))

    def _log(self, i):
        name = f"{self.folder.name}-start{self.starts}-process{i}.log"
        return self.folder.parent / name


def until(condition, run):
    """Waits until something holds, or the run has ended."""
    deadline = time.monotonic() + 300
    while run.is_running() and not condition():
        assert time.monotonic() < deadline, run.log()[-3000:]
        time.sleep(0.003)


def pause(run, seconds, steps):
    """Waits so long, or for so many steps that are saved: both at random."""
    end = time.monotonic() + random.uniform(0, seconds)
    last = latest_step(run.folder) + random.randint(1, steps)
    until(
        lambda: time.monotonic() >= end or latest_step(run.folder) >= last, run
    )


def after(text):
    """A moment: the log says something."""
    return lambda run: until(lambda: text in run.log(), run)


def at_any_time(seconds, steps=40):
    """A moment in the start-up or the first steps behind it, see `pause`."""

    def moment(run):
        after("Computing on")(run)
        pause(run, seconds, steps)

    return moment


def wait_for_a_save(run):
    """Waits for a new checkpoint."""
    until(lambda: latest_step(run.folder) > run.before, run)


def after_a_save(seconds, steps=40):
    """A moment soon after a new checkpoint, see `pause`."""

    def moment(run):
        wait_for_a_save(run)
        pause(run, seconds, steps)

    return moment


def while_saving(run):
    """A moment: a checkpoint is being written, not the first."""
    wait_for_a_save(run)
    until(lambda: any(run.folder.glob("model.ckpt-*.incomplete-*")), run)


def while_making_records(run):
    """A moment: records are being written."""
    until(lambda: any(run.folder.glob("*.tf_record.incomplete-*")), run)


def twenty_one(number):
    """So many interruptions by a signal, at all kinds of moments.

    They take some 400 steps of a run that saves every 4, and 800 at most.
    """
    moments = [after_a_save(0.3), while_saving, at_any_time(12)]
    return [(number, moment) for moment in moments * 7]


def interrupt_again_and_again(run, interruptions, save_checkpoints_steps):
    """Interrupts a run, then lets it end; no work is lost that need not be.

    Args:
      run: the run.
      interruptions: (signal, moment) of each.
      save_checkpoints_steps: of the run; so many steps a kill may cost, and
        SIGTERM none.
    """
    kept = 0  # what the next start must go on from, or after
    for number, moment in interruptions:
        if number == signal.SIGTERM:
            run.interrupt(number, moment, EXIT_CODE)
            assert "preempted by SIGTERM: files appear whole" in run.log()
            assert not list(run.folder.glob("**/*incomplete*"))
        else:
            run.interrupt(number, moment)
        seen = run.seen_step()
        if seen:
            assert run.resumed_at() >= kept
        cost = 0 if number == signal.SIGTERM else save_checkpoints_steps
        kept = max(kept, seen - cost)
    assert kept > 0
    run.finish()
    assert run.resumed_at() >= kept
    assert not list(run.folder.glob("**/*incomplete*"))


def assert_same_checkpoint(ours, theirs):
    """Equal to the last bit."""
    ours, theirs = read_all(ours), read_all(theirs)
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        np.testing.assert_array_equal(ours[name], value, err_msg=name)
