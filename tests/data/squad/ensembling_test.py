"""Several runs' files averaged: hand-computed, and as a program."""

import json

import pytest

from data.squad import ensembling
from data.squad.ensembling import EnsembleOptions
from tests.data.squad.support import question, write_paragraph
from tests.support import fork_server

NBEST, ODDS = "nbest_predictions.json", "null_odds.json"


def average_runs(runs, output_dir, **options):
    return ensembling.average_runs(
        EnsembleOptions(runs=runs, output_dir=str(output_dir), **options)
    )


def answer(text, probability, start_logit, end_logit):
    return {
        "text": text,
        "probability": probability,
        "start_logit": start_logit,
        "end_logit": end_logit,
    }


def write_run(folder, nbest, odds=None):
    """A run's files; nbest: id -> {text: probability or all numbers}."""
    folder.mkdir()
    content = {
        qas_id: [
            answer(text, *(x if isinstance(x, tuple) else (x, 1.0, 2.0)))
            for text, x in answers.items()
        ]
        for qas_id, answers in nbest.items()
    }
    (folder / NBEST).write_text(json.dumps(content))
    if odds:
        (folder / ODDS).write_text(json.dumps(odds))
    return str(folder)


def write_data(path, answers):
    """Questions in SQuAD's form; answers: id -> given texts."""
    questions = [
        question(qas_id, "Who?", [(text, 0) for text in texts])
        for qas_id, texts in answers.items()
    ]
    write_paragraph(path, "Ada Bob Eve", *questions)
    return str(path)


def read(folder, name):
    return json.loads((folder / name).read_text("utf-8"))


def two_runs(tmp_path):
    """Each run is sure of another answer; a third is second in both."""
    return [
        write_run(tmp_path / "a", {"q": {"Ada": 0.6, "Eve": 0.4}}),
        write_run(tmp_path / "b", {"q": {"Bob": 0.5, "Eve": 0.45}}),
    ]


def test_probabilities_are_means_over_runs_and_scores_over_listings(tmp_path):
    runs = [
        write_run(tmp_path / name, {"1": answers})
        for name, answers in {
            "a": {"cat": (0.6, 3.0, 1.0), "dog": (0.4, 2.0, 2.0)},
            "b": {"owl": (0.5, 0.0, 0.0), "dog": (0.5, 4.0, 1.0)},
            "c": {"dog": (0.3, 0.0, 0.0)},
        }.items()
    ]
    assert average_runs(runs, tmp_path / "out") == {}  # nothing is scored
    assert not (tmp_path / "out/metrics.json").exists()
    assert read(tmp_path / "out", NBEST) == {
        "1": [
            answer("dog", pytest.approx(0.4), 2.0, 1.0),
            answer("cat", pytest.approx(0.2), 3.0, 1.0),
            answer("owl", pytest.approx(0.5 / 3), 0.0, 0.0),
        ]
    }


def test_equal_answers_stay_in_the_order_of_the_runs(tmp_path):
    runs = [
        write_run(tmp_path / name, {"2": {name: 0.5}, "1": {"": 1.0}})
        for name in ("b", "a", "c")
    ]
    average_runs(runs, tmp_path / "out")
    averaged = read(tmp_path / "out", NBEST)
    assert list(averaged) == ["2", "1"]
    assert [one["text"] for one in averaged["2"]] == ["b", "a", "c"]


def test_null_is_the_answer_if_the_mean_difference_is_greater(tmp_path):
    nbest = {
        "1": {"": 0.9, "cat": 0.1},
        "2": {"dog": 0.9, "": 0.1},
        "3": {"": 1.0},
    }
    runs = [
        write_run(tmp_path / "a", nbest, {"1": 0.5, "2": 2.0, "3": -1.0}),
        write_run(tmp_path / "b", nbest, {"1": 0.5, "2": 0.0, "3": -1.0}),
    ]
    for threshold, texts in ((0.5, ["cat", "", ""]), (1.0, ["cat", "dog", ""])):
        average_runs(
            runs,
            tmp_path / "out",
            version_2_with_negative=True,
            null_score_diff_threshold=threshold,
        )
        answers = read(tmp_path / "out", "predictions.json")
        assert answers == dict(zip("123", texts, strict=True))


def test_null_odds_are_averaged_and_the_threshold_found(tmp_path, caplog):
    nbest = {qas_id: {"Ada": 0.7, "": 0.3} for qas_id in ("yes", "no")}
    runs = [
        write_run(tmp_path / "a", nbest, {"yes": 1.0, "no": 4.0}),
        write_run(tmp_path / "b", nbest, {"yes": 2.0, "no": 5.0}),
    ]
    data = write_data(tmp_path / "dev.json", {"yes": ["Ada"], "no": []})

    def average(**options):
        results = average_runs(
            runs,
            str(tmp_path / "out"),
            predict_file=data,
            version_2_with_negative=True,
            **options,
        )
        return results, read(tmp_path / "out", "predictions.json")

    results, texts = average()
    assert texts == {"yes": "", "no": ""}
    assert results["exact"] == 50
    assert read(tmp_path / "out", ODDS) == {"yes": 1.5, "no": 4.5}
    # The runs' own thresholds are not used, which is said.
    assert "of its own" not in caplog.text
    (tmp_path / "b/null_threshold.json").write_text("{}")
    average()
    assert "b/null_threshold.json: the run has a threshold" in caplog.text
    caplog.clear()
    results, texts = average(find_null_threshold=True)
    assert "of its own" not in caplog.text
    assert texts == {"yes": "Ada", "no": ""}
    assert results["exact"] == results["best_exact"] == 100
    assert 1.5 <= results["null_score_diff_threshold"] < 4.5
    results, texts = average(null_score_diff_threshold=9.0)
    assert texts == {"yes": "Ada", "no": "Ada"}


def test_what_cannot_be_averaged_is_refused(tmp_path):
    runs = two_runs(tmp_path)
    out = str(tmp_path / "out")
    other = write_run(tmp_path / "other", {"r": {"Ada": 1.0}})
    data = write_data(tmp_path / "dev.json", {"q": ["Eve"], "new": ["Eve"]})
    few = write_data(tmp_path / "few.json", {"q": ["Eve"]})
    bare = write_data(tmp_path / "bare.json", {"q": []})
    both = {"q": {"Eve": 1.0}, "r": {"Ada": 1.0}}
    more = [write_run(tmp_path / name, both) for name in "cd"]
    for folders, file, message in (
        (runs[:1], "", "--runs=.*a: give two folders or more"),
        ([*runs, other], "", "r/nbest_predictions.json and .*a differ in 2 q"),
        (runs, data, "dev.json and the runs differ in 1 .* such as 'new'"),
        (more, few, "few.json and the runs differ in 1 .* such as 'r'"),
        (runs, bare, "bare.json has no answers to score by"),
    ):
        with pytest.raises(ValueError, match=message):
            average_runs(folders, out, predict_file=file)
    needs = "--find_null_threshold needs --version_2_with_negative and --predic"
    with pytest.raises(ValueError, match=needs):
        average_runs(runs, out, find_null_threshold=True)
    with pytest.raises(FileNotFoundError, match=f"{NBEST}: no such"):
        average_runs([*runs, str(tmp_path)], out)
    message = f"no .*/a/{ODDS}: .*or leave the flag"
    with pytest.raises(FileNotFoundError, match=message):
        average_runs(runs, out, version_2_with_negative=True)
    assert not list((tmp_path / "out").glob("*.json"))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (NBEST, '{"q": [', " is damaged"),
        (NBEST, "[]", " is damaged: no JSON object; give"),
        (NBEST, '{"q": "Ada"}', ", question 'q': .* is not a list of answers"),
        (NBEST, '{"q": []}', ", question 'q': .* is not a list of answers; g"),
        (NBEST, '{"q": [{"text": "Ada"}]}', ", question 'q': .* is not a list"),
        (NBEST, "{}", " has no question; give"),
        (ODDS, '{"q": "1.0"}', ", question 'q': .1.0. is not a number"),
        (ODDS, '{"q": true}', ", question 'q': true is not a number"),
        (ODDS, '{"q": NaN}', ", question 'q': NaN is not a number"),
        (ODDS, '{"q": 1.0, "r": 1.0}', " and .*, such as 'r'; .*run_squad.py"),
    ],
)
def test_files_of_somebody_else_are_refused(tmp_path, name, content, message):
    runs = [
        write_run(tmp_path / run, {"q": {"Ada": 1.0}}, {"q": 1.0})
        for run in ("good", "odd")
    ]
    (tmp_path / "odd" / name).write_text(content)
    with pytest.raises(ValueError, match=f"odd/{name}{message}"):
        average_runs(runs, str(tmp_path / "out"), version_2_with_negative=True)
    assert not list((tmp_path / "out").glob("*.json"))


def test_no_run_counts_twice_or_is_overwritten(tmp_path):
    first, second = two_runs(tmp_path)
    (tmp_path / "link").symlink_to(first)
    (tmp_path / "model").mkdir()
    (tmp_path / "model/task.json").write_text("{}")
    before = (tmp_path / "a/nbest_predictions.json").read_bytes()
    for folders, out, message in (
        ([first, second, f"{first}/"], "out", "--runs=.*a/: give .* each once"),
        ([first, second], "link", "--output_dir: .*json is a file of --runs,"),
        ([first, second], "model", "--output_dir=.*model holds a run to keep"),
    ):
        with pytest.raises(ValueError, match=message):
            average_runs(folders, str(tmp_path / out))
    assert (tmp_path / "a/nbest_predictions.json").read_bytes() == before
    assert not (tmp_path / "a/predictions.json").exists()


def test_files_of_an_earlier_ensemble_do_not_stay(tmp_path):
    runs = [
        write_run(tmp_path / run, {"q": {"Ada": 1.0}}, {"q": 1.0})
        for run in ("a", "b")
    ]
    data = write_data(tmp_path / "dev.json", {"q": ["Ada"]})
    out = tmp_path / "out"
    average_runs(
        runs, str(out), predict_file=data, version_2_with_negative=True
    )
    assert (out / "metrics.json").exists() and (out / ODDS).exists()
    with pytest.raises(ValueError, match="/a/null_odds.json: .*--version_2"):
        average_runs(runs, str(out))
    (tmp_path / "b/null_odds.json").unlink()
    for given in ({}, {"version_2_with_negative": True}):
        with pytest.raises(FileNotFoundError, match="b/null_odds.json: .*--v"):
            average_runs(runs, str(out), **given)
    (tmp_path / "a/null_odds.json").unlink()
    average_runs(runs, str(out))
    assert sorted(path.name for path in out.iterdir()) == [
        "nbest_predictions.json",
        "predictions.json",
    ]


def test_the_program_takes_what_all_runs_hold_likely(tmp_path):
    program, out = "ensemble_squad.py", tmp_path / "out"
    done = fork_server.cold_python(
        program,
        f"--runs={','.join(two_runs(tmp_path))}",
        f"--output_dir={out}",
        f"--predict_file={write_data(tmp_path / 'dev.json', {'q': ['Eve']})}",
    )
    assert "f1 = 100" in done.stderr
    assert read(out, "predictions.json") == {"q": "Eve"}
    scores = {"exact_match": 100, "f1": 100, "total": 1}
    assert read(out, "metrics.json").items() >= scores.items()
    assert not (out / ODDS).exists()
    # A threshold that is given; its default would be none.
    flags = "--runs=a,b", "--output_dir=o", "--null_score_diff_threshold=0"
    bad = fork_server.cold_python(program, *flags, code=1)
    message = "error: --null_score_diff_threshold=0.0 needs --version_2_with_ne"
    assert bad.stderr.startswith(message), bad.stderr
