import json
import os

import pytest

from data.squad.articles import SquadData
from data.squad.records import make_records
from data.squad.window_options import WindowOptions
from data.squad.windows import Questions
from data.text.tokenization import FullTokenizer
from tests.data.squad.support import (
    GOLDEN,
    article,
    paragraph,
    question,
    read_golden,
    write,
    write_paragraph,
)
from tests.support.run_files import rows_in


@pytest.fixture
def path(tmp_path):
    return tmp_path / "out/windows.tf_record"


@pytest.fixture
def make(goldens, path):
    """Makes records in a folder of the test."""

    def run(
        data,
        is_training=True,
        version_2=False,
        vocab_file=f"{goldens}/vocab.txt",
        do_lower_case=True,
        windows=GOLDEN,
    ):
        tokenizer = FullTokenizer(vocab_file, do_lower_case)
        questions = Questions(data, tokenizer, windows, is_training, version_2)
        return make_records(questions, str(path))

    return run


@pytest.mark.parametrize("version", ["1.1", "2.0"])
def test_training_records_equal_the_original_s(goldens, make, path, version):
    data = read_golden(goldens, f"train-v{version}")
    report = make(data, version_2=version == "2.0")
    expected = rows_in(goldens / f"squad/train-v{version}.tf_record")
    assert rows_in(path) == expected
    assert report.num_examples == 48 and report.num_windows == len(expected)
    num_tokens = sum(sum(record["input_mask"]) for record in expected)
    assert report.num_tokens == num_tokens
    assert report.num_places == 96 * len(expected)


def test_records_to_predict_are_in_the_order_of_the_file(goldens, make, path):
    data = read_golden(goldens, "dev-v1.1")
    assert make(data, is_training=False).num_windows == 247
    made = rows_in(path)
    assert [record["unique_ids"] for record in made] == [
        [1_000_000_000 + i] for i in range(247)
    ]
    names = {"unique_ids", "input_ids", "input_mask", "segment_ids"}
    assert set(made[0]) == names


@pytest.fixture
def many(tmp_path):
    """Articles of several questions, one of them with an answer not found."""
    return write(
        tmp_path / "many.json",
        *(
            article(
                paragraph(
                    f"one two {i} four",
                    question(f"{i}a", "Which?", [("two", 4), ("one", 0)]),
                    question(f"{i}b", "Where? " * i, [("four", 4)]),
                ),
                paragraph(f"{i} is it", question(f"{i}c", "a", [("it", 5)])),
            )
            for i in range(10, 50)
        ),
    )


def test_what_became_of_the_questions_is_reported(make, many, path):
    report = make(many)
    assert report.num_examples == report.num_windows == 80
    assert report.num_several_answers == len(report.not_found) == 40
    assert str(report).startswith(
        "80 questions, 80 windows, 40 questions with several answers, 40 "
        "answers not found, padding "
    )
    lines = (path.parent / "answers_not_found.jsonl").read_text().splitlines()
    assert len(lines) == 40
    lost = {"qas_id": "10b", "answer": "four", "found": "two"}
    assert json.loads(lines[0]) == lost
    # Nothing is left out of a prediction; questions are cut.
    report = make(many, is_training=False)
    assert report.num_examples == 120 and len(report.not_found) == 0
    assert report.num_queries_cut == 40
    assert "40 questions cut to --max_query_length" in str(report)


def test_half_a_surrogate_pair_can_be_listed(make, path, tmp_path):
    asked = (
        question("1", "b?", [("b", 2)]),
        question("2", "?", [("中\ud800", 0)]),
    )
    data = write_paragraph(tmp_path / "odd.json", "a b", *asked)
    assert len(make(data).not_found) == 1
    text = (path.parent / "answers_not_found.jsonl").read_text("utf-8")
    assert '"answer": "中\\ud800"' in text
    assert json.loads(text)["answer"] == "中\ud800"


def test_the_list_goes_when_all_answers_are_found(make, many, path, tmp_path):
    make(many)
    asked = question("1", "b?", [("b", 2)])
    make(write_paragraph(tmp_path / "found.json", "a b", asked))
    assert not (path.parent / "answers_not_found.jsonl").exists()


def test_records_are_used_again_if_nothing_changed(make, many, path):
    first = make(many)
    written = os.stat(path).st_mtime_ns
    os.remove(path.parent / "answers_not_found.jsonl")
    again = make(many)
    assert os.stat(path).st_mtime_ns == written
    assert again.reused and str(again).endswith("written by an earlier run")
    assert len(again.not_found) == len(first.not_found) == 40
    assert (path.parent / "answers_not_found.jsonl").exists()


def test_records_are_made_again_if_anything_changed(
    make, many, goldens, tmp_path
):
    make(many)
    for change in [
        {"is_training": False},
        {"version_2": True},
        {"do_lower_case": False},
        {"windows": WindowOptions(95, 32, 16)},
        {"windows": WindowOptions(96, 31, 16)},
        {"windows": WindowOptions(96, 32, 15)},
    ]:
        assert not make(many, **change).reused, change
        assert make(many, **change).reused
    longer = tmp_path / "vocab.txt"
    longer.write_text((goldens / "vocab.txt").read_text() + "newword\n")
    make(many)
    assert not make(many, vocab_file=str(longer)).reused
    with open(many.name, "a") as file:
        file.write("\n")
    many = SquadData(many.name).read()
    assert not make(many, vocab_file=str(longer)).reused


@pytest.mark.parametrize(
    ("is_training", "questions", "message"),
    [
        (False, [], r"none.json has no question; give a file that has some"),
        (True, [], r"none.json has no question to train on; give a file that"),
        (True, [question("1", "a", [("b", 0)])], "1 answers are not at"),
    ],
)
def test_a_file_without_questions_is_an_error(
    make, path, tmp_path, is_training, questions, message
):
    data = write_paragraph(tmp_path / "none.json", "a b", *questions)
    with pytest.raises(ValueError, match=message):
        make(data, is_training)
    assert not path.exists()


def test_questions_on_empty_paragraphs_are_no_records(make, path, tmp_path):
    data = write_paragraph(tmp_path / "empty.json", " ", question("1"))
    report = make(data, is_training=False)
    assert (report.num_examples, report.num_windows) == (1, 0)
    assert "1 paragraphs without a word" in str(report)
    assert rows_in(path) == []


def test_the_first_windows_are_logged(make, many, logged):
    make(many)
    assert logged.text.count("*** Example ***") == 3
    assert "tokens: [CLS] wh ##ic ##h ? [SEP] one t ##w ##o " in logged.text
    assert "\nanswer: 7 to 9, t ##w ##o" in logged.text
