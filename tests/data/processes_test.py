import os
import signal
import subprocess
import sys
import threading

import pytest

from data import processes
from tests.data import workers_support as work

PARENT = """
import sys
from data.processes import Workers
from tests.data import workers_support

if __name__ == "__main__":
    with Workers(2) as some:
        tasks = [(sys.argv[2], i) for i in range(2)]
        for _ in some.run(getattr(workers_support, sys.argv[1]), tasks, print):
            pass
"""


def nothing(*_):
    pass


@pytest.mark.parametrize("num_processes", [1, 2])
def test_all_results_and_all_progress_come(num_processes):
    told = []
    with processes.Workers(num_processes) as some:
        results = set(
            some.run(work.double, [1, 2, 3, 4], lambda *more: told.append(more))
        )
        assert list(some.map(pow, [2, 3, 4], [1, 2, 3])) == [2, 9, 64]
        assert list(some.run(work.double, [], nothing)) == []
    assert results == {2, 4, 6, 8}
    assert [sum(counts) for counts in zip(*told, strict=True)] == [10, 4]


@pytest.mark.parametrize("num_processes", [1, 2])
def test_an_error_of_a_task_is_raised_here(num_processes):
    with pytest.raises(ValueError, match="^text.txt, line 7: is bad$"):
        with processes.Workers(num_processes) as some:
            list(some.run(work.fail, range(4), nothing))


@pytest.mark.parametrize("is_map", [False, True])
@pytest.mark.parametrize("task", [work.kill_itself, work.kill_while_counting])
def test_a_killed_worker_is_an_error(task, is_map):
    message = "^a worker process was killed, .*with fewer --num_processes.$"
    with pytest.raises(OSError, match=message):
        with processes.Workers(2) as some:
            if is_map:
                list(some.map(task, range(4), range(4)))
            else:
                list(some.run(task, range(4), nothing))


def test_workers_do_not_load_what_they_do_not_need():
    # This process has; a worker that is forked would have, too.
    import tensorflow  # noqa: F401

    with processes.Workers(2) as some:
        assert list(some.run(work.name_big_modules, [0], nothing)) == [[]]


def start(root, folder, task):
    """Starts a parent with two workers at work.

    Returns the parent, and a function that gives the ids of those that live.
    """
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, task, str(folder)],
        cwd=root,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    files = [folder / "0", folder / "1"]
    work.wait_for(lambda: all(f.exists() and f.read_text() for f in files))
    ids = {int(f.read_text()) for f in files}
    return parent, lambda: ids & {*work.processes_of(parent.pid)}


@pytest.mark.all
@pytest.mark.parametrize("task", ["work_and_ask", "work_and_never_ask"])
def test_interrupted_workers_end_soon(pytestconfig, tmp_path, task):
    parent, living = start(pytestconfig.rootpath, tmp_path, task)
    os.killpg(parent.pid, signal.SIGINT)  # as the terminal does for ^C
    assert parent.wait(timeout=work.HANGS) != 0
    assert not living()
    assert (tmp_path / "tidied-up").exists() == (task == "work_and_ask")


@pytest.mark.parametrize("task", ["work_and_ask", "work_and_never_ask"])
def test_workers_end_with_a_killed_parent(pytestconfig, tmp_path, task):
    parent, living = start(pytestconfig.rootpath, tmp_path, task)
    assert len(living()) == 2
    parent.kill()
    parent.wait()
    work.wait_for(lambda: not living())


def test_a_pool_ends_whose_thread_is_just_starting():
    """A signal may come then; the error of `join` would hide its exception."""
    workers = processes.Workers(1, apart=True)
    thread = workers._executor._executor_manager_thread = threading.Thread()
    threading.Timer(0.1, thread.start).start()
    with pytest.raises(SystemExit), workers:
        raise SystemExit
    assert not thread.is_alive()
    assert thread.ident  # it was waited for
