"""Who takes part in a run, and what happens when one of them is gone."""

import json
import os
import socket
import time

import pytest

from training import workers

TWO = {"worker": ["localhost:1", "localhost:2"]}


def environment(cluster, kind="worker", index=0):
    task = {"type": kind, "index": index}
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": task})}


def test_the_workers_are_those_of_tf_config():
    cluster = workers.cluster_of(environment(TWO, index=1))
    assert cluster.addresses == ("localhost:1", "localhost:2")
    assert cluster.index == 1
    assert cluster.names[0] == "worker 0 (localhost:1)"


def test_a_chief_comes_before_the_workers():
    jobs = {"worker": ["b:1", "c:1"], "chief": ["a:1"]}
    cluster = workers.cluster_of(environment(jobs, index=0))
    assert cluster.addresses == ("a:1", "b:1", "c:1")
    assert cluster.index == 1  # worker 0
    assert workers.cluster_of(environment(jobs, "chief")).index == 0


@pytest.mark.parametrize("values", [{}, {"TF_CONFIG": ""}, {"TF_CONFIG": "{}"}])
def test_without_tf_config_there_are_no_others(values):
    assert workers.cluster_of(values) is None


def test_one_worker_is_no_cluster():
    assert workers.cluster_of(environment({"worker": ["a:1"]})) is None


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"TF_CONFIG": "worker"}, "expected something like"),
        ({"TF_CONFIG": "[1]"}, "expected something like"),
        (environment(TWO, index=2), "expected something like"),
        (environment(TWO, "chief"), "expected something like"),
        ({"TF_CONFIG": json.dumps({"cluster": TWO})}, "'task'"),
        (environment({**TWO, "ps": ["a:1"]}), "names a job 'ps'"),
    ],
)
def test_a_wrong_tf_config_is_refused(values, message):
    with pytest.raises(ValueError, match=message):
        workers.cluster_of(values)


def test_who_has_no_open_port_is_named():
    with socket.create_server(("127.0.0.1", 0)) as server:
        open_port = server.getsockname()[1]
        with socket.create_server(("127.0.0.1", 0)) as other:
            closed = other.getsockname()[1]
        jobs = {"worker": [f"127.0.0.1:{p}" for p in (1, open_port, closed)]}
        cluster = workers.cluster_of(environment(jobs))
        assert workers.unreachable(cluster) == [
            f"worker 2 (127.0.0.1:{closed})"
        ]


def watch(monkeypatch, looks):
    """Runs a watchdog that finds these missing, one look after the other."""
    monkeypatch.setattr(workers, "_LOOK_SECONDS", 0.001)
    monkeypatch.setattr(workers, "_SILENCE_SECONDS", 0.05)
    ended = []

    def look(cluster):
        del cluster
        if not looks:
            watchdog.stop()
            return []
        time.sleep(0.03)
        return looks.pop(0)

    cluster = workers.cluster_of(environment(TWO))
    watchdog = workers.Watchdog(cluster, look, ended.append)
    watchdog.start()
    watchdog.join(timeout=10)
    assert not watchdog.is_alive()
    return ended


def test_a_worker_silent_for_long_ends_the_process(monkeypatch):
    gone = ["worker 1 (localhost:2)"]
    assert watch(monkeypatch, [[], *[gone] * 10]) == [gone]


def test_a_worker_that_comes_back_is_forgiven(monkeypatch):
    gone = ["worker 1 (localhost:2)"]
    assert watch(monkeypatch, [gone, [], gone, [], gone, []]) == []


def test_the_message_names_the_lost_and_the_remedy():
    message = workers.lost_message(["worker 1 (b:1)"])
    assert message.startswith("lost worker 1 (b:1)")
    assert "start all workers again" in message


def test_a_copy_shows_the_folder_and_changes_without_it(tmp_path):
    folder = tmp_path / "out"
    (folder / "best").mkdir(parents=True)
    (folder / "checkpoint").write_text("one")
    (folder / "best/model.ckpt-1.index").write_text("two")
    (folder / "events.out.tfevents.1").write_text("not for us")
    (folder / "a.incomplete-7").write_text("nor this")
    with workers.private_copy(str(folder), "worker-1") as copy:
        assert sorted(os.listdir(copy)) == ["best", "checkpoint"]
        with open(f"{copy}/best/model.ckpt-1.index") as file:
            assert file.read() == "two"
        workers.tf.io.gfile.rename(
            f"{copy}/best/model.ckpt-1.index", f"{copy}/mine", overwrite=True
        )
        with open(f"{copy}/new", "w") as file:
            file.write("three")
        os.replace(f"{copy}/new", f"{copy}/checkpoint")
    assert (folder / "checkpoint").read_text() == "one"
    assert (folder / "best/model.ckpt-1.index").exists()
    assert not (folder / "new").exists()
    assert not os.path.exists(copy)


def test_a_copy_of_nothing_is_empty(tmp_path):
    with workers.private_copy(str(tmp_path / "none"), "worker-1") as copy:
        assert os.listdir(copy) == []
