import json

import pytest

from data.tasks import ChoiceExample, get_task
from tests.data.tasks.fixtures import FOLDERS, RACE, race_files, write_files


def test_swag_puts_the_beginning_before_each_ending(tmp_path):
    swag = get_task("swag", write_files(tmp_path, FOLDERS["swag"]))
    assert list(swag.examples("dev"))[2] == ChoiceExample(
        "dev-3",
        ["A man, a dog."] * 4,
        ["He runs", "He sits, still", "He is", "He has"],
        "2",
    )
    assert swag.gold("test") is None
    assert swag.gold("train").tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("missing", ["ending3", "sent1"])
def test_swag_without_a_column_is_refused(tmp_path, missing):
    """In its place, by number, is the label or another column."""
    header, row, *_ = FOLDERS["swag"]["train.csv"].splitlines()
    place = header.split(",").index(missing)
    lines = [x.split(",") for x in (header, "0,v,1,s,one,two,gold,a,b,c,d,1")]
    text = "\n".join(",".join(x[:place] + x[place + 1 :]) for x in lines)
    swag = get_task("swag", write_files(tmp_path, {"train.csv": text}))
    with pytest.raises(ValueError, match=f"no column '{missing}'.* it has"):
        list(swag.examples("train"))


def test_codah_is_split_the_same_at_every_start(tmp_path):
    codah = get_task("codah", write_files(tmp_path, FOLDERS["codah"]))
    starts = {
        name: [int(e.contexts[0].split()[1]) for e in codah.examples(name)]
        for name in ("train", "dev", "test")
    }
    assert starts == {
        "train": [*range(8), *range(10, 18)],
        "dev": [8, 18],
        "test": [9, 19],
    }
    assert next(codah.examples("test")) == ChoiceExample(
        "test-9", ["I 9"] * 4, ["run", "sit", "do", "am"], None
    )


def test_codah_s_released_name(tmp_path):
    (lines,) = FOLDERS["codah"].values()
    codah = get_task("codah", write_files(tmp_path, {"full_data.tsv": lines}))
    assert len(list(codah.examples("train"))) == 16


@pytest.fixture
def race(tmp_path):
    return get_task("race", write_files(tmp_path, race_files()))


def test_race_fills_gaps_and_appends_to_questions(race):
    article = ["The old house."] * 4
    filled = [f"It is {option} ." for option in RACE["options"][0]]
    asked = [f"What is old? {option}" for option in "abcd"]
    assert race.cut == "first"
    assert list(race.examples("dev_high")) == [
        ChoiceExample("high1.txt-0", article, filled, "A"),
        ChoiceExample("high1.txt-1", article, asked, "C"),
    ]


def test_race_has_sets_of_both_schools_and_of_each(race):
    guids = {
        name: [example.guid for example in race.examples(name)]
        for name in race.test_sets
    }
    assert guids["test"] == guids["test_middle"] + guids["test_high"]
    assert len(guids["test_middle"]) == 2


@pytest.mark.parametrize("name", ["RACE, both", "RACE[1]", "RA*CE"])
def test_a_race_folder_may_have_any_name(tmp_path, name):
    race = get_task("race", write_files(tmp_path / name, race_files()))
    assert len(list(race.examples("dev"))) == 4


def article(**changed):
    return json.dumps(RACE | {"id": "x"} | changed)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (article(answers=["A"]), r"questions, .* \[2, 2, 1\]; expected"),
        (article(answers=["A", "E"]), "question 2: .* 'E', .* one of A, B"),
        (article(answers="AC"), "expected a text"),
        (article(options=[["a"] * 4, ["b"]]), r"n 2: .*\['b'\].* 4 texts"),
        (article(options=["abcd", "efgh"]), "question 1: .*'abcd'.* 4 texts"),
        (article(options=[["a"] * 4, [1, 2, 3, 4]]), "n 2: .* 4 texts"),
        (article(article=None), "expected a text"),
        (article(questions=["It is _ .", None]), "n 2: .*expected a text"),
        ("{", " is damaged: .*; expected article, questions, options"),
        ('{"id": "x"}', " is damaged: .*no article, questions, options, ans"),
    ],
)
def test_a_wrong_article_is_an_error_with_its_file(tmp_path, text, message):
    files = race_files() | {"dev/middle/1.txt": text}
    race = get_task("race", write_files(tmp_path, files))
    with pytest.raises(ValueError, match=f"dev/middle/1.txt.*{message}"):
        list(race.examples("dev"))
