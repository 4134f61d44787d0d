"""The picture of learning curves, of made-up events."""

import pytest
from matplotlib import image
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tests.support import fork_server
from training import curves
from training.loop import events


@pytest.fixture
def runs(tmp_path):
    """Two seeds of one rate, which were evaluated, and a run without."""
    for name, first in ("rate1-seed1", 4.0), ("rate1-seed2", 2.0), ("b", 9.0):
        for step in 10, 20:
            values = {"loss": first / step, "learning_rate": 1e-4}
            events.write_scalars(str(tmp_path / name), values, step)
    folder = str(tmp_path / "rate1-seed1/eval")
    events.write_scalars(folder, {"loss": 7.0, "accuracy": 0.5}, 20)
    return tmp_path


@pytest.fixture
def drawn(monkeypatch):
    """What is drawn: label, steps, values; and the bands."""
    lines, bands = [], []
    monkeypatch.setattr(
        Axes, "fill_between", lambda _, *xs, **kw: bands.append(xs)
    )
    plot = Axes.plot

    def record(axis, steps, values, style, *, label, **options):
        lines.append((label, list(steps), list(values)))
        return plot(axis, steps, values, style, label=label, **options)

    monkeypatch.setattr(Axes, "plot", record)
    return lines, bands


def test_the_program_draws_and_names_the_runs(runs):
    flags = f"--runs={runs}/rate1-seed*,{runs}/b", f"--png={runs}/a.png"
    done = fork_server.python("run_plot.py", *flags)
    told = f"{runs}/a.png: accuracy, loss of {runs}/rate1, {runs}/b"
    assert told in done.stderr
    assert image.imread(f"{runs}/a.png").size


def test_seeds_are_a_mean_with_a_band(runs, drawn):
    found = curves.read([f"{runs}/rate1-seed*", f"{runs}/b"])
    name = f"{runs}/rate1"
    assert curves.draw(found, f"{runs}/a.png") == ["accuracy", "loss"]
    lines, bands = drawn
    assert lines == [
        (f"{name}, eval", [20], [0.5]),
        (name, [10, 20], [pytest.approx(0.3), pytest.approx(0.15)]),
        (f"{name}, eval", [20], [7.0]),
        (f"{runs}/b", [10, 20], [pytest.approx(0.9), pytest.approx(0.45)]),
    ]
    ((steps, low, high),) = bands
    assert steps == [10, 20]
    assert low == pytest.approx([0.2, 0.1])
    assert high == pytest.approx([0.4, 0.2])
    assert image.imread(f"{runs}/a.png").std() > 0


def test_steps_that_a_seed_lacks_are_told(runs, drawn, caplog):
    events.write_scalars(f"{runs}/rate1-seed2", {"loss": 1.0}, 30)
    curves.draw(curves.read([f"{runs}/rate1-seed*"]), f"{runs}/a.png", ["loss"])
    assert f"{runs}/rate1, loss: 2 of 3 steps are drawn" in caplog.text


def test_the_last_value_of_a_step_counts(runs, drawn):
    before = set((runs / "b").iterdir())
    events.write_scalars(f"{runs}/b", {"loss": 1.0}, 20)  # of a resumed run
    (last,) = set((runs / "b").iterdir()) - before
    last.rename(runs / "b/events.out.tfevents.0")  # whatever its name
    curves.draw(curves.read([f"{runs}/b"]), f"{runs}/a.png", ["loss"])
    assert drawn[0][0][2] == [pytest.approx(0.9), 1.0]


def test_a_folder_without_events_is_refused(runs):
    (runs / "empty").mkdir()
    for pattern in f"{runs}/empty", f"{runs}/missing*", str(runs):
        with pytest.raises(FileNotFoundError, match="--runs=.*output_dir"):
            curves.read([f"{runs}/b", pattern])


def test_a_folder_that_is_named_twice_is_drawn_once(runs):
    found = curves.read([f"{runs}/b", f"{runs}/b/"])
    assert found == curves.read([f"{runs}/b"])


def test_a_tag_that_no_run_has_is_refused(runs):
    found = curves.read([f"{runs}/b"])
    with pytest.raises(ValueError, match="--runs: there is no loss"):
        curves.draw({}, f"{runs}/a.png")
    with pytest.raises(ValueError, match="--tags=lost: .* learning_rate, loss"):
        curves.draw(found, f"{runs}/a.png", ["loss", "lost"])
    assert not (runs / "a.png").exists()


def test_the_legend_has_names_with_an_underscore(tmp_path, monkeypatch):
    told = []
    monkeypatch.setattr(Figure, "legend", lambda _, *x, **how: told.extend(x))
    curves.draw({("_a", ""): {"loss": [{1: 2.0}]}}, str(tmp_path / "a.png"))
    assert [*told[1]] == ["_a"]


def test_each_of_many_runs_has_its_color(tmp_path, monkeypatch):
    runs = {(f"run{i}", ""): {"loss": [{1: i}]} for i in range(23)}
    colors = []
    monkeypatch.setattr(curves, "_draw_curves", lambda *x: colors.append(x[-1]))
    curves.draw(runs, str(tmp_path / "a.png"))
    assert len(set(colors)) == len(runs)
