import sys

import pytest

from benchmarks import litert, programs, smaller, smaller_report
from benchmarks.budget import tasks
from benchmarks.smaller import SEED, TEACHER, SmallerOptions
from data.storage.json_files import read_json, write_json
from modeling import BertModel
from studies.engine.study_options import StudyData
from tests.support import fork_server
from tests.support.model_folder_support import write_with
from training.devices import precision, strategy

pytestmark = pytest.mark.all

SENTENCE = "".join(
    f"{i}\t{word}\t_\t{tag}\t_\t_\t_\t_\t_\t_\n"
    for i, (word, tag) in enumerate([("a", "DET"), ("red", "ADJ")], start=1)
)


@pytest.fixture
def data(tmp_path):
    """The flags of forty sentences with tags."""
    folder = tmp_path / "conllu"
    folder.mkdir()
    for name in "dev", "test":
        (folder / f"{name}.conllu").write_text(f"{SENTENCE}\n" * 40)
    return smaller._data_flags("tags", None, StudyData(conllu_dir=str(folder)))


@pytest.fixture
def started(monkeypatch):
    """The programs that run, each with its flags; a warm process runs them."""
    started = []

    def run(log, program, **flags):
        started.append((program, flags))
        given = [f"--{k}={v}" for k, v in flags.items() if v is not None]
        command = [sys.executable, program, *given]
        done = fork_server.run(command, cwd=programs.ROOT)
        assert done.returncode == 0, done.stderr[-3000:]

    for place in programs, tasks:
        monkeypatch.setattr(place, "run_with_log", run)
    slow = precision.Bfloat16(False, "")
    monkeypatch.setattr(strategy, "local_bfloat16", lambda: slow)
    for place in smaller, smaller_report:
        monkeypatch.setattr(place, "SIZES", (TEACHER,))
    monkeypatch.setattr(litert, "TURNS", 2)
    return started


def test_runs_are_kept_and_every_form_is_scored_and_timed(
    goldens, data, started, tmp_path
):
    sizes = {"num_hidden_layers": 4}
    model = write_with(goldens, tmp_path / "model", BertModel, **sizes)
    options = SmallerOptions(
        init_checkpoint=model, output_dir=str(tmp_path / "out")
    )
    names = (TEACHER, "distilled_3")
    for name in names * 2:
        smaller.run("tags", name, SEED, options, data)
    assert [program for program, _ in started] == [
        "run_classifier.py",
        "convert_checkpoint.py",
        "run_classifier.py",
    ]
    _, student = started[2]
    assert student["teacher_dir"] == started[0][1]["output_dir"]
    assert student["init_checkpoint"] == started[1][1]["output_dir"]
    smaller.measure_costs(tmp_path / "out")
    smaller_report.write(tmp_path / "out")
    found = smaller_report.Results(tmp_path / "out")
    for name in names:
        # One sentence is all that there is, so that eight bits cannot tell.
        score = found.scores("tags", name, "float32")
        assert score == found.scores("tags", name, "int8")
        assert score.mean in (0, 50, 100)
    folder = tmp_path / f"out/tags/seed-{SEED}"
    configs = [folder / name / "run/bert_config.json" for name in names]
    assert [read_json(str(x))["num_hidden_layers"] for x in configs] == [4, 3]
    for form in "float32", "float", "int8":
        for kind in "short", "long":
            assert found.milliseconds(TEACHER, form, kind) > 0
    assert (tmp_path / "out/smaller.png").read_bytes().startswith(b"\x89PNG")


def test_the_words_of_a_student_are_those_of_the_train_set(data):
    assert [*smaller._train_texts(data)] == ["a red"] * 40


def result(score, megabytes):
    return {
        "made_from": {},
        "seconds": 1.0,
        "scores": {"float32": score, "int8": score - 1},
        "megabytes": {"float32": 4 * megabytes, "int8": megabytes},
    }


def test_the_report_has_shares_of_the_teacher_and_what_is_done(tmp_path):
    # 76 and 72 are 95 % and 90 % of 80, the mean of 81 and 79.
    for name, values in {TEACHER: (81, 79), "copied_3": (76, 72)}.items():
        for seed, value in enumerate(values, start=SEED):
            place = smaller.place_of(tmp_path, "similarity", seed, name)
            write_json(str(place / "run.json"), result(value, 10.0))
    place = smaller.place_of(tmp_path, "similarity", SEED, "random_3")
    write_json(str(place / "run.json"), {"made_from": {}})  # was stopped
    smaller_report.write(tmp_path)
    assert (tmp_path / "smaller.md").read_text().splitlines()[2:] == [
        "## STS-B, Spearman",
        "",
        "| model | float32 | % of the teacher's | bfloat16 | 8 bits | MB "
        "| MB, 8 bits |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        "| teacher | 80.00 ± 1.41 (2) | 100.0 |  | 79.00 ± 1.41 (2) | 40.0 "
        "| 10.0 |",
        "| 3 layers | 74.00 ± 2.83 (2) | 92.5 |  | 73.00 ± 2.83 (2) | 40.0 "
        "| 10.0 |",
        "",
    ]
