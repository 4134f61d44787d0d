import re

import numpy as np
import pytest

from benchmarks.budget import ladder, report, rungs, weights
from benchmarks.budget.hour import CONFIG
from benchmarks.budget.inputs import Inputs
from benchmarks.budget.ladder import LadderOptions
from benchmarks.budget.rungs import LADDER, LAST, RUNGS
from benchmarks.budget.runs import SEED, Runs
from benchmarks.peers.cases import ORIGINAL
from data.storage.json_files import write_json
from modeling import checkpoints
from training.config.recipes import RECIPES

pytestmark = pytest.mark.all

SECONDS = 0.5  # of an update
RATIO = 1.5  # the original's time / ours


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Runs of 2 minutes, whose updates all take the same time."""
    monkeypatch.setattr(
        Inputs, "seconds", lambda *a: SECONDS * (RATIO if a[-1] else 1)
    )
    return Runs(given(tmp_path))


def given(folder):
    """Options, whose files are in a folder."""
    for name in ("vocab.txt", "text.txt"):
        (folder / name).touch()
    return LadderOptions(
        output_dir=str(folder / "ladder"),
        text=str(folder / "text.txt"),
        vocab_file=str(folder / "vocab.txt"),
        minutes=2.0,
        baseline_minutes=10.0,
    )


@pytest.fixture
def inputs(tmp_path):
    return Inputs(tmp_path, "text.txt", "vocab.txt", CONFIG)


def rung(name):
    return next(rung for rung in RUNGS if rung.name == name)


def test_the_last_rung_is_the_recipe():
    # Its records have masks.
    recipe = RECIPES["budget"].items() - {("short_rows_share", 0.5)}
    assert recipe <= LAST.settings.items()
    assert LAST.settings["warmup"] == 0.1


def test_each_rung_of_the_ladder_adds_to_the_one_before():
    assert len({rung.name for rung in RUNGS}) == len(RUNGS)
    for before, after in zip(LADDER, LADDER[1:], strict=False):
        assert before.settings.keys() <= after.settings.keys()
        assert before.settings != after.settings


def test_the_number_of_updates_is_what_fits_into_the_time(runs):
    (phase,) = runs.phases(LAST)
    assert phase.num_steps == 2 * 60 / SECONDS
    (phase,) = runs.phases(rungs.QUARTER)
    assert phase.num_steps == 10 * 60 / 4 / SECONDS
    (phase,) = runs.phases(rungs.BASELINE)
    assert phase.seconds == SECONDS * RATIO
    assert phase.num_steps == 10 * 60 / (SECONDS * RATIO)
    for a_rate in rungs.RATES:
        (phase,) = runs.phases(a_rate)
        assert phase.num_steps == round(10 * 60 / 3 / (SECONDS * RATIO))


@pytest.fixture
def measured(monkeypatch):
    """What is timed, each (request, *peers); ours takes longer each time."""
    measured = []

    def measure(*asked):
        measured.append(asked)
        against = {peer: {"ratio_of_medians": RATIO} for peer in asked[1:]}
        ours = {"median": 1000 * SECONDS * len(measured)}
        return {"ours": ours, "peers": against}

    monkeypatch.setattr("benchmarks.budget.inputs._measure", measure)
    return measured


def test_an_update_is_timed_once_the_original_beside_ours(inputs, measured):
    settings = rungs.BASELINE.settings
    for _ in range(2):
        assert inputs.seconds(settings, 0, True) == SECONDS * RATIO
        assert inputs.seconds(settings) == SECONDS
    (ours,), (both, *peers) = measured
    assert peers == [ORIGINAL]
    assert ours == both
    assert ours["model"]["hidden_dropout_prob"] == 0.1


def test_shorter_batches_take_less_time(inputs, monkeypatch):
    def once(self, name, measure):
        # 100 ms, and 6 for each wordpiece of a row.
        return 100 + 6 * int(name.split("length ")[1].split(",")[0])

    monkeypatch.setattr(Inputs, "_once", once)
    found = inputs.seconds(rung("grouped").settings)
    assert found == pytest.approx((100 + 6 * 0.91 * 128) / 1000)


def test_attention_within_documents_is_timed_by_itself(inputs, measured):
    assert inputs.seconds(rung("joined").settings) == SECONDS
    assert inputs.seconds(rung("separated").settings) == 2 * SECONDS
    (joined,), (separated,) = measured
    assert separated == joined | {"separate_documents": True}


def test_the_original_must_be_there(tmp_path, monkeypatch):
    monkeypatch.setattr(ladder, "python_of", lambda name: tmp_path / "none")
    with pytest.raises(
        ValueError, match="none does not exist; run `make peers"
    ):
        ladder.check(given(tmp_path))


def test_a_folder_is_not_continued_with_other_inputs(runs, tmp_path):
    (tmp_path / "vocab.txt").write_text("[PAD]")
    error = "ladder was begun with another vocab_file; give another --output"
    with pytest.raises(ValueError, match=error):
        runs._inputs.check()


def test_phases_share_the_time_and_change_the_settings(runs):
    short, whole = runs.phases(rung("length_64"))
    assert (short.num_steps, whole.num_steps) == (192, 48)  # 80 %, 20 %
    assert short.settings["max_seq_length"] == 64
    assert whole.settings == LAST.settings


def test_the_first_weights_are_those_of_the_first_phase(runs, monkeypatch):
    commands = []
    monkeypatch.setattr(
        "benchmarks.budget.runs.run_with_log",
        lambda *_, **f: commands.append(f),
    )
    monkeypatch.setattr(Inputs, "records", lambda *_: "records")
    phased = rung("batch_ramp")
    runs._train(phased, runs.phases(phased), runs.place(phased, SEED), SEED)
    first, second, last = commands
    assert first["first_weights"] == "neighbors"
    assert first["continue_from"] is None
    for before, after in ((first, second), (second, last)):
        assert after["first_weights"] is None  # the flag is left out
        assert after["continue_from"] == before["output_dir"]
        assert before["stop_at_step"] < after["num_train_steps"]
    assert last["stop_at_step"] is None


def test_the_mean_of_checkpoints_has_weights_alone(tmp_path):
    for number in 1, 3:
        checkpoints.write(
            str(tmp_path / f"ckpt-{number}"),
            {
                "bert/pooler/dense/bias": np.full(2, number, np.float32),
                "bert/pooler/dense/bias/adam_m": np.ones(2, np.float32),
                "global_step": np.int64(number),
            },
        )
    prefixes = [str(tmp_path / f"ckpt-{number}") for number in (1, 3)]
    mean = weights.average(prefixes, tmp_path / "mean")
    found = checkpoints.Checkpoint(str(mean))
    assert list(found.shapes) == ["bert/pooler/dense/bias"]
    assert found.read("bert/pooler/dense/bias").tolist() == [2, 2]


def test_layers_are_stacked_in_turns(tmp_path):
    name = "bert/encoder/layer_{}/output/dense/bias".format
    small = {name(i): np.full(2, i, np.float32) for i in range(2)}
    small["bert/pooler/dense/bias"] = np.full(2, 9, np.float32)
    checkpoints.write(str(tmp_path / "small"), small)
    large = weights.stack(tmp_path / "small", tmp_path / "large", 4)
    found = checkpoints.Checkpoint(str(large))
    assert [found.read(name(i))[0] for i in range(4)] == [0, 1, 0, 1]
    assert found.read("bert/pooler/dense/bias")[0] == 9


def test_the_report_has_means_spreads_and_only_what_is_done(runs, tmp_path):
    for seed, loss in (SEED, 5.0), (SEED + 2, 5.2):
        numbers = {"masked_lm_loss": loss, "masked_lm_accuracy": 0.2}
        pairs = numbers | {"next_sentence_accuracy": 0.6}
        place = runs.place(LAST, seed)
        place.mkdir()
        result = {"made_from": {}, "minutes": 2.0, "updates": 240}
        result |= {"pairs": pairs, "rows": numbers, "seconds": 99.0}
        write_json(str(place / "run.json"), result)
    stopped = runs.place(LAST, SEED + 1)
    stopped.mkdir()
    write_json(str(stopped / "run.json"), {"made_from": {}})
    report.write(tmp_path, runs)
    assert list(runs.found(LAST)) == [SEED, SEED + 2]
    machine, _, table = (tmp_path / "ladder.md").read_text().partition("\n\n")
    assert re.fullmatch(r".*, \d+ cores; .*bfloat16.*", machine)
    assert table == (
        "## The ladder: each rung adds one change\n\n"
        "| rung | minutes | updates | loss | % right | next sentence, % right "
        "| loss on rows |\n| --- | --- | --- | --- | --- | --- | --- |\n"
        f"| {LAST.title} | 2.0 | 240 | 5.10 ± 0.14 (2) | 20.00 ± 0.00 (2) | "
        "60.00 ± 0.00 (2) | 5.10 ± 0.14 (2) |\n\n"
    )
