"""What is refused, warned of and logged of GPUs."""

import dataclasses
import logging
import subprocess
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

from tests.support import rounding
from tests.support.small_model import SMALL
from tests.training.loop.updates import apply
from training.config.run_options import DeviceOptions, TrainOptions
from training.devices import gpus, strategy
from training.loop import optimizers, steps
from training.loop.steps import with_fusion

A100 = gpus.Gpu("NVIDIA A100", (8, 0))
V100 = gpus.Gpu("Tesla V100", (7, 0))
H200 = gpus.Gpu("NVIDIA H200", (9, 0))
B200 = gpus.Gpu("NVIDIA B200", (10, 0))
RTX = gpus.Gpu("NVIDIA GeForce RTX 5090", (12, 0))
UNKNOWN = gpus.Gpu("GPU", None)
CONFIG = dataclasses.replace(SMALL, num_hidden_layers=4, hidden_size=256)


pytestmark = pytest.mark.usefixtures("no_strategy_yet")


def decided(**options):
    options = {"num_train_steps": 1000, "train_batch_size": 32} | options
    return with_fusion(
        TrainOptions(output_dir="out", **options), CONFIG, seq_length=128
    )


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A machine with a GPU, whose libraries can all be loaded."""
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidia0").touch()
    monkeypatch.setattr(gpus.ctypes, "CDLL", lambda name: None)
    return tmp_path


@pytest.mark.parametrize(
    ("missing", "reason"),
    [
        (["libcusolver.so.11"], "libcusolver.so.11 cannot be .*-gpu.txt"),
        (["libcuda.so.1", "libcudnn.so.9"], "so.1, libcudnn.so.9 .* 555"),
        ([], "all of CUDA's libraries are loaded.*driver 555.*`nvidia-smi`"),
    ],
)
def test_a_gpu_that_tensorflow_does_not_see_stops_the_run(
    monkeypatch, root, missing, reason
):
    def load(name):
        if name in missing:
            raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(gpus.ctypes, "CDLL", load)
    with pytest.raises(ValueError, match=reason) as error:
        gpus.check_seen((), {}, root)
    assert f"NVIDIA GPU ({root}/dev/nvidia0)" in str(error.value)
    assert "CUDA_VISIBLE_DEVICES=-1" in str(error.value)
    with pytest.raises(ValueError, match="does not see it"):
        gpus.check_seen((), {"CUDA_VISIBLE_DEVICES": "0"}, root)
    gpus.check_seen([A100], {}, root)


@pytest.mark.parametrize("is_nvidia", [True, False])
def test_a_gpu_of_windows_is_looked_for_if_it_is_of_nvidia(root, is_nvidia):
    (root / "dev/nvidia0").rename(root / "dev/dxg")
    gpus.check_seen((), {}, root)
    if is_nvidia:
        driver = root / gpus._WINDOWS_DRIVER
        driver.parent.mkdir(parents=True)
        driver.touch()
        with pytest.raises(ValueError, match="dev/dxg"):
            gpus.check_seen((), {}, root)


@pytest.mark.parametrize("hidden", ["", "-1", " -1 ", "NoDevFiles"])
def test_a_run_goes_on_if_the_gpu_is_hidden_on_purpose(root, hidden):
    gpus.check_seen((), {"CUDA_VISIBLE_DEVICES": hidden}, root)


def test_no_gpu_is_no_error(root, monkeypatch):
    # A scheduler forbids the device to a job that did not ask for it.
    forbidden = PermissionError(1, "Operation not permitted")
    with monkeypatch.context() as patch:
        patch.setattr(gpus.os, "open", mock.Mock(side_effect=forbidden))
        gpus.check_seen((), {}, root)
    (root / "dev/nvidia0").rename(root / "dev/nvidiactl")
    gpus.check_seen((), {}, root)


def test_every_run_looks_for_a_gpu_that_is_not_seen(monkeypatch, make_seen):
    def refuse(found, environment):
        assert found == ()
        assert environment["CUDA_VISIBLE_DEVICES"] == "-1"
        raise ValueError("not seen")

    make_seen()
    monkeypatch.setattr(gpus, "check_seen", refuse)
    with pytest.raises(ValueError, match="not seen"):
        strategy.create_strategy(DeviceOptions())


FATAL = "F0000 x.cc:1] PTX version 8.5 does not support target 'sm_120'"


@pytest.fixture
def trials(monkeypatch):
    """What the trials end with, and the GPUs that were tried."""
    ends, tried = {}, []

    def run(command, **options):
        assert command[1:3] == ["-m", "training.devices.gpus"]
        tried.append(int(command[3]))
        code, text = ends.get(tried[-1], (0, ""))
        return subprocess.CompletedProcess(command, code, "", text)

    monkeypatch.setattr(gpus.subprocess, "run", run)
    gpus._trial.cache_clear()
    yield ends, tried
    gpus._trial.cache_clear()


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        ((-6, f"I0000 x\n{FATAL}\n @ 0x7f"), "support target 'sm_120'"),
        ((1, "Traceback\nInternalError: ptxas"), "InternalError: ptxas"),
        ((-11, ""), "exit code -11"),
    ],
)
def test_compiling_for_a_gpu_for_which_it_fails_is_refused(
    make_seen, trials, end, reason
):
    make_seen(A100, RTX)
    trials[0][1] = end
    with pytest.raises(ValueError) as error:
        decided(xla=True, fuse=True)
    text = str(error.value)
    assert text.startswith("--xla and --fuse cannot be used: XLA of TensorFlow")
    assert f"{RTX.name} of compute capability 12.0" in text
    assert reason in text
    assert text.endswith(". Give --xla=false --fuse=false.")
    with pytest.raises(ValueError, match="Give --fuse=false"):
        decided(fuse=True)
    assert not decided().fuse
    assert trials[1] == [1]  # the newer one, once


def test_a_gpu_that_tensorflow_was_built_for_is_not_tried(make_seen, trials):
    make_seen(V100, A100, H200, UNKNOWN)
    assert decided(fuse=True).fuse
    assert not trials[1]
    make_seen(H200, B200)
    assert decided().fuse
    assert decided(num_train_minutes=1.0).fuse
    assert not decided(fuse=False).fuse
    assert trials[1] == [1]


def test_a_trial_compiles_and_runs():
    gpus._compile(0, "CPU")


@pytest.mark.parametrize(
    ("has_gpu", "options", "compiles"),
    [
        (False, {"fuse": False}, True),
        (True, {"fuse": False}, False),
        (True, {}, False),
        (True, {"fuse": True}, True),
        (True, {"xla": True, "fuse": False}, True),
    ],
)
def test_an_update_is_compiled_on_a_gpu_if_anything_is(
    monkeypatch, has_gpu, options, compiles
):
    monkeypatch.setattr(strategy, "has_gpu", lambda: has_gpu)
    options = TrainOptions(output_dir="out", num_train_steps=1, **options)
    one = tf.distribute.get_strategy()
    assert steps._compiles_update(options, one) is compiles
    multiple = steps.trimming(options)["multiple"]
    assert multiple == ((64 if options.xla else 8) if has_gpu else 1)


@pytest.mark.parametrize("compiles", [True, False])
def test_an_update_is_the_same_compiled_or_not(compiles):
    weight = tf.Variable([1.0, 2.0])
    optimizer = optimizers.AdamWeightDecay(
        {"a/kernel": weight}, compiles=compiles
    )
    assert optimizer.takes_slices == compiles
    update = tf.function(lambda: apply(optimizer, [[1.0, 1.0]], 1.0))
    graph = update.get_concrete_function().graph.as_graph_def()
    functions = graph.library.function
    assert any(f.attr["_XlaMustCompile"].b for f in functions) == compiles
    update()
    # By hand: the norm of sqrt(2) is clipped to 1, and 0.01 of the weight
    # decays.
    gradient = 0.5**0.5
    moved = 0.1 * gradient / (0.001**0.5 * gradient + 1e-6)
    want = np.array([1.0, 2.0]) * (1 - 0.01) - moved
    np.testing.assert_allclose(weight, want, rtol=rounding.ONE_SUM)


@pytest.fixture
def log_of(make_seen, caplog):
    """What a run says that begins on some GPUs."""

    def log(*found, **options):
        make_seen(*found)
        strategy.create_strategy.cache_clear()
        caplog.clear()
        with caplog.at_level(logging.INFO, logger="absl"):
            strategy.create_strategy(DeviceOptions(**options))
        return caplog.text

    return log


def test_the_log_says_what_a_gpu_computes_with(log_of, trials):
    text = log_of(A100)
    assert "Computing on 1 GPU device(s)" in text
    assert "a GPU of compute capability 8.0" in text
    assert "Products of float32 are computed in TF32" in text
    assert "Nothing is compiled" not in text
    assert "TF32" not in log_of(V100)
    assert "TF32" not in log_of()
    text = log_of(V100, precision="bfloat16")
    assert "bfloat16 is slower than float32 here" in text
    trials[0][0] = (-6, FATAL)
    text = log_of(RTX)
    assert "Nothing is compiled: " in text
    assert "does not support target 'sm_120'" in text


def test_tf32_can_be_refused(log_of):
    switch = tf.config.experimental
    try:
        assert switch.tensor_float_32_execution_enabled()
        assert "TF32" not in log_of(A100, allow_tf32=False)
        assert not switch.tensor_float_32_execution_enabled()
    finally:
        switch.enable_tensor_float_32_execution(True)


@pytest.mark.parametrize("asked", [False, True])
def test_op_determinism_is_on_if_asked_for(monkeypatch, asked):
    enable = mock.Mock()
    monkeypatch.setattr(tf.config.experimental, "enable_op_determinism", enable)
    strategy.create_strategy(DeviceOptions(deterministic=asked))
    assert enable.call_count == asked
