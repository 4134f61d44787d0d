"""When SIGTERM is heeded, and when it has to wait."""

import os
import signal

import numpy as np
import pytest
import tensorflow as tf

from training import inference
from training.devices import preemption


@pytest.fixture(autouse=True)
def installed():
    """SIGTERM as in a program; pytest's own afterwards."""
    before = signal.getsignal(signal.SIGTERM)
    preemption.install()
    yield
    signal.signal(signal.SIGTERM, before)


def preempt():
    os.kill(os.getpid(), signal.SIGTERM)


def test_elsewhere_it_ends_the_program_at_once():
    assert not preemption.requested()
    with pytest.raises(SystemExit) as caught:
        preempt()
    assert caught.value.code == 75
    # Nothing that handles errors takes it for one.
    assert not isinstance(caught.value, Exception)


def test_a_deferred_block_is_finished_first():
    done = []
    with pytest.raises(preemption.Preempted), preemption.deferred():
        preempt()
        preempt()
        preemption.check()
        done.append(preemption.requested())
    assert done == [True]


def test_an_error_in_a_deferred_block_is_what_is_told():
    with pytest.raises(OSError, match="disk full"), preemption.deferred():
        preempt()
        raise OSError("disk full")


def test_a_heeded_block_inside_it_is_broken():
    done = []
    with pytest.raises(preemption.Preempted), preemption.deferred():
        try:
            with preemption.heeded():
                preempt()
                done.append("heeded")
        except preemption.Preempted:
            preemption.check()
            done.append("saved")
    assert done == ["saved"]


@pytest.mark.parametrize("block", [preemption.heeded, preemption.deferred])
def test_a_block_does_not_begin_when_it_has_come_before(block):
    done = []
    with pytest.raises(preemption.Preempted), preemption.deferred():
        preempt()
        with pytest.raises(preemption.Preempted), preemption.heeded():
            done.append("begun")
    with pytest.raises(preemption.Preempted), block():
        done.append("begun")
    assert not done


def test_it_does_not_break_into_tensorflow():
    traced = []

    @tf.function
    def traced_by_tensorflow():
        preempt()
        traced.append(preemption.requested())
        return tf.constant(1)

    traced_by_tensorflow()
    assert traced == [True]
    with pytest.raises(preemption.Preempted):
        preemption.check()
    # As one worker asks between two batches.
    with pytest.raises(preemption.Preempted):
        inference.check_preempted(tf.distribute.get_strategy())


def test_a_forked_process_just_ends():
    child = os.fork()
    if not child:
        try:
            preempt()
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGTERM
    assert not preemption.requested()


def test_without_a_handler_nothing_changes():
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with preemption.deferred(), preemption.heeded():
        preemption.check()
    assert not preemption.requested()


def test_at_the_end_of_a_program_it_has_no_effect():
    preemption.ignore()
    preempt()
    assert not preemption.requested()


def test_several_workers_break_off_at_the_same_batch(monkeypatch):
    rows = []

    def all_workers(_, row):
        rows.append(row)
        # The other one hears SIGTERM before the third batch.
        return np.array([row, [len(rows) == 3]])

    monkeypatch.setattr(inference.devices, "num_workers", lambda _: 2)
    monkeypatch.setattr(inference.devices, "all_workers", all_workers)
    with pytest.raises(preemption.Preempted):
        for _ in range(100):
            inference.check_preempted(tf.distribute.get_strategy())
    assert rows == [[False]] * 3
