"""Which arithmetic `--precision=auto` takes, and which one is warned of."""

import numpy as np
import pytest
import tensorflow as tf

from training.config.run_options import DeviceOptions
from training.devices import precision, session, strategy

NONE = "flags\t\t: fpu sse2 avx2 fma\n"
SKYLAKE = "flags\t\t: fpu avx2 avx512f avx512bw avx512_vnni\n"
ZEN = "flags\t\t: fpu avx2 avx512f avx512bw avx512_bf16\n"
SAPPHIRE = "flags\t\t: avx2 avx512bw avx512_bf16 amx_bf16 avx512_fp16\n"
ARM = "Features\t: fp asimd bf16\n"
SWITCH = "TF_ENABLE_ONEDNN_OPTS"


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
        (ZEN, {SWITCH: "0"}, False, f"avx512_bf16, not used: {SWITCH}=0"),
        (ZEN, {SWITCH: "1"}, True, "avx512_bf16"),
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
    assert precision.choose(asked, precision.Bfloat16(is_faster, "x")) == chosen


def test_slow_bfloat16_is_warned_of():
    slow = precision.of_cpu(NONE, {})
    text = precision.warning("bfloat16", slow)
    assert "--precision=bfloat16 is slower than float32" in text
    assert slow.found in text
    assert "give --precision=float32, or --precision=auto" in text
    old = precision.of_gpus([(7, 5)])
    assert "--precision=float16" in precision.warning("bfloat16", old)
    for name in ("auto", "float32", "float16"):
        assert not precision.warning(name, slow)
    for support in (precision.TPU, precision.of_cpu("", {})):
        assert not precision.warning("bfloat16", support)


@pytest.mark.parametrize(
    ("asked", "cpuinfo", "chosen", "policy", "is_slow"),
    [
        ("auto", NONE, "float32", "float32", False),
        ("auto", ZEN, "bfloat16", "mixed_bfloat16", False),
        ("bfloat16", NONE, "bfloat16", "mixed_bfloat16", True),
    ],
)
@pytest.mark.usefixtures("no_strategy_yet")
def test_the_choice_is_logged(
    monkeypatch, logged, asked, cpuinfo, chosen, policy, is_slow
):
    support = precision.of_cpu(cpuinfo, {})
    monkeypatch.setattr(strategy, "_bfloat16", lambda devices: support)
    options = DeviceOptions(precision=asked)
    strategy.create_strategy(options)
    assert f" in {chosen} ({support.found})." in logged.text
    assert ("slower than float32 here" in logged.text) == is_slow
    assert strategy.precision_of(options) == chosen
    # Weights stay float32.
    assert strategy.policy_of(options) == policy


def test_workers_that_choose_differently_are_refused(monkeypatch):
    monkeypatch.setattr(session.strategy, "precision_of", lambda _: "float32")

    def all_workers(devices, values):
        chief = [1.0] if len(values) == 1 else values
        return np.array([chief, values])

    monkeypatch.setattr(session.strategy, "all_workers", all_workers)
    cluster = session.workers.Cluster(
        ("worker 0 (a:1)", "worker 1 (b:1)"), ("a:1", "b:1"), 1
    )
    devices = tf.distribute.get_strategy()
    options = DeviceOptions(precision="auto")
    message = r"worker 1 \(b:1\) .* --precision=auto .*=float32 to all"
    with pytest.raises(ValueError, match=message):
        session._check_flags(cluster, devices, options, {})
