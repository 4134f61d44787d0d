import errno
import fcntl
import os
import subprocess
import sys
from unittest import mock

import pytest

from data.storage import locks

HOLDER = """
import sys
from data.storage import locks
with locks.sole_use(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def hold(pytestconfig):
    """Starts processes that hold a folder until their input ends."""
    started = []

    def start(folder):
        process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(folder)],
            cwd=pytestconfig.rootpath,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout.readline() == "held\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_a_second_run_is_refused_and_told_who_has_the_folder(hold, tmp_path):
    folder = tmp_path / "out"
    process = hold(folder)
    (folder / "before").write_text("")
    message = (
        f"--output_dir: {folder} is in use by process {process.pid} on "
        f"{os.uname().nodename} since 20.* -c {folder}. Wait until it ends, .*"
        "or give another --output_dir."
    )
    for _ in range(2):  # the first attempt does not release the lock
        with pytest.raises(OSError, match=message):
            with locks.sole_use(str(folder)):
                pytest.fail("two have it")
    assert sorted(os.listdir(folder)) == [".lock", "before"]


def test_an_ended_run_leaves_nothing(hold, tmp_path):
    process = hold(tmp_path)
    process.communicate("")
    assert process.returncode == 0
    assert not os.listdir(tmp_path)
    hold(tmp_path)


def test_the_lock_of_a_killed_run_means_nothing(hold, tmp_path):
    process = hold(tmp_path)
    process.kill()
    process.wait()
    assert os.listdir(tmp_path) == [".lock"]
    with locks.sole_use(str(tmp_path)):
        text = (tmp_path / ".lock").read_text()
        assert text.startswith(f"process {os.getpid()} on ")
    assert not os.listdir(tmp_path)


def test_a_process_may_use_its_folder_within_itself(tmp_path, hold):
    with locks.sole_use(str(tmp_path)):
        with locks.sole_use(f"{tmp_path}/../{tmp_path.name}"):
            pass
        # Still its own, as another process sees it.
        with pytest.raises(AssertionError):
            hold(tmp_path)
    hold(tmp_path)


def test_a_fork_does_not_take_the_lock_along(tmp_path):
    with locks.sole_use(str(tmp_path)):
        child = os.fork()
        if not child:
            try:
                with locks.sole_use(str(tmp_path)):
                    os._exit(0)
            except OSError:
                os._exit(7)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 7


def test_a_folder_that_stays_empty_goes_with_the_lock(tmp_path):
    with pytest.raises(ValueError):
        with locks.sole_use(f"{tmp_path}/new/parent/out/"):
            (tmp_path / "new/parent/out/task").mkdir()
            raise ValueError("refused")
    assert not os.listdir(tmp_path)


def test_a_folder_with_a_file_or_of_the_user_stays(tmp_path):
    with pytest.raises(ValueError):
        with locks.sole_use(str(tmp_path / "new/out")):
            (tmp_path / "new/out/empty").mkdir()
            (tmp_path / "new/out/task").mkdir()
            (tmp_path / "new/out/task/record").write_text("")
            raise ValueError("stopped")
    assert sorted(os.listdir(tmp_path / "new/out")) == ["empty", "task"]
    (tmp_path / "users").mkdir()
    with locks.sole_use(str(tmp_path / "users")):
        pass
    with locks.sole_use(str(tmp_path / "users/out")):
        (tmp_path / "users/beside").write_text("")
    assert os.listdir(tmp_path / "users") == ["beside"]


@pytest.mark.parametrize("folder_too", [False, True])
def test_a_lock_removed_while_it_is_waited_for_is_taken_anew(
    tmp_path, monkeypatch, folder_too
):
    folder = tmp_path / "out"
    lockf, calls = fcntl.lockf, []

    def removed_first(*arguments):
        calls.append(arguments)
        if len(calls) == 1:  # as its holder does at its end
            os.remove(folder / ".lock")
            if folder_too:  # as a refused run does
                folder.rmdir()
        return lockf(*arguments)

    monkeypatch.setattr(fcntl, "lockf", removed_first)
    with locks.sole_use(str(folder)):
        assert (folder / ".lock").exists()
    assert len(calls) == 2


def test_a_bucket_is_not_locked():
    with locks.sole_use("gs://bucket/that/nobody/asks"):
        pass


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOTSUP])
def test_a_file_system_without_locks_is_told_of(
    tmp_path, monkeypatch, caplog, number
):
    error = OSError(number, os.strerror(number))
    monkeypatch.setattr(fcntl, "lockf", mock.Mock(side_effect=error))
    with locks.sole_use(str(tmp_path)):
        pass
    assert "has no locks" in caplog.text
    assert "start no second run here" in caplog.text


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="--output_dir: .*file/out cannot be w"):
        with locks.sole_use(str(tmp_path / "file/out")):
            pass
