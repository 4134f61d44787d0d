import time

from data.progress import Progress


def test_a_log_gets_lines_with_rate_and_time_left(logged, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with Progress(
        "training", total=1000, initial=200, unit="steps", seconds=10
    ) as progress:
        now[0] += 5
        progress.advance(100, "loss=3")
        assert not logged.messages  # too soon
        now[0] += 5
        progress.advance(100, "loss=2")
        now[0] += 10
        progress.advance(100, "loss=1")
        progress.advance(100, "loss=0")
    # 200 steps in 10 s: 20 steps/s; 600 to go are 30 s. Then the rate is that
    # since the line before: compilation made the first steps slow. The last
    # line comes at the end, if there is something new to say, with the rate of
    # the whole: 400 steps in 20 s.
    assert logged.messages == [
        "training: 400/1,000 steps, 20 steps/s, 00:30 left, loss=2",
        "training: 500/1,000 steps, 10 steps/s, 00:50 left, loss=1",
        "training: 600/1,000 steps, 20 steps/s, 00:20 left, loss=0",
    ]


def test_a_terminal_gets_a_bar(capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with Progress("training", total=4, unit="steps") as progress:
        progress.advance(4, "loss=2")
    assert "100%" in capsys.readouterr().err
