"""What is refused, warned of and logged of GPUs; their details are made up."""

import logging
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from modeling import BertConfig
from tests import rounding
from training.config.options import DeviceOptions, TrainOptions
from training.devices import gpus, strategy
from training.loop import optimizers
from training.loop.steps import with_fusion

A100 = gpus.Gpu("NVIDIA A100", (8, 0))
V100 = gpus.Gpu("Tesla V100", (7, 0))
B200 = gpus.Gpu("NVIDIA B200", (10, 0))
RTX = gpus.Gpu("NVIDIA GeForce RTX 5090", (12, 0))
UNKNOWN = gpus.Gpu("GPU", None)
CONFIG = BertConfig(
    vocab_size=9,
    hidden_size=256,
    num_hidden_layers=4,
    num_attention_heads=4,
    intermediate_size=1024,
)


@pytest.fixture(autouse=True)
def no_strategy_yet():
    strategy.create_strategy.cache_clear()
    yield
    strategy.create_strategy.cache_clear()


def make_seen(monkeypatch, *found):
    """TensorFlow sees these GPUs."""
    names = [f"/GPU:{i}" for i in range(len(found))]
    details = {
        name: {"device_name": gpu.name}
        | ({"compute_capability": gpu.capability} if gpu.capability else {})
        for name, gpu in zip(names, found, strict=True)
    }
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: names)
    monkeypatch.setattr(
        tf.config.experimental, "get_device_details", details.get
    )


def decided(**options):
    options = {"num_train_steps": 1000, "train_batch_size": 32} | options
    return with_fusion(
        TrainOptions(output_dir="out", **options), CONFIG, seq_length=128
    )


def test_names_and_capabilities_are_those_of_tensorflow(monkeypatch):
    make_seen(monkeypatch, A100, UNKNOWN)
    assert gpus.seen() == (A100, UNKNOWN)


def test_a_gpu_that_tensorflow_does_not_see_stops_the_run(tmp_path):
    (tmp_path / "nvidia0").touch()
    pattern = f"{tmp_path}/nvidia[0-9]*"
    with pytest.raises(ValueError) as error:
        gpus.check_seen((), {}, pattern)
    assert str(error.value) == (
        f"this machine has an NVIDIA GPU ({tmp_path}/nvidia0), but TensorFlow "
        f"{tf.__version__} does not see it. Install its CUDA libraries, `pip "
        "install -r requirements-gpu.txt`, and a driver for CUDA 12.5 or "
        "later; `--verbosity=1` shows what TensorFlow lacks. Or set "
        "CUDA_VISIBLE_DEVICES=-1 to compute on the CPU."
    )
    assert pathlib.Path("requirements-gpu.txt").exists()
    with pytest.raises(ValueError, match="does not see it"):
        gpus.check_seen((), {"CUDA_VISIBLE_DEVICES": "0"}, pattern)
    gpus.check_seen([A100], {}, pattern)


@pytest.mark.parametrize("hidden", ["", "-1", " -1 ", "NoDevFiles"])
def test_a_run_goes_on_if_the_gpu_is_hidden_on_purpose(tmp_path, hidden):
    (tmp_path / "nvidia0").touch()
    gpus.check_seen(
        (), {"CUDA_VISIBLE_DEVICES": hidden}, f"{tmp_path}/nvidia[0-9]*"
    )


def test_no_gpu_is_no_error(tmp_path, monkeypatch):
    (tmp_path / "nvidiactl").touch()
    pattern = f"{tmp_path}/nvidia[0-9]*"
    gpus.check_seen((), {}, pattern)
    # A scheduler forbids the device to a job that did not ask for it.
    (tmp_path / "nvidia0").touch()

    def forbidden(path, flags):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(gpus.os, "open", forbidden)
    gpus.check_seen((), {}, pattern)


def test_every_run_looks_for_a_gpu_that_is_not_seen(monkeypatch):
    def refuse(found, environment):
        assert found == ()
        assert environment["CUDA_VISIBLE_DEVICES"] == "-1"
        raise ValueError("not seen")

    make_seen(monkeypatch)
    monkeypatch.setattr(gpus, "check_seen", refuse)
    with pytest.raises(ValueError, match="not seen"):
        strategy.create_strategy(DeviceOptions())


@pytest.mark.parametrize("gpu", [B200, RTX])
def test_compiling_for_a_gpu_that_xla_does_not_know_is_refused(
    monkeypatch, gpu
):
    make_seen(monkeypatch, A100, gpu)
    major, minor = gpu.capability
    with pytest.raises(ValueError) as error:
        decided(xla=True, fuse=True)
    assert str(error.value) == (
        f"--xla and --fuse would compile for {gpu.name} of compute capability "
        f"{major}.{minor}, which XLA in TensorFlow {tf.__version__} cannot: it "
        "knows those below 10.0. Give --xla=false --fuse=false."
    )
    with pytest.raises(ValueError, match="--fuse would .* Give --fuse=false"):
        decided(fuse=True)
    with pytest.raises(ValueError, match="--xla would .* Give --xla=false"):
        decided(xla=True)


@pytest.mark.parametrize(
    ("found", "compiles"),
    [
        ((), True),
        ((V100,), True),
        ((A100, UNKNOWN), True),
        ((RTX,), False),
        ((A100, B200), False),
    ],
)
def test_nothing_is_compiled_for_a_gpu_that_xla_does_not_know(
    monkeypatch, found, compiles
):
    make_seen(monkeypatch, *found)
    assert decided().fuse is compiles
    assert decided(num_train_minutes=1.0).fuse is compiles
    assert decided(fuse=False).fuse is False

    @tf.function
    def update():
        optimizer.apply(
            [tf.ones([2])], tf.constant(1.0), tf.constant(1, tf.int64)
        )

    weight = tf.Variable([1.0, 2.0])
    optimizer = optimizers.AdamWeightDecay({"a/kernel": weight})
    assert optimizer.takes_slices == compiles
    graph = update.get_concrete_function().graph.as_graph_def()
    compiled = [
        f for f in graph.library.function if f.attr["_XlaMustCompile"].b
    ]
    assert bool(compiled) == compiles
    update()
    # By hand: the norm of sqrt(2) is clipped to 1, and 0.01 of the weight
    # decays.
    gradient = 0.5**0.5
    moved = 0.1 * gradient / (0.001**0.5 * gradient + 1e-6)
    want = np.array([1.0, 2.0]) * (1 - 0.01) - moved
    np.testing.assert_allclose(weight, want, rtol=rounding.ONE_SUM)


def log_of(monkeypatch, caplog, *found, **options):
    make_seen(monkeypatch, *found)
    caplog.clear()
    with caplog.at_level(logging.INFO, logger="absl"):
        strategy.create_strategy(DeviceOptions(**options))
    return caplog.text


def test_the_log_says_what_a_gpu_computes_with(monkeypatch, caplog):
    text = log_of(monkeypatch, caplog, A100)
    assert "Computing on 1 GPU device(s)" in text
    assert "a GPU of compute capability 8.0" in text
    assert "Products of float32 are computed in TF32" in text
    assert "Nothing is compiled" not in text
    strategy.create_strategy.cache_clear()
    assert "TF32" not in log_of(monkeypatch, caplog, V100)
    strategy.create_strategy.cache_clear()
    assert "Nothing is compiled" in log_of(monkeypatch, caplog, RTX)
    strategy.create_strategy.cache_clear()
    assert "TF32" not in log_of(monkeypatch, caplog)
    strategy.create_strategy.cache_clear()
    text = log_of(monkeypatch, caplog, V100, precision="bfloat16")
    assert "bfloat16 is slower than float32 here" in text


def test_tf32_can_be_refused(monkeypatch, caplog):
    switch = tf.config.experimental
    try:
        assert switch.tensor_float_32_execution_enabled()
        text = log_of(monkeypatch, caplog, A100, allow_tf32=False)
        assert not switch.tensor_float_32_execution_enabled()
        assert "TF32" not in text
    finally:
        switch.enable_tensor_float_32_execution(True)


@pytest.mark.parametrize("asked", [False, True])
def test_op_determinism_is_on_if_asked_for(monkeypatch, asked):
    calls = []
    monkeypatch.setattr(
        tf.config.experimental,
        "enable_op_determinism",
        lambda: calls.append(True),
    )
    strategy.create_strategy(DeviceOptions(deterministic=asked))
    assert calls == [True] * asked
