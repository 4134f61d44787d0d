"""Several devices, in a process of their own.

A process can be given logical devices only before it uses any, and after one
failed collective later strategies of the same process fail too.
"""

import platform

import numpy as np
import pytest
import tensorflow as tf

from modeling import BertConfig
from modeling.kernels import Form
from tests.support import rounding
from tests.training.finetuning_support import on_devices
from tests.training.support import assert_near_weights, golden_run
from training.config.finetuning_options import FinetuningOptions
from training.config.run_options import DeviceOptions, TrainOptions
from training.devices import kinds, strategy
from training.loop.steps import with_fusion


def eight_steps(goldens, folder, device):
    """Losses, norms and weights of a training on all devices."""
    devices = strategy.create_strategy(device)
    with devices.scope():
        metrics, weights = golden_run(goldens, folder, num_train_steps=8)
    return {
        "devices": devices.num_replicas_in_sync,
        "loss": metrics["loss"].tolist(),
        "gradient_norm": metrics["gradient_norm"].tolist(),
        "weights": {name: x.tolist() for name, x in weights.items()},
    }


def test_two_devices_give_the_same_steps(goldens, tmp_path):
    one = eight_steps(goldens, tmp_path / "one", DeviceOptions())
    # Clipping takes part: the norm is above 1 in the first steps.
    assert max(one["gradient_norm"]) > 1
    two = on_devices(2, eight_steps, goldens, tmp_path / "two")
    assert (one["devices"], two["devices"]) == (1, 2)
    rounding.assert_equal(two["loss"], one["loss"])
    np.testing.assert_allclose(
        two["gradient_norm"], one["gradient_norm"], rtol=rounding.TRAINED_NORM
    )
    assert_near_weights(two["weights"], one["weights"], rtol=0)


def test_a_batch_that_does_not_divide_names_the_nearest():
    def check(size):
        parts = {"train_batch_size": size, "gradient_accumulation_steps": 8}
        train = TrainOptions(output_dir="out", num_train_steps=1, **parts)
        options = FinetuningOptions(train=train, device=DeviceOptions())
        return strategy.check_batch_sizes(options, ["train_batch_size"])

    message = "--train_batch_size=30 .* 8 parts .*nearest sizes are 24 or 32"
    with pytest.raises(ValueError, match=message):
        check(30)
    with pytest.raises(ValueError, match="nearest sizes are 8"):
        check(3)
    assert check(32) == 1  # device


def test_workers_that_go_different_ways_are_refused(monkeypatch):
    def others(devices, values):
        return np.array([values, values, [strategy.checksum("task CoLA")]])

    devices = strategy.create_strategy(DeviceOptions())
    strategy.check_together(devices, "task MRPC")  # alone
    monkeypatch.setattr(strategy, "all_workers", others)
    strategy.check_together(devices, "task CoLA")
    message = "worker 2 and the chief are at different points: .* task MRPC"
    with pytest.raises(ValueError, match=message):
        strategy.check_together(devices, "task MRPC")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"distribution_strategy": "mirrored"}, "--use_tpu=True contradicts"),
        ({}, "no TPU answers at 'local'.*--tpu_n"),
    ],
)
def test_a_tpu_that_cannot_be_used_is_refused(flags, message):
    with pytest.raises(ValueError, match=message):
        strategy.create_strategy(DeviceOptions(use_tpu=True, **flags))


def test_each_kind_of_device_has_its_thresholds(monkeypatch):
    one = tf.distribute.get_strategy()
    assert strategy.kind_of(one) is kinds.CPU
    # A CPU's are measured: benchmarks/measurements.md.
    assert kinds.CPU == (2e8, 1, 1, 0, 2, 1.0)
    monkeypatch.setattr(strategy, "has_gpu", lambda: True)
    assert strategy.kind_of(one) is kinds.GPU
    assert kinds.GPU.multiple == 8
    assert kinds.GPU.bytes_per_pack == 64 * 2**20
    config = BertConfig.from_dict({"vocab_size": 9})  # Base
    # 2e10 / (12 * 768 * 256 * 128) = 66.2 steps of one length.
    for num_steps, is_fused in ((66, False), (67, True)):
        options = TrainOptions(
            output_dir="x", num_train_steps=num_steps, train_batch_size=256
        )
        assert with_fusion(options, config, seq_length=128).fuse is is_fused
    monkeypatch.setattr(strategy, "is_tpu", lambda strategy: True)
    assert strategy.kind_of(one) is kinds.TPU


def test_the_end_of_an_iterator_waits_for_no_tuner():
    batches = strategy.distribute(
        tf.distribute.get_strategy(), lambda shard: tf.data.Dataset.range(3)
    )
    assert not batches.options().autotune.enabled
    assert [int(batch) for batch in batches] == [0, 1, 2]


def test_batches_for_gpus_stay_on_the_host():
    # There are no such devices: nothing can be copied to them.
    devices = tf.distribute.MirroredStrategy(["GPU:0", "GPU:1"])
    (batch,) = strategy.distribute(
        devices, lambda shard: tf.data.Dataset.from_tensors(tf.range(6))
    )
    parts = devices.experimental_local_results(batch)
    assert [part.numpy().tolist() for part in parts] == [[0, 1, 2], [3, 4, 5]]
    assert all("CPU" in part.device for part in parts)


DTYPES = ("float32", "bfloat16", "float16")
ALL = "avx2 avx512bw avx512_fp16"


@pytest.mark.parametrize(
    ("machine", "switch", "flags", "dtypes"),
    [
        ("x86_64", None, "avx2", DTYPES[:1]),
        ("x86_64", None, "avx2 avx512bw", DTYPES[:2]),
        ("x86_64", None, "avx2 avx512bw avx512_bf16", DTYPES[:2]),
        ("x86_64", None, ALL, DTYPES),
        ("AMD64", "1", ALL, DTYPES),
        ("x86_64", "0", ALL, ()),
        ("x86_64", "False", ALL, ()),
        ("aarch64", None, ALL, ()),
    ],
)
def test_kernels_are_for_processors_that_have_them(
    monkeypatch, machine, switch, flags, dtypes
):
    monkeypatch.setattr(strategy, "_cpuinfo", lambda: f"flags\t: {flags}\n")
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.delenv("TF_ENABLE_ONEDNN_OPTS", raising=False)
    if switch is not None:
        monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", switch)
    devices = tf.distribute.get_strategy()
    for dtype in DTYPES:
        form = Form.KERNELS if dtype in dtypes else Form.STANDARD
        assert strategy.inference_form(devices, dtype) is form
    monkeypatch.setattr(strategy, "is_tpu", lambda strategy: True)
    assert strategy.inference_form(devices, "float32") is Form.STANDARD


@pytest.mark.parametrize("reason", ["", "XLA fails"])
def test_a_gpu_compiles_inference_that_repays_it(monkeypatch, reason):
    monkeypatch.setattr(strategy, "kind_of", lambda strategy: kinds.GPU)
    monkeypatch.setattr(strategy.gpus, "why_not_compiled", lambda gpus: reason)
    monkeypatch.setattr(strategy, "has_onednn", lambda strategy: False)
    devices, least = tf.distribute.get_strategy(), kinds.GPU.repaid
    found = [
        strategy.inference_form(devices, "float32", work)
        for work in (0.0, 0.9 * least, least)
    ]
    last = Form.STANDARD if reason else Form.COMPILED
    assert found == [Form.STANDARD, Form.STANDARD, last]
