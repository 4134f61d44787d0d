"""One device, two devices, two workers: the same training and answers.

Dropout is 0: its random numbers are each device's own.
"""

import functools
import sys

import numpy as np
import pytest

from tests.support import fork_server, rounding
from tests.training.devices_run import CASES
from tests.training.support import configurations

pytestmark = [pytest.mark.all, pytest.mark.alone]


def results_of(goldens, out, kind, precision, cases):
    """Runs cases; the results of each process, {case: {name: array}}."""
    environments = [{}]
    if kind == "multi_worker_mirrored":
        environments = [{"TF_CONFIG": text} for text in configurations(2)]
    arguments = [goldens, out, kind, precision, *cases]
    logs = [out.with_suffix(f".{i}.log") for i in range(len(environments))]
    processes = [
        fork_server.start(
            [sys.executable, "tests/training/devices_run.py", *arguments],
            cwd=fork_server.ROOT,
            stdout=log,
            stderr=log,
            env=environment,
            devices=2 if kind == "mirrored" else 1,
        )
        for log, environment in zip(logs, environments, strict=True)
    ]
    for log, process in zip(logs, processes, strict=True):
        assert process.wait() == 0, log.read_text()[-4000:]
    return [
        {name: dict(np.load(out / str(i) / f"{name}.npz")) for name in cases}
        for i in range(len(environments))
    ]


# To add one number to all scores of a softmax changes nothing, so their
# gradients are 0 except for rounding, which Adam divides by its own size.
SHIFTS = ("self/key/bias", "weights/cls/squad/output_bias")


def compare(found, want):
    assert found.keys() == want.keys()
    for name, value in want.items():
        if value.dtype.kind in "UiOb":
            np.testing.assert_array_equal(found[name], value, err_msg=name)
            continue
        # Losses and weights differ by the order of sums alone.
        bound = rounding.EQUAL
        if name.startswith("predict/"):
            bound = rounding.TRAINED_OUTPUTS
        if name.endswith(SHIFTS):
            bound = 1e-3
        if name == "gradient_norm":
            bound = rounding.TRAINED_NORM * value.max()
        np.testing.assert_allclose(
            found[name], value, atol=bound, rtol=0, err_msg=name
        )


@pytest.fixture(scope="module")
def on_one_device(goldens, tmp_path_factory):
    """Results, made once for each precision and set of cases."""

    @functools.cache
    def run(precision, cases):
        out = tmp_path_factory.mktemp("one")
        (results,) = results_of(goldens, out, "one_device", precision, cases)
        return results

    return run


QUICK = ("pretraining", "classification", "squad")
SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("precision", "cases"),
    [
        ("float32", QUICK),
        pytest.param("float32", ("accumulation", "tagging"), marks=SLOW),
        pytest.param("bfloat16", tuple(CASES), marks=SLOW),
    ],
)
@pytest.mark.parametrize(
    # strategy_test has two quick devices in one process.
    "kind",
    [pytest.param("mirrored", marks=SLOW), "multi_worker_mirrored"],
)
def test_two_give_what_one_gives(
    goldens, tmp_path, on_one_device, kind, precision, cases
):
    wanted = on_one_device(precision, cases)
    found = results_of(goldens, tmp_path / kind, kind, precision, cases)
    for results in found:  # of each worker
        for name, want in wanted.items():
            assert len(want["loss"]) == 20
            # Clipping takes part: the norm is above 1.
            assert want["gradient_norm"].max() > 1
            if precision == "float32":
                compare(results[name], want)
            else:
                # Both round the examples' scores alike. A gradient is rounded
                # for the batch, or for each device's part of it, and so is its
                # share in the fall of the loss.
                losses = want["loss"]
                fall = rounding.root_mean_square(losses[0] - losses)
                rounding.assert_near(
                    results[name]["loss"], losses, precision, 2, fall
                )
