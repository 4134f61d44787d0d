import json

import pytest

from tests.support import fork_server

pytestmark = pytest.mark.all


def start(goldens, out, *flags):
    text = f"--text={goldens}/pretraining_data/corpus.txt"
    return ["run_study.py", f"--output_dir={out}", text, *flags]


def write_more_questions(goldens, folder):
    """SQuAD files with the golden questions, those to train on five times."""
    folder.mkdir()
    for name, times in (("train", 5), ("dev", 1)):
        text = (goldens / f"squad/{name}-v1.1.json").read_text("utf-8")
        articles = []
        for time in range(times):
            more = json.loads(text.replace('"id": "', f'"id": "{time}-'))
            articles += more["data"]
        content = json.dumps({"version": "1.1", "data": articles})
        (folder / f"{name}-v1.1.json").write_text(content, "utf-8")
    return folder


def test_a_row_from_text_to_report(goldens, tmp_path):
    # The row that uses most: a left-to-right model, which another row has
    # pretrained, with a BiLSTM on questions.
    out = tmp_path / "out"
    command = start(
        goldens,
        out,
        "--study=pretraining_tasks",
        "--rows=left_to_right_bilstm",
        "--scale=tiny",
        "--num_trials=1",
        f"--squad_dir={write_more_questions(goldens, tmp_path / 'squad')}",
    )
    assert "max_predictions_per_seq" not in fork_server.python(*command).stderr
    rows = (out / "study.tsv").read_text().splitlines()[1:]
    ((row, measure, seed, value),) = (line.split("\t") for line in rows)
    assert (row, measure) == ("left_to_right_bilstm", "spans")
    folder = out / f"{row}/spans-seed{seed}"
    results = json.loads((folder / "metrics.json").read_text())
    assert float(value) == pytest.approx(results["f1"], rel=1e-5)
    assert json.loads((folder / "head.json").read_text())["head"] == "bilstm"
    for model in (folder, out / "left_to_right/pretraining"):
        config = json.loads((model / "bert_config.json").read_text())
        assert config["left_to_right"] is True
        assert list(model.glob("events.out.tfevents.*"))
    report = (out / "study.md").read_text()
    assert "| paper: SQuAD F1 |" in report and "| 84.9 |" in report
    assert (out / "study.png").stat().st_size > 1000
    again = fork_server.python(*command)
    assert "100 % done before" in again.stderr
    assert "Training to step" not in again.stderr
    assert (out / "study.md").read_text() == report


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        (["--study=mask"], "give one of features, masking"),
        (["--study=objectives", "--rows=x"], "the study has no row x; its"),
        (["--study=masking", "--glue_dir=/none"], "hold one STS-B/train.tsv"),
    ],
)
def test_errors_come_at_once(goldens, tmp_path, flags, error):
    out = tmp_path / "out"
    done = fork_server.cold_python(*start(goldens, out, *flags), code=1)
    assert done.stderr.startswith("error: ") and error in done.stderr
    assert not out.exists()


def test_the_papers_scale_only_prints(goldens, tmp_path):
    out = tmp_path / "out"
    flags = "--study=masking", "--scale=paper"
    done = fork_server.cold_python(*start(goldens, out, *flags))
    assert done.stdout.count("python run_pretraining.py ") == 12
    assert "# Cost: " in done.stdout
    assert not out.exists()
