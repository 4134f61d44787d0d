"""The engine with made-up runs: remembers, resumes, refuses, reports."""

import json
import re
import shutil
import signal
import statistics

import pytest
from matplotlib import image

from studies.engine import plan, report, running
from studies.engine.study_options import StudyData
from tests.data.tasks.fixtures import write_files
from tests.studies.support import (
    NAMES,
    MadeUpRuns,
    made_up_study,
    options,
    values_of,
)
from tests.support import fork_server
from tests.support.model_folder_support import add_to_weight, write_original
from tests.support.run_files import cells_in

pytestmark = pytest.mark.all

BASE_TAGS = ["base", "tags", "12346"]
# Each row: a pretraining, an evaluation, two seeds of a task.
NUM_RUNS = 4 * len(NAMES)
KILLED = """
import os, signal, sys
from studies.engine import running
from studies.engine.plan import Plan
from tests.studies.support import *

def die():
    os.kill(os.getpid(), signal.SIGKILL)

runs = MadeUpRuns(fail_at=7, fail=die)
running.run(Plan(made_up_study(), options(sys.argv[1])), runs)
"""


@pytest.fixture(autouse=True)
def pictures(monkeypatch, request):
    """Draws nothing, except where a test looks at the picture."""
    if "report_has" not in request.node.name:
        monkeypatch.setattr(report, "draw", lambda *_: None)


def run(folder, runs=None, *, given=None, **changes):
    runs = runs or MadeUpRuns()
    asked = options(folder, given, **changes)
    running.run(plan.Plan(made_up_study(), asked), runs)
    return runs.made


def table(folder):
    """The rows of study.tsv without its head."""
    return cells_in(folder / "study.tsv")[1:]


def treebank(folder):
    """The data of a study: one sentence to train on, one to score."""
    names = "train.conllu", "dev.conllu"
    folder = write_files(folder, dict.fromkeys(names, "One.\n"))
    return StudyData(conllu_dir=folder)


def test_finished_runs_are_not_repeated(tmp_path):
    made = run(tmp_path)
    assert len(made) == len(set(made)) == NUM_RUNS
    report = (tmp_path / "study.md").read_text()
    assert run(tmp_path) == []
    assert (tmp_path / "study.md").read_text() == report


def test_a_killed_study_goes_on_at_its_row(tmp_path):
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    fork_server.cold_python("-c", KILLED, killed, code=-signal.SIGKILL)
    before = table(killed)
    assert 0 < len(before)
    # Six runs were finished; the seventh, which was killed, is made again.
    assert run(killed) == run(whole)[6:]
    assert table(killed) == table(whole)
    assert table(killed)[: len(before)] == before


def test_an_interrupted_study_says_how_much_is_left(tmp_path):
    def interrupt():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, MadeUpRuns(fail_at=NUM_RUNS - 1, fail=interrupt))
    assert "\n2 runs are not done yet." in (tmp_path / "study.md").read_text()
    assert len(run(tmp_path)) == 2
    assert "not done yet" not in (tmp_path / "study.md").read_text()


def test_progress_is_of_the_whole_study(tmp_path, logged):
    run(tmp_path, rows=("base",))
    logged.clear()
    run(tmp_path)
    head, *_, last = [r.getMessage() for r in logged.records]
    assert re.match(rf"made_up: {NUM_RUNS} runs, about \d+ minutes", head)
    assert "25 % done before" in head
    total = re.search(r"study made_up: ([\d,]+)/([\d,]+) expected", last)
    assert total[1] == total[2]
    assert f"run {NUM_RUNS} of {NUM_RUNS}: {tmp_path}/equal/" in last


def test_a_measure_that_the_text_does_not_allow_is_named(tmp_path, caplog):
    text = tmp_path / "text"
    text.write_text("all of these are small\n" * 50)
    made = run(tmp_path / "out", given=StudyData(text=str(text)))
    assert {name for _, name, _ in made} == {"pretraining", "held_out"}
    said = "the casing of its words hardly differs, so casing is left out."
    assert said in caplog.text
    report = (tmp_path / "out/study.md").read_text()
    assert "- left out: casing: of the text the casing of its " in report


def test_rows_may_come_one_after_the_other(tmp_path):
    assert {row for row, *_ in run(tmp_path, rows=("worse",))} == {"worse"}
    assert {row for row, *_ in table(tmp_path)} == {"worse"}
    run(tmp_path, rows=("base",))
    assert {row for row, *_ in table(tmp_path)} == {"base", "worse"}


def test_further_seeds_can_be_added(tmp_path):
    run(tmp_path)
    made = run(tmp_path, num_trials=3)
    assert made == [(row, "casing", 12347) for row in NAMES]
    assert len({seed for _, name, seed, _ in table(tmp_path)}) == 3


def test_a_command_for_less_keeps_what_is_done(tmp_path):
    given, out = treebank(tmp_path / "conllu"), tmp_path / "out"
    run(out, given=given, num_trials=3)
    before = table(out)
    assert {name for _, name, *_ in before} >= {"tags"}
    run(out, given=given, num_trials=1)
    assert table(out) == before
    shutil.rmtree(out / "base/tags-seed12345")
    run(out, given=given, num_trials=1)  # makes it again, and keeps the others
    shutil.rmtree(out / "base/tags-seed12346")
    run(out, given=given, num_trials=1)
    assert table(out) == [x for x in before if x[:3] != BASE_TAGS]
    run(out, given=given, num_trials=3)
    assert table(out) == before
    run(out, rows=("base",), num_trials=1)
    assert [row for row in table(out) if row[1] != "casing"] == before


def test_the_report_has_mean_spread_paper_and_sign(tmp_path):
    run(tmp_path)
    report = (tmp_path / "study.md").read_text()
    jobs = plan.Plan(made_up_study(), options(tmp_path)).jobs()
    found = {}
    for job in jobs:
        if job.run == "casing":
            values = found.setdefault(job.row.name, [])
            values.append(100 * values_of(job)["token_accuracy"])
    means = {name: statistics.fmean(x) for name, x in found.items()}
    for name in NAMES[1:]:
        (line,) = re.findall(rf"^\| {name} \| .* \(2\) \|.*$", report, re.M)
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        spread = statistics.stdev(found[name])
        assert cells[1] == f"{means[name]:.2f} ± {spread:.2f} (2)"
        assert cells[2] == f"{means[name] - means['base']:+.2f}"
        theirs = {"better": 1.5, "worse": -1.0, "equal": 0.0}[name]
        assert cells[4] == f"{theirs:+.2f}"
        same = (means[name] - means["base"]) * theirs > 0
        wanted = "-" if not theirs else "yes" if same else "no"
        assert cells[5].split(",")[0] == wanted
    # Perplexity has no column of the paper, and one value.
    part = report.split("## perplexity")[1].split("##")[0]
    assert "paper" not in part and "±" not in part
    picture = image.imread(tmp_path / "study.png")
    assert picture[..., :3].std() > 0.05  # not one colour


def test_other_settings_and_another_text_are_refused(tmp_path):
    text, out = tmp_path / "text.txt", tmp_path / "out"
    text.write_text("One.\n")
    given = StudyData(text=str(text))
    run(out, given=given, rows=("base",))
    text.write_text("Other.\n")
    changed = {"seed": 3, "scale": "small", "precision": "bfloat16"}
    with pytest.raises(ValueError) as error:
        run(out, given=given, **changed)
    assert (
        "made with different flags or data: precision float32 -> bfloat16; "
        "scale tiny -> small; seed 12345 -> 3; text "
    ) in str(error.value)


@pytest.mark.parametrize("lost", ["made_from", "values"])
def test_a_damaged_record_of_a_run_is_named(tmp_path, lost):
    run(tmp_path)
    path = next(tmp_path.glob("*/*-seed*/run.json"))
    record = json.loads(path.read_text())
    path.write_text(json.dumps({n: x for n, x in record.items() if n != lost}))
    with pytest.raises(ValueError, match=f"run.json.* {lost}; remove it"):
        run(tmp_path)


def test_rows_of_other_data_are_refused_before_any_run(tmp_path):
    conllu, out = tmp_path / "conllu", tmp_path / "out"
    given = treebank(conllu)
    assert run(out, given=given, rows=("base",))
    assert run(out, given=given, rows=("better",))
    (conllu / "dev.conllu").write_text("Other.\n")
    runs = MadeUpRuns()
    with pytest.raises(ValueError, match="dev.conllu .*--output_dir"):
        run(out, runs, given=given, rows=("worse",))
    assert runs.made == []


def test_rows_of_a_set_by_name_are_refused_beside_those_of_files(tmp_path):
    names, out = ("STS-B/train.tsv", "STS-B/dev.tsv"), tmp_path / "out"
    glue = write_files(tmp_path / "glue", dict.fromkeys(names, "One.\n"))
    study, runs = made_up_study(("tags", "similarity")), MadeUpRuns()

    def run(row, **given):
        asked = options(out, StudyData(**given), rows=(row,))
        running.run(plan.Plan(study, asked), runs)

    run("base", glue_dir=glue)
    made = len(runs.made)
    with pytest.raises(ValueError, match="train.tsv .*--output_dir"):
        run("worse", tfds=("similarity",))
    assert len(runs.made) == made


def test_another_model_at_the_same_path_is_refused(goldens, tmp_path):
    model, out = write_original(goldens, tmp_path / "model"), tmp_path / "out"
    given = treebank(tmp_path / "conllu").replace(init_checkpoint=str(model))
    assert run(out, given=given, rows=("base",))
    vocab = model / "vocab.txt"
    words = vocab.read_text("utf-8")
    vocab.write_text("".join(reversed(words.splitlines(True))), "utf-8")
    runs = MadeUpRuns()
    with pytest.raises(ValueError, match="data: vocab .*--output_dir"):
        run(out, runs, given=given, rows=("worse",))
    vocab.write_text(words, "utf-8")
    add_to_weight(model, "bert/pooler/dense/bias")
    with pytest.raises(ValueError, match="data: init_checkpoint .*--output_di"):
        run(out, runs, given=given, rows=("worse",))
    assert runs.made == []


def test_several_hosts_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", "{}")
    with pytest.raises(ValueError, match="TF_CONFIG is set"):
        run(tmp_path / "out")
    assert not (tmp_path / "out").exists()
