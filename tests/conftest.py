"""Options of the test run, and the folders the tests read.

Several test processes may share the files (`-n`, of pytest-xdist). A file is a
unit: its module fixtures are made once. Files marked `alone`, which start
several processes of their own or measure memory, are one unit together, so that
two of them never run at the same time.
"""

import functools
import gc
import os
import pathlib
import signal

import hypothesis
import pytest
from xdist.scheduler import LoadScopeScheduling

# Nothing here loads TensorFlow: not every test needs it.
from tests.support import fork_server

TESTS = pathlib.Path(__file__).resolve().parent


class Units(LoadScopeScheduling):
    """Gives each process whole units of tests."""

    # The groups of --dist=loadgroup have no effect with pytest 9.2, which does
    # not read the names that pytest-xdist 3.8 writes.
    def _split_scope(self, nodeid):
        path = nodeid.partition("::")[0]
        return "alone" if is_alone(TESTS.parent / path) else path


@functools.cache
def is_alone(path):
    """Whether a file has the marker; who schedules does not import it."""
    return "pytest.mark.alone" in path.read_text("utf-8")


if "PYTEST_XDIST_WORKER" in os.environ:
    # The processes share the cores. Programs that tests start inherit this.
    os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")

# A process in the background ignores ^C, and so does each that it starts, also
# one that a test interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)


LEFT_OUT = pytest.StashKey[dict]()  # marker -> number of tests


def pytest_addoption(parser):
    parser.addoption(
        "--all",
        action="store_true",
        help="also run what few changes break (make test-all)",
    )
    parser.addoption(
        "--slow",
        action="store_true",
        help="run every test: real data and many minutes, too (make test-slow)",
    )
    parser.addoption(
        "--real_data",
        metavar="DIR",
        help="folder of public data (novels/, vocab/, ...) for slow tests",
    )
    parser.addoption(
        "--gpu", action="store_true", help="let the tests use NVIDIA GPUs"
    )


def markers_left_out(config):
    """Of the markers `all` and `slow`, those whose tests do not run."""
    if config.getoption("--slow"):
        return ()
    return ("slow",) if config.getoption("--all") else ("all", "slow")


def pytest_configure(config):
    # To trace a graph makes so many objects that collections took 7 % of a run.
    gc.set_threshold(20_000)
    if not config.getoption("--gpu"):
        # Nothing has looked for devices yet. Programs that tests start, and
        # those of the fork server, inherit this.
        os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    examples = 50 if "all" in markers_left_out(config) else 300
    hypothesis.settings.register_profile(
        "ours", max_examples=examples, deadline=None
    )
    hypothesis.settings.load_profile("ours")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    return Units(config, log)


def pytest_collection_modifyitems(config, items):
    # The longest units first, so that no process waits for them at the end:
    # those that are alone, then from training/ back to data/.
    items.sort(key=lambda item: str(item.path), reverse=True)
    items.sort(key=lambda item: not is_alone(item.path))
    left_out = {marker: [] for marker in markers_left_out(config)}
    kept = []
    for item in items:
        # A slow test in a file of `all` is slow.
        needed = [name for name in left_out if item.get_closest_marker(name)]
        (left_out[needed[-1]] if needed else kept).append(item)
    config.stash[LEFT_OUT] = {name: len(x) for name, x in left_out.items()}
    config.hook.pytest_deselected(items=sum(left_out.values(), []))
    items[:] = kept


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


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    # A process of several tells this one, which collects nothing itself.
    told = getattr(node, "workeroutput", {}).get("left_out")
    if told is not None:
        node.config.stash[LEFT_OUT] = told


REMEDIES = {
    "all": "--all or `make test-all`",
    "slow": "--slow or `make test-slow REAL_DATA=DIR`",
}


def pytest_terminal_summary(terminalreporter, config):
    for marker, count in config.stash.get(LEFT_OUT, {}).items():
        if count:
            terminalreporter.write_line(
                f"{count} tests were left out; run them with {REMEDIES[marker]}"
            )


def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):
        told = session.config.stash.get(LEFT_OUT, {})
        session.config.workeroutput["left_out"] = told
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


def _shared(name):
    @pytest.fixture(scope="session", name=name)
    def folder(goldens, tmp_path_factory):
        from tests.support import finished_runs

        make = getattr(finished_runs, name)
        return finished_runs.shared(tmp_path_factory, make, goldens)

    return folder


# Folders that tests read, or copy and change.
finished_classifier = _shared("finished_classifier")
answered_questions = _shared("answered_questions")
finished_pretraining = _shared("finished_pretraining")


@pytest.fixture
def options(goldens, tmp_path):
    """Two steps of training on the golden records, to be changed."""
    from tests.support import pretraining_support

    return pretraining_support.make_options(goldens, tmp_path / "out")


@pytest.fixture
def logged(caplog):
    """`caplog`, with what is only information."""
    caplog.set_level("INFO", logger="absl")
    return caplog
