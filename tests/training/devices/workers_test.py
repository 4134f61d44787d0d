"""The workers of a run, and the loss of a worker."""

import contextlib
import json
import os
import signal
import socket
import stat
import threading
import time

import pytest

from data.storage import files
from tests.training.support import free_ports
from training.devices import preemption, workers
from training.devices.workers import Waits

TWO = {"worker": ["localhost:1", "localhost:2"]}


def environment(cluster, kind="worker", index=0):
    task = {"type": kind, "index": index}
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": task})}


def cluster_of(*job, **task):
    return workers.cluster_of(environment(*job, **task))


def test_the_workers_are_those_of_tf_config():
    cluster = cluster_of(TWO, index=1)
    assert cluster.addresses == ("localhost:1", "localhost:2")
    assert cluster.index == 1
    assert cluster.names[0] == "worker 0 (localhost:1)"


def test_a_chief_comes_before_the_workers():
    jobs = {"worker": ["b:1", "c:1"], "chief": ["a:1"]}
    cluster = cluster_of(jobs, index=0)
    assert cluster.addresses == ("a:1", "b:1", "c:1")
    assert cluster.index == 1  # worker 0
    assert cluster_of(jobs, "chief").index == 0


ONE = environment({"worker": ["a:1"]})
CHIEF = environment({"chief": ["a:1"]}, "chief")


@pytest.mark.parametrize(
    "values", [{}, {"TF_CONFIG": ""}, {"TF_CONFIG": "{}"}, ONE, CHIEF]
)
def test_one_worker_is_no_cluster(values):
    assert workers.cluster_of(values) is None


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"TF_CONFIG": "worker"}, "expected something like"),
        ({"TF_CONFIG": "[1]"}, "expected something like"),
        (environment(TWO, index=2), "expected something like"),
        (environment(TWO, "chief"), "expected something like"),
        ({"TF_CONFIG": json.dumps({"cluster": TWO})}, "'task'"),
        (environment({**TWO, "ps": ["a:1"]}), "names a job 'ps'"),
        *(
            (environment({"worker": [address, "a:1"]}), r"at '.*expected host:")
            for address in ("a", "a:", ":1", "a:b", "a:0", "a:65536", "::1:2")
        ),
    ],
)
def test_a_wrong_tf_config_is_refused(values, message):
    with pytest.raises(ValueError, match=message):
        workers.cluster_of(values)


def test_who_has_no_open_port_is_named():
    with socket.create_server(("127.0.0.1", 0)) as server:
        ports = 1, server.getsockname()[1], *free_ports(1)
        cluster = cluster_of({"worker": [f"127.0.0.1:{p}" for p in ports]})
        assert workers.unreachable(cluster) == [cluster.names[2]]


def test_an_address_may_be_of_ipv6():
    try:
        server = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        # Some containers have IPv4 alone: then nothing can listen.
        pytest.skip("this machine has no IPv6 address to listen at")
    with server:
        address = f"[::1]:{server.getsockname()[1]}"
        cluster = cluster_of({"worker": ["127.0.0.1:1", address]})
        assert workers.unreachable(cluster) == []


@pytest.fixture
def lonely(monkeypatch):
    """Worker 0 of two, on free ports."""
    monkeypatch.setattr(workers, "_MEET_SECONDS", 0.01)
    return cluster_of({"worker": [f"127.0.0.1:{x}" for x in free_ports(2)]})


def test_missing_workers_are_logged_until_all_have_answered(
    lonely, monkeypatch, logged
):
    monkeypatch.setattr(workers, "_MESSAGE_SECONDS", 0.02)
    with contextlib.ExitStack() as stack:

        def started(*args):
            warning(*args)
            stack.enter_context(workers._listen(lonely._replace(index=1)))

        warning = workers.logging.warning
        monkeypatch.setattr(workers.logging, "warning", started)
        workers.meet(lonely)
    assert f"Waiting for {lonely.names[1]}." in logged.text
    assert f"Still waiting for {lonely.names[1]}, which does" in logged.text


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (signal.SIGTERM, preemption.Preempted),
        (signal.SIGINT, KeyboardInterrupt),
    ],
)
def test_the_wait_for_a_worker_can_be_broken(
    lonely, number, expected, monkeypatch
):
    def ask(*args, **options):  # when this worker listens, and waits
        if number not in sent:
            sent.append(number)
            os.kill(os.getpid(), number)
        return False

    sent, before = [], signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(workers, "_answers", ask)
    preemption.install()
    try:
        with pytest.raises(expected):
            workers.meet(lonely)
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_port_in_use_is_named(lonely):
    _, port = lonely.addresses[0].split(":")
    message = f"worker 0 .*cannot listen at port {port} .Address already in use"
    with socket.create_server(("127.0.0.1", int(port))):
        with pytest.raises(ValueError, match=message):
            workers.meet(lonely)


def watch(monkeypatch, looks, waited=0.0, minutes=30.0):
    """Runs a watchdog that finds these missing, one look after the other."""
    monkeypatch.setattr(workers, "_LOOK_SECONDS", 0.001)
    monkeypatch.setattr(workers, "_SILENCE_SECONDS", 0.05)
    ended, stopped = [], threading.Event()

    def look(cluster):
        del cluster
        if not looks:
            stopped.set()
            return []
        time.sleep(0.03)
        return looks.pop(0)

    monkeypatch.setattr(workers, "unreachable", look)
    monkeypatch.setattr(workers, "end_process", ended.append)
    now = [0.0]
    begun = Waits(lambda: now[0])
    with begun.on("steps 5 to 8"):
        now[0] = waited
        workers._watch(cluster_of(TWO), begun, minutes, stopped)
    return ended


def test_a_worker_silent_for_long_ends_the_process(monkeypatch):
    (message,) = watch(monkeypatch, [[], *[["worker 1 (localhost:2)"]] * 10])
    assert message.startswith("lost worker 1 (localhost:2)")
    assert "start all workers again" in message


def test_a_wait_for_a_worker_that_hangs_ends(monkeypatch):
    (message,) = watch(monkeypatch, [], waited=1800.0)
    assert message.startswith("worker 0 (localhost:1) has waited 30.0 minutes")
    for part in "steps 5 to 8", "--worker_timeout_minutes", "start all workers":
        assert part in message


@pytest.mark.parametrize(("waited", "minutes"), [(1799.0, 30.0), (1e9, 0.0)])
def test_a_shorter_wait_does_not_end(monkeypatch, waited, minutes):
    assert watch(monkeypatch, [], waited, minutes) == []


def test_a_wait_is_that_of_the_last_computation_of_all_workers():
    now = [0.0]
    begun = Waits(lambda: now[0])
    with begun.on("steps 1 to 4"):
        now[0] = 3.0
        assert begun.current() == (3.0, "steps 1 to 4")
    now[0] = 100.0  # a worker alone does not wait
    assert begun.current()[0] == 0.0
    with begun.on():
        now[0] = 101.0
        assert begun.current() == (1.0, "steps 1 to 4")
    with pytest.raises(ZeroDivisionError), begun.on("steps 5 to 8"):
        raise ZeroDivisionError
    assert begun.current()[0] == 0.0


def test_a_worker_that_comes_back_is_forgiven(monkeypatch):
    gone = ["worker 1 (localhost:2)"]
    assert watch(monkeypatch, [gone, [], gone, [], gone, []]) == []


def copy_of(tmp_path):
    return workers.private_copy(str(tmp_path / "out"), "worker-1")


def test_a_copy_shows_the_folder_and_changes_without_it(tmp_path):
    folder = tmp_path / "out"
    (folder / "best").mkdir(parents=True)
    (folder / "checkpoint").write_text("one")
    (folder / "best/model.ckpt-1.index").write_text("two")
    (folder / "best/labels.txt").write_text("three")
    (folder / "events.out.tfevents.1").write_text("not for us")
    (folder / "a.incomplete-7").write_text("nor this")
    # Held by the chief, or left by a killed run.
    (folder / "best/.lock").write_text("process 1 since yesterday")
    with copy_of(tmp_path) as copy:
        assert sorted(os.listdir(copy)) == ["best", "checkpoint"]
        names = ["labels.txt", "model.ckpt-1.index"]
        assert sorted(os.listdir(f"{copy}/best")) == names
        with open(f"{copy}/best/model.ckpt-1.index") as file:
            assert file.read() == "two"
        workers.tf.io.gfile.rename(
            f"{copy}/best/model.ckpt-1.index", f"{copy}/mine", overwrite=True
        )
        with open(f"{copy}/new", "w") as file:
            file.write("three")
        os.replace(f"{copy}/new", f"{copy}/checkpoint")
        # Elsewhere a link stands for its target.
        files.write_text(f"{copy}/best/labels.txt", "four")
    assert (folder / "checkpoint").read_text() == "one"
    assert (folder / "best/model.ckpt-1.index").exists()
    assert (folder / "best/labels.txt").read_text() == "three"
    assert not (folder / "new").exists()
    assert not os.path.exists(copy)


def test_two_runs_have_copies_of_their_own(tmp_path):
    with copy_of(tmp_path) as copy:
        files.write_text(f"{copy}/train.tf_record", "records")
        with copy_of(tmp_path) as other:
            assert os.listdir(other) == []
        assert os.listdir(copy) == ["train.tf_record"]


def test_a_copy_is_for_its_user_alone(tmp_path):
    before = os.umask(0)
    try:
        with copy_of(tmp_path) as copy:
            assert stat.S_IMODE(os.stat(copy).st_mode) & 0o777 == 0o700
    finally:
        os.umask(before)


def test_a_link_inside_a_copy_is_removed_and_its_target_kept(tmp_path):
    target = tmp_path / "target"
    target.mkdir()
    (target / "kept").touch()
    with copy_of(tmp_path) as copy:
        os.symlink(target, f"{copy}/link")
        os.mkdir(f"{copy}/folder")
        os.symlink(target, f"{copy}/folder/link")
    assert (target / "kept").exists() and not os.path.exists(copy)
