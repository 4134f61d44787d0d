import json
import pathlib
import subprocess
import time

import pytest
import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from benchmarks.check_gpu import machine, main, page, profile, room, speed
from benchmarks.check_gpu.results import Found, Request
from tests.support import fork_server

pytestmark = pytest.mark.all


COPY = {"direction": "D2H", "operation": "a|b", "mb": 78, "number": 1}
FIGURES = {
    "machine": {
        "gpus": [{"name": "NVIDIA X", "capability": [8, 0]}] * 2,
        "tensorflow": "2.21.0",
        "driver": ["name, driver_version", "NVIDIA X, 550.1, 80 GB"],
    },
    "goldens": {
        "float32": {"largest_difference": 1e-6},
        "tf32": {"largest_difference": 0.02},
    },
    "placement": {
        "operations": 9,
        "on_host": {"Const": 3},
        "copies": {"kernels": [], "copies": [COPY]},
    },
}


def figures_of(name):
    if not name.startswith("speed"):
        return FIGURES.get(name, {})
    form = 2 if name.endswith("XLA") else 1
    same = {"peak_gb": 7.0, "compile_s": 21.0}
    return {
        "batches": [
            {"rows": 32, "sequences_per_s": 100.0 * form} | same,
            {"rows": 128, "sequences_per_s": 150.0 * form} | same,
        ],
        "stopped": "out of memory with 312 sequences",
        "kernels": {"error": "CUPTI is missing"},
    }


def result_of(name):
    check = {"name": "it is so", "passed": True, "text": "1, at most 2"}
    own = {"checks": [check], "figures": figures_of(name)}
    return {"status": main.PASSED, "error": "", "seconds": 1.0} | own


def test_the_page_has_every_part_and_a_row_for_the_documentation():
    results = {name: result_of(name) for name in main.make_parts(small=False)}
    results["repeats"]["checks"][0]["passed"] = False
    results["scaling"] |= {"checks": [], "error": "exit code 1\nout of disk"}
    text = page.make(results)
    # The page goes beside the documentation's table.
    page_of_docs = pathlib.Path("docs/gpu.md").read_text("utf-8")
    assert page.table(page.COLUMNS, []) in page_of_docs
    assert (
        "| 2 x NVIDIA X | 2.21.0, 550.1 | 15 of 16, 1 parts not done | "
        "1e-06 / 0.02 |" + 4 * " 300.0/s (x 128, XLA) |" + "\n"
    ) in text
    assert "| repeats | it is so | **NO** | 1, at most 2 |" in text
    assert "| scaling |  | passed | exit code 1 out of disk |" in text
    assert "| large | 512 | fused | 128 | 150.0 | 7.0 | 21 |" in text
    assert "| out of memory with 312 sequences |" in text
    assert "Not known: CUPTI is missing" in text
    assert "3 of 9 operations of a step: 3 Const" in text
    assert r"| D2H | a\|b | 78.000 | 1 |" in text


def written(folder):
    return json.loads((folder / "check_gpu.json").read_text())["parts"]


@pytest.fixture
def check(monkeypatch, tmp_path):
    """Checks with made-up parts; returns those that ran, and what is written.

    `more_of` says what else their results have.
    """

    def check(more_of=lambda function, options: {}, small=True, only=()):
        ran = []

        def run_part(function, options, timeout):
            ran.append(function)
            return result_of(function) | more_of(function, options)

        monkeypatch.setattr(main, "run_part", run_part)
        main.check(tmp_path, small=small, minutes=1.0, only=only)
        return ran, written(tmp_path)

    return check


def test_a_part_that_fails_does_not_lose_the_others(check, tmp_path):
    def more_of(function, options):
        fails = function == "repeats" and options.get("deterministic")
        return {"status": main.FAILED, "error": "exit 6"} if fails else {}

    _, found = check(more_of)
    failed = [name for name, x in found.items() if x["status"] != main.PASSED]
    assert failed == ["repeats with --deterministic"]
    assert "exit 6" in (tmp_path / "check_gpu.md").read_text()


def test_what_was_found_before_an_interruption_is_written(check):
    def more_of(function, options):
        if function == "forms":
            raise KeyboardInterrupt
        return {}

    _, found = check(more_of)
    assert found["goldens"]["status"] == main.PASSED
    assert found["plain = fused = XLA"]["error"] == "interrupted with ^C"
    assert found["scaling"]["status"] == main.NOT_RUN


def test_parts_without_time_are_not_run(tmp_path):
    main.check(tmp_path, small=True, minutes=0.0)
    for result in written(tmp_path).values():
        assert result["status"] == main.NOT_RUN
        assert result["error"] == "--minutes=0 were over"


def test_a_part_that_breaks_off_shows_its_log(monkeypatch, tmp_path):
    monkeypatch.setattr(main, "ROOT", tmp_path)
    result = main.run_part("machine", {}, timeout=100)
    assert result["status"] == main.FAILED
    assert result["error"].startswith("exit code 1\n")
    assert "No module named" in result["error"]


def test_kernels_and_copies_are_summed_by_step():
    space = xplane_pb2.XSpace()
    plane = space.planes.add(name="/device:GPU:0")
    for number, name in enumerate(("gemm", "MemcpyD2H", "details", "tf_op")):
        plane.event_metadata[number].name = name
        plane.stat_metadata[number].name = name
    streams = [plane.lines.add(name=f"Stream #{i}(Compute)") for i in (1, 2)]
    scopes = plane.lines.add(name="TensorFlow Name Scope")
    plane.stat_metadata[2].name = "memcpy_details"
    for line in (*streams, scopes):
        line.events.add(metadata_id=0, duration_ps=3 * 10**9)
    copy = streams[0].events.add(metadata_id=1, duration_ps=10**9)
    copy.stats.add(metadata_id=2, str_value="kind_src:device size:4000000 a:1")
    copy.stats.add(metadata_id=3, str_value="losses/Scatter")
    space.planes.add(name="/host:CPU").lines.add(name="python")
    copied = {"direction": "D2H", "operation": "losses/Scatter", "mb": 2.0}
    assert profile.read(space.planes, 2) == {
        "kernels": [
            {"name": "gemm", "ms": 3.0, "starts": 1.0},
            {"name": "MemcpyD2H", "ms": 0.5, "starts": 0.5},
        ],
        "copies": [copied | {"number": 0.5}],
    }
    assert "error" in profile.read([], 2)


def test_a_profiler_that_fails_costs_only_the_kernels(monkeypatch):
    def fails(folder):
        raise RuntimeError("CUPTI_ERROR_INSUFFICIENT_PRIVILEGES")

    monkeypatch.setattr(tf.profiler.experimental, "Profile", fails)
    assert profile.of_steps(lambda: None, 1) == {
        "error": "RuntimeError: CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"
    }


class Step:
    """A model whose memory holds two sequences."""

    def __init__(self, request, rows):
        assert (request.model, rows) == ("tiny", 4)

    def iterator(self, rows):
        return rows

    def run(self, rows, num_steps=1):
        if rows > 2:
            raise ValueError("step 9: out of memory (OOM). Raise ...")
        time.sleep(0.01 * num_steps)


class LargeStep(Step):
    """A model with memory for all sequences."""

    def run(self, rows, num_steps=1):
        super().run(2, num_steps)


def measured(step, **options):
    """Measures a stand-in."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(speed, "_Step", step)
        patch.setattr(speed, "_LEAST_S", 0.1)
        return speed.speed(Request(model="tiny", length=16, **options))


def rows_of(found):
    return [batch["rows"] for batch in found.figures["batches"]]


def test_a_batch_that_does_not_fit_is_followed_by_a_smaller_one():
    found = measured(Step)
    (batch,) = found.figures["batches"]
    assert batch["rows"] == 2
    # A step takes a hundredth of a second or more.
    assert 0 < batch["sequences_per_s"] <= 200
    assert found.figures["stopped"] == "out of memory with 4 sequences"
    assert "kernels" in found.figures
    assert found.checks[0]["passed"]


def test_the_largest_batch_is_measured_first():
    assert rows_of(measured(LargeStep)) == [4, 2]
    # XLA would compile again for each size.
    assert rows_of(measured(LargeStep, xla=True)) == [4]
    found = measured(LargeStep, seconds=0.0)
    assert rows_of(found) == [4]
    assert found.figures["stopped"] == "no time for batches of 2"


def test_steps_are_timed_for_three_seconds_after_slow_warm_ups(monkeypatch):
    class Clock:
        """Its first four steps take 2 s each, later ones 10 ms."""

        now, num_steps = 0.0, 0

        def perf_counter(self):
            return self.now

        def iterator(self, rows):
            return rows

        def run(self, iterator, num_steps):
            for _ in range(num_steps):
                self.num_steps += 1
                self.now += 2 if self.num_steps <= 4 else 0.01

    clock = Clock()
    monkeypatch.setattr(speed, "time", clock)
    row, _ = speed._measure(clock, 8, has_gpu=False)
    assert row["sequences_per_s"] == pytest.approx(8 / 0.01)
    assert clock.now - 8 >= 3


@pytest.mark.parametrize(
    ("model", "length", "memory_gb", "largest"),
    [
        ("large", 512, 12, 2),
        ("large", 512, 80, 40),
        ("large", 128, 141, 512),
        ("base", 128, 141, 1024),
        ("large", 512, 1, 2),
    ],
)
def test_a_large_card_gets_large_batches(model, length, memory_gb, largest):
    sizes = speed.sizes_for(
        Request(model=model, length=length, memory_gb=memory_gb)
    )
    assert sizes[0] == largest
    assert list(sizes) == sorted(sizes, reverse=True)


def test_the_documentation_says_how_many_sequences_fit():
    # What TensorFlow's allocator needed: 19.1 and 62.8 GB.
    assert room.sequences("Base", 512, 19.1 / room._USED) == 32
    assert room.sequences("Large", 512, 62.8 / room._USED) in (39, 40)
    assert room.sequences("Large", 512, 4.0) == 0
    # The table of the documentation.
    page = pathlib.Path("docs/gpu.md").read_text("utf-8")
    for model in ("Base", "Large"):
        for length in (128, 512):
            cells = " | ".join(
                f"{room.sequences(model, length, memory)}"
                for memory in (12, 24, 48, 80, 141)
            )
            assert f"| {model}, {length} | {cells} |" in page


def test_batches_of_a_part_that_is_broken_off_are_kept(tmp_path):
    class KilledStep(LargeStep):
        def iterator(self, rows):
            if rows < 4:
                raise KeyboardInterrupt
            return rows

    path = tmp_path / "result.json"
    with pytest.raises(KeyboardInterrupt):
        measured(KilledStep, result=path)
    (batch,) = json.loads(path.read_text())["figures"]["batches"]
    assert batch["rows"] == 4


def test_what_a_part_wrote_before_it_broke_off_is_read(monkeypatch):
    def run(command, **options):
        found = Found()
        found.figures["batches"] = [1]
        found.save(pathlib.Path(command[-1]))
        raise subprocess.TimeoutExpired(command, 1)

    monkeypatch.setattr(main.subprocess, "run", run)
    result = main.run_part("speed", {}, timeout=1)
    assert result["status"] == main.FAILED
    assert result["error"].startswith("did not end within 1 s")
    assert result["figures"] == {"batches": [1]}


def test_without_a_gpu_nothing_is_measured(check):
    ran, found = check(lambda *_: {"status": main.FAILED}, small=False)
    assert ran == ["machine"]
    assert found["goldens"]["status"] == main.NOT_RUN
    for small in (False, True):
        checked, _ = machine.machine(Request(small=small)).checks
        assert checked["passed"] == small


def test_chosen_parts_are_run_after_the_machine(check):
    ran, found = check(small=False, only=["SIGTERM", "speed, large, 512"])
    assert ran == ["machine", "speed", "speed", "sigterm"]
    assert found["scaling"]["status"] == main.NOT_RUN
    with pytest.raises(ValueError, match="--only=golds: .* goldens; "):
        check(only=["golds"])


def test_the_largest_model_at_full_length_comes_first():
    names = list(main.make_parts(small=False))
    assert names[1:3] == ["speed, large, 512, fused", "speed, large, 512, XLA"]


def test_a_difference_that_is_not_a_number_is_too_large():
    found = Found()
    for value in (float("nan"), 2.0, 1.0):
        found.at_most("x", value, 1.0)
    assert [check["passed"] for check in found.checks] == [False, False, True]


@pytest.mark.slow
def test_all_of_it_runs_on_two_logical_cpus(tmp_path):
    fork_server.cold_python(
        *("-m", "benchmarks.check_gpu.main", "--small", "--minutes=30"),
        f"--output_dir={tmp_path}",
    )
    found = written(tmp_path)
    assert list(found) == list(main.make_parts(small=True))
    assert {x["status"] for x in found.values()} == {main.PASSED}
    assert sum(len(x["checks"]) for x in found.values()) == 17
    assert found["scaling"]["figures"]["devices"] == 2
