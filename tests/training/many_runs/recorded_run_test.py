"""What a recorded run remembers, and how long it says it took."""

import time

import pytest

from data.storage.json_files import read_json
from training.many_runs.recorded_run import RecordedRun

FACTS = {"seed": 1}


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, ValueError])
def test_seconds_before_a_stop_count_and_pauses_do_not(
    tmp_path, monkeypatch, stop
):
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])

    def run():
        clock[0] += 7
        raise stop

    for _ in range(2):
        stopped = RecordedRun(str(tmp_path), "run.json", FACTS)
        assert stopped.result is None
        with pytest.raises(stop):
            stopped.run(run)
        clock[0] += 1000  # the pause
    last = RecordedRun(str(tmp_path), "run.json", FACTS)

    def finish():
        clock[0] += 2
        return {"value": 3}

    expected = {"value": 3, "seconds": 7 + 7 + 2}
    assert last.run(finish) == expected
    record = read_json(str(tmp_path / "run.json"))
    assert record == {"made_from": FACTS, **expected}
    again = RecordedRun(str(tmp_path), "run.json", FACTS)
    assert again.result == expected  # a finished run is not repeated


def test_other_facts_are_refused(tmp_path):
    RecordedRun(str(tmp_path), "run.json", FACTS).run(dict)
    with pytest.raises(ValueError, match=": seed 1 -> 2; .* --output_dir, or"):
        RecordedRun(str(tmp_path), "run.json", {"seed": 2})
    (tmp_path / "run.json").write_text('{"made_from": 5}')
    with pytest.raises(ValueError, match="run.json is damaged: no JSON object"):
        RecordedRun(str(tmp_path), "run.json", FACTS)
