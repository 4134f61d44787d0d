import json

import numpy as np
import pytest
import tensorflow_datasets as tfds

from data.squad.articles import SquadData
from data.squad.examples import read_examples
from tests.support.tfds_support import TEXT, prepare


def contents(path):
    return [content for _, content in SquadData(str(path)).read().articles]


def test_articles_are_those_of_json_load(goldens):
    path = goldens / "squad/dev-v2.0.json"
    with open(path, encoding="utf-8") as file:
        assert contents(path) == json.load(file)["data"]


def test_a_byte_order_mark_is_passed_over(tmp_path):
    (tmp_path / "bom.json").write_bytes(b'\xef\xbb\xbf{"data": [1]}')
    assert contents(tmp_path / "bom.json") == [1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "bad.json: Expecting value: line 1 column 1 .* whole"),
        ('{"data": [1, 2', "bad.json: Expecting ',' .* column 15"),
        ('{"data": [1, "abc', "bad.json: Unterminated string .* column 14"),
        ('{"data": []} {', "bad.json: Extra data: line 1 column 14"),
        ("[1]", r"bad.json holds \[1\], expected SQuAD's form"),
        ('{"data": {}}', r"bad.json holds {'data': {}}, expected SQuAD's"),
        ('{"version": 2}', "bad.json holds {'version': 2}, expected SQuAD's"),
        ('{"data": ["Café"]}', "bad.json: .* 0xe9 .* 14: .* UTF-8"),
    ],
)
def test_bad_json_is_an_error(tmp_path, text, message):
    path = tmp_path / "bad.json"
    path.write_text(text, "latin-1")
    with pytest.raises(ValueError, match=message):
        contents(path)


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="none.json: no such SQuAD fi"):
        contents(tmp_path / "none.json")


SQUAD = {
    **dict.fromkeys(("id", "title", "context", "question"), TEXT),
    "answers": tfds.features.Sequence({"text": TEXT, "answer_start": np.int32}),
    "is_impossible": np.bool_,
}


def row(number, context, texts, starts):
    return {
        "id": str(number),
        "title": "Cafés",
        "context": context,
        "question": f"Question {number}?",
        "answers": {"text": texts, "answer_start": starts},
        "is_impossible": not texts,
    }


def test_a_data_set_of_tfds_is_read_like_a_file(tmp_path):
    rows = [
        row(0, "Un café noir.", ["café noir", "noir"], [3, 8]),
        row(1, "Un café noir.", [], []),
        row(2, "Elsewhere.", ["Elsewhere"], [0]),
    ]
    folder = prepare(tmp_path, "my_squad", SQUAD, {"train": rows})
    data = SquadData(tfds="my_squad", tfds_data_dir=folder)
    assert data.read().name == "--tfds=my_squad, train"
    examples = sorted(
        read_examples(data.read(), True, True),
        key=lambda example: example.qas_id,
    )
    assert {example.paragraph.title for example in examples} == {"Cafés"}
    questions = [example.question_text for example in examples]
    assert questions == ["Question 0?", "Question 1?", "Question 2?"]
    assert [
        (
            example.orig_answer_text,
            example.start_position,
            example.end_position,
            example.is_impossible,
            example.answers,
        )
        for example in examples
    ] == [
        ("café noir", 1, 2, False, ("café noir", "noir")),
        ("", -1, -1, True, ()),
        ("Elsewhere", 0, 0, False, ("Elsewhere",)),
    ]
    assert len(data.read().sha256) == 64
    with pytest.raises(ValueError, match="--tfds=my_squad: there is no split"):
        SquadData(tfds="my_squad", tfds_data_dir=folder, split="x").read()


def test_a_data_set_of_another_kind_is_an_error(tmp_path):
    splits = {"train": [{"text": "a"}]}
    folder = prepare(tmp_path, "no_squad", {"text": TEXT}, splits)
    data = SquadData(tfds="no_squad", tfds_data_dir=folder)
    fault = "--tfds=no_squad, train, from question 1, .*Is it in SQuAD's form"
    with pytest.raises(ValueError, match=fault):
        list(read_examples(data.read()))
