"""Options of the test run, and the folders the tests read.

Several test processes may share the files (`-n`, of pytest-xdist). A file is a
unit: its module fixtures are made once. What starts several processes of its
own, or measures memory, is one unit together, so that two of them never run at
the same time.
"""

import gc
import os
import pathlib
import signal

import pytest
from xdist.scheduler import LoadScopeScheduling

from tests import fork_server
from tests.pretraining_support import RECORDS
from training.config.options import DeviceOptions, TrainOptions
from training.pretraining import pretrainer

TESTS = pathlib.Path(__file__).resolve().parent

# Files of one unit, by a part of their names.
ALONE = ("kill_test", "memory_test", "devices_test", "full_disk_test")


class Units(LoadScopeScheduling):
    """Gives each process whole units of tests."""

    # The groups of --dist=loadgroup have no effect with pytest 9.2, which does
    # not read the names that pytest-xdist 3.8 writes.
    def _split_scope(self, nodeid):
        path = nodeid.partition("::")[0]
        alone = pathlib.PurePath(path).stem.endswith(ALONE)
        return "alone" if alone else path


if "PYTEST_XDIST_WORKER" in os.environ:
    # The processes share the cores. Programs that tests start inherit this.
    os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")

# A process in the background ignores ^C, and so does each that it starts, also
# one that a test interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser):
    parser.addoption(
        "--slow", action="store_true", help="run tests that take minutes too"
    )
    parser.addoption(
        "--real_data",
        metavar="DIR",
        help="folder of public data (novels/, vocab/, ...) for slow tests",
    )
    parser.addoption(
        "--gpu", action="store_true", help="let the tests use NVIDIA GPUs"
    )


def pytest_configure(config):
    if not config.getoption("--gpu"):
        # Nothing has looked for devices yet. Programs that tests start, and
        # those of the fork server, inherit this.
        os.environ["CUDA_VISIBLE_DEVICES"] = "-1"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    return Units(config, log)


def pytest_collection_modifyitems(config, items):
    # The longest unit first, so that no process waits for it at the end.
    items.sort(key=lambda item: not item.path.stem.endswith(ALONE))
    if config.getoption("--slow"):
        return
    left_out = [item for item in items if item.get_closest_marker("slow")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
        config.left_out = len(left_out)


def pytest_collection_finish():
    freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item, nextitem):
    result = yield
    if nextitem is None or nextitem.path != item.path:
        freeze()
    return result


def freeze():
    """Keeps what is there, such as modules, out of later collections.

    A collection of garbage would look at all of it: a second at the end of a
    run, and fine-tunings collect.
    """
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport():
    report = yield
    # Reports go to another process as UTF-8, without halves of surrogate pairs.
    report.sections = [
        (name, text.encode("utf-8", "backslashreplace").decode())
        for name, text in report.sections
    ]
    return report


def pytest_terminal_summary(terminalreporter, config):
    if getattr(config, "left_out", 0):
        terminalreporter.write_line(
            f"{config.left_out} slow tests were left out; run them with "
            "--slow (some also need --real_data=DIR)"
        )


def pytest_sessionfinish():
    fork_server.stop()


@pytest.fixture(scope="session")
def goldens():
    """The folder of the original release's own outputs."""
    return TESTS / "goldens"


@pytest.fixture(scope="session")
def real_data(pytestconfig):
    """The folder given by --real_data; a slow test without it fails."""
    folder = pytestconfig.getoption("--real_data")
    if not folder:
        pytest.fail("this slow test needs --real_data=DIR (see CONTRIBUTING)")
    return pathlib.Path(folder)


@pytest.fixture
def options(goldens, tmp_path):
    """Two steps of training on the golden records, to be changed."""
    return pretrainer.PretrainingOptions(
        bert_config_file=str(goldens / "first_layer.json"),
        input_file=str(goldens / RECORDS),
        init_checkpoint=str(goldens / "model/init"),
        max_seq_length=64,
        max_predictions_per_seq=10,
        do_train=True,
        train=TrainOptions(
            output_dir=str(tmp_path / "out"),
            train_batch_size=16,
            num_train_steps=2,
        ),
        device=DeviceOptions(),
    )
