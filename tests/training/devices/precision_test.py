"""Which arithmetic `--precision=auto` takes, and which one is warned of."""

import numpy as np
import pytest
import tensorflow as tf

from training.config.run_options import (
    DeviceOptions,
    TrainOptions,
    dtype_policy,
)
from training.devices import precision, session, strategy

NONE = "flags\t\t: fpu sse2 avx2 fma\n"
SKYLAKE = "flags\t\t: fpu avx2 avx512f avx512bw avx512_vnni\n"
ZEN = "flags\t\t: fpu avx2 avx512f avx512bw avx512_bf16\n"
SAPPHIRE = "flags\t\t: avx2 avx512bw avx512_bf16 amx_bf16 avx512_fp16\n"
ARM = "Features\t: fp asimd bf16\n"


@pytest.mark.parametrize(
    ("cpuinfo", "environment", "is_faster", "found"),
    [
        (NONE, {}, False, "no bfloat16 instructions"),
        (SKYLAKE, {}, False, "no bfloat16 instructions"),
        (ZEN, {}, True, "avx512_bf16"),
        (SAPPHIRE, {}, True, "avx512_bf16, amx_bf16"),
        ("processor : 0\n" + ZEN + NONE, {}, True, "avx512_bf16"),
        # Not measured.
        (ARM, {}, None, "not known whether the CPU has bfloat16"),
        ("", {}, None, "not known whether the CPU has bfloat16"),
        # oneDNN, which has the kernels, is switched off.
        (
            ZEN,
            {"TF_ENABLE_ONEDNN_OPTS": "0"},
            False,
            "avx512_bf16, not used: TF_ENABLE_ONEDNN_OPTS=0",
        ),
        (ZEN, {"TF_ENABLE_ONEDNN_OPTS": "1"}, True, "avx512_bf16"),
    ],
)
def test_a_cpu_has_its_instructions(cpuinfo, environment, is_faster, found):
    support = precision.of_cpu(cpuinfo, environment)
    assert support.is_faster is is_faster
    assert found in support.found


@pytest.mark.parametrize(
    ("capabilities", "is_faster", "found"),
    [
        ([(9, 0)], True, "compute capability 9.0"),
        ([(8, 0), (8, 6)], True, "compute capability 8.0"),
        ([(8, 0), (7, 5)], False, "compute capability 7.5"),
        ([None], None, "compute capability is not known"),
        ([(8, 0), None], None, "compute capability is not known"),
    ],
)
def test_the_weakest_gpu_counts(capabilities, is_faster, found):
    support = precision.of_gpus(capabilities)
    assert support.is_faster is is_faster
    assert found in support.found


@pytest.mark.parametrize(
    ("asked", "is_faster", "chosen"),
    [
        ("auto", True, "bfloat16"),
        ("auto", False, "float32"),
        ("auto", None, "float32"),
        ("float32", True, "float32"),
        ("bfloat16", False, "bfloat16"),
        ("float16", True, "float16"),
    ],
)
def test_auto_takes_bfloat16_where_it_pays(asked, is_faster, chosen):
    support = precision.Bfloat16(is_faster, "x")
    assert precision.choose(asked, support) == chosen


def test_slow_bfloat16_is_warned_of():
    slow = precision.of_cpu(NONE, {})
    assert precision.warning("bfloat16", slow) == (
        "--precision=bfloat16 is slower than float32 here (no bfloat16 "
        "instructions: neither avx512_bf16 nor amx_bf16); give "
        "--precision=float32, or --precision=auto, which takes bfloat16 only "
        "where it is faster."
    )
    assert "float16" in precision.warning(
        "bfloat16", precision.of_gpus([(7, 5)])
    )
    for name in ("auto", "float32", "float16"):
        assert not precision.warning(name, slow)
    for support in (precision.TPU, precision.of_cpu("", {})):
        assert not precision.warning("bfloat16", support)


def test_the_policy_of_16_bits_keeps_weights_of_32():
    assert dtype_policy("float32") == "float32"
    assert dtype_policy("bfloat16") == "mixed_bfloat16"


@pytest.mark.parametrize(
    ("cpuinfo", "chosen"), [(NONE, "float32"), (ZEN, "bfloat16")]
)
def test_the_choice_is_logged(
    monkeypatch, caplog, no_strategy_yet, cpuinfo, chosen
):
    support = precision.of_cpu(cpuinfo, {})
    monkeypatch.setattr(strategy, "_bfloat16", lambda devices: support)
    options = DeviceOptions(precision="auto")
    caplog.set_level("INFO", logger="absl")
    strategy.create_strategy(options)
    assert f" in {chosen} ({support.found})." in caplog.text
    assert strategy.precision_of(options) == chosen
    assert strategy.policy_of(options) == dtype_policy(chosen)


def test_a_gpu_s_capability_is_read(monkeypatch):
    monkeypatch.setattr(
        tf.config, "get_visible_devices", lambda kind: ["/GPU:0", "/GPU:1"]
    )
    details = {
        "/GPU:0": {"compute_capability": (8, 0)},
        "/GPU:1": {"device_name": "unknown"},
    }
    monkeypatch.setattr(
        tf.config.experimental, "get_device_details", details.get
    )
    devices = tf.distribute.get_strategy()
    assert strategy._bfloat16(devices) == precision.of_gpus([(8, 0), None])
    details["/GPU:1"]["compute_capability"] = (7, 0)
    assert strategy._bfloat16(devices) == precision.of_gpus([(7, 0)])


def test_slow_bfloat16_is_warned_of_at_the_start(
    monkeypatch, caplog, no_strategy_yet
):
    monkeypatch.setattr(
        strategy, "_bfloat16", lambda devices: precision.of_cpu(NONE, {})
    )
    strategy.create_strategy(DeviceOptions(precision="bfloat16"))
    assert "--precision=bfloat16 is slower than float32 here" in caplog.text


def test_workers_that_choose_differently_are_refused(monkeypatch):
    monkeypatch.setattr(
        session.strategy, "precision_of", lambda options: "float32"
    )

    def all_workers(devices, values):
        chief = [1.0] if len(values) == 1 else values
        return np.array([chief, values])

    monkeypatch.setattr(session.strategy, "all_workers", all_workers)
    cluster = session.workers.Cluster(
        ("worker 0 (a:1)", "worker 1 (b:1)"), ("a:1", "b:1"), 1
    )
    devices = tf.distribute.get_strategy()
    with pytest.raises(ValueError) as error:
        session._check_flags(
            cluster, devices, DeviceOptions(precision="auto"), {}
        )
    assert str(error.value).startswith(
        "worker 1 (b:1) differs from worker 0 (a:1) in what --precision=auto "
        "takes (give --precision=float32 to all) (here: "
    )


def test_a_run_that_goes_on_in_another_arithmetic_says_so(tmp_path, caplog):
    from training.loop import resuming
    from training.loop.checkpointing import CheckpointManager, ResumePoint

    manager = CheckpointManager(str(tmp_path))
    saved = {"weight": tf.Variable([1.0, 2.0])}

    def resume(arithmetic):
        caplog.clear()
        return resuming.resume(
            manager,
            saved,
            TrainOptions(output_dir=str(tmp_path), num_train_steps=10),
            ResumePoint(0, 0, 12345, 50, arithmetic=arithmetic),
        )

    # Written before the arithmetic was: nothing is known of it.
    manager.save(saved, ResumePoint(7, 100, 12345, 50))
    point = resume("bfloat16")
    assert "was" not in caplog.text
    assert point.arithmetic == "bfloat16"
    manager.save(saved, point)
    assert resume("float32").arithmetic == "float32"
    assert (
        "arithmetic is float32 now, but was bfloat16 before: the run resumes"
        in caplog.text
    )
