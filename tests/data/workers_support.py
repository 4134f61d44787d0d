"""What the workers of tests do, and waiting for them."""

import contextlib
import os
import pathlib
import signal
import sys
import time

from data import processes


# Tasks of workers.
def double(task, advance):
    advance(task, 1)
    return 2 * task


def fail(task, advance):
    del advance
    if task == 1:
        raise ValueError("text.txt, line 7: is bad")
    return task


def kill_itself(task, advance):
    del task, advance
    os.kill(os.getpid(), signal.SIGKILL)


def kill_while_counting(task, advance):
    del task, advance
    processes._counts.get_lock().acquire()
    os.kill(os.getpid(), signal.SIGKILL)


def add_process_id(task, advance):
    """Says who works, and then works on until it is stopped."""
    del advance
    folder, index = task
    pathlib.Path(folder, f"{index}").write_text(str(os.getpid()))


def work_and_ask(task, advance):
    add_process_id(task, advance)
    try:
        while True:
            time.sleep(0.01)
            advance(1, 1)
    finally:
        pathlib.Path(task[0], "tidied-up").touch()


def work_and_never_ask(task, advance):
    add_process_id(task, advance)
    time.sleep(600)


def name_big_modules(task, advance):
    del task, advance
    return sorted({"tensorflow", "keras"} & set(sys.modules))


# A process that takes so long hangs, however busy the machine is: it is half of
# what `work_and_never_ask` works.
HANGS = 300


def wait_for(condition):
    end = time.monotonic() + HANGS
    while not condition():
        assert time.monotonic() < end, "timed out"
        time.sleep(0.02)


def processes_of(session):
    """The ids of all processes of a session that still live."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            fields = path.read_text().rpartition(")")[2].split()
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(int(path.parent.name))
    return found
