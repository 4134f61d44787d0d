import json

from data.finetuning.error_page import Judged, write_page
from tests.support.pages_support import HOSTILE, Page


def judged(text="A text.", **changes):
    values = {
        "id": "dev-1",
        "texts": [text],
        "choices": (),
        "gold": "yes",
        "prediction": "no",
        "right": False,
        "loss": 1.23456,
        "scores": [("no", 0.75), ("yes", 0.25)],
    }
    return Judged(**values | changes)


def write(tmp_path, *examples, title="tsv, dev, step 7"):
    path = tmp_path / "errors.html"
    write_page(str(path), title, examples)
    return Page(path)


def test_all_of_an_example_is_there(tmp_path):
    page = write(tmp_path, judged(scores=[("yes", 0.25), ("no", 0.74999)]))
    assert page.items == [
        {
            "id": "dev-1",
            "texts": ["A text."],
            "gold": "yes",
            "prediction": "no",
            "loss": 1.2346,
            "scores": [["no", 0.75], ["yes", 0.25]],
            "right": False,
        }
    ]
    assert "<title>tsv, dev, step 7</title>" in page.text


def test_what_does_not_apply_is_left_out(tmp_path):
    page = write(
        tmp_path,
        judged(right=None, scores=[], gold="1.5", prediction="2"),
        judged(choices=("one", "two"), scores=[("A", 0.25), ("B", 0.75)]),
        judged(scores=[(str(i), i / 100) for i in range(9)]),
    )
    number, choice, many = page.items
    assert "right" not in number and number["scores"] == []
    # By the names of the labels, which gold and prediction are, too.
    assert choice["choices"] == [["A", "one"], ["B", "two"]]
    assert choice["scores"] == [["B", 0.75], ["A", 0.25]]
    assert [label for label, _ in many["scores"]] == ["8", "7", "6", "5", "4"]


def test_hostile_text_stays_text(tmp_path):
    plain = write(tmp_path, judged())
    plain.check_script()
    hostile = judged(
        HOSTILE,
        id=HOSTILE,
        gold=HOSTILE,
        prediction=HOSTILE,
        choices=(HOSTILE,),
        scores=[(HOSTILE, 1.0)],
    )
    page = write(tmp_path, hostile, title=HOSTILE.split(" {{")[0])
    page.check_is_safe(plain)
    (item,) = page.items
    for text in (
        *(item["id"], item["gold"], item["prediction"], *item["texts"]),
        *(*item["choices"][0], item["scores"][0][0]),
    ):
        assert text == HOSTILE


def test_the_page_has_the_thresholds(tmp_path):
    path = tmp_path / "errors.html"
    found = {"temperature": 1.5, "thresholds": {"yes": {"threshold": 0.3}}}
    write_page(str(path), "title", [judged()], found)
    assert json.dumps({"calibrated": found}) in path.read_text()
