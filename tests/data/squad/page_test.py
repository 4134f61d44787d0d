import pytest

from data.squad.examples import Paragraph, SquadExample
from data.squad.page import write_page
from data.squad.predictions import Answer, Prediction
from data.squad.scoring import QuestionScore
from tests.support.pages_support import Page


def prediction(context, text="", start=None, *, qas_id="q", answers=(), **more):
    """A question whose answer begins at a character."""
    end = None if start is None else start + len(text)
    paragraph = context
    if isinstance(context, str):
        paragraph = Paragraph("Title", context, context.split(), [])
    example = SquadExample(
        qas_id, more.pop("question", "Who?"), paragraph, answers=answers
    )
    best = Answer(text, 0.75, 2.0, 1.0, start, end)
    other = Answer("other", 0.25, 1.0, 1.0)
    return Prediction(example, text, [best, other], more.get("diff"))


def write(tmp_path, *added):
    path = tmp_path / "page.html"
    write_page(str(path), "dev.json, step 7", added)
    return Page(path)


def test_all_of_a_question_is_there(tmp_path):
    given = ("Ada", "Ada", "Lovelace")
    asked = {"question": "Who wrote it?", "answers": given, "diff": -3.25}
    answered = prediction("Ada wrote it.", "Ada", 0, **asked)
    page = write(tmp_path, (answered, QuestionScore(1.0, 1.0)))
    answer = {"text": "Ada", "probability": 0.75, "start": 0, "end": 3}
    assert page.items == [
        {
            "title": "Title",
            "context": "Ada wrote it.",
            "questions": [
                {
                    "id": "q",
                    "question": "Who wrote it?",
                    "answer": answer,
                    "others": [{"text": "other", "probability": 0.25}],
                    "diff": -3.25,
                    "given": ["Ada", "Lovelace"],
                    "exact": 1.0,
                    "f1": 1.0,
                }
            ],
        }
    ]
    assert "<title>dev.json, step 7</title>" in page.text


def test_what_is_not_known_is_left_out(tmp_path):
    page = write(tmp_path, (prediction("Text.", answers=None), None))
    (question,) = page.items[0]["questions"]
    assert question.keys() == {"id", "question", "answer", "others"}
    assert question["answer"] == {"text": "", "probability": 0.75}


def test_a_paragraph_is_written_once(tmp_path):
    first = prediction("The first text.").example.paragraph
    second = prediction("The second text.").example.paragraph
    added = [
        (prediction(paragraph, qas_id=str(i)), None)
        for i, paragraph in enumerate([first] * 3 + [second] * 2)
    ]
    page = write(tmp_path, *added)
    assert page.text.count("The first text.") == 1
    one, other = (paragraph["questions"] for paragraph in page.items)
    assert [question["id"] for question in one] == ["0", "1", "2"]
    assert [question["id"] for question in other] == ["3", "4"]


def test_the_script_loads_nothing_and_shows_text_as_text(tmp_path):
    # error_page_test has hostile texts.
    write(tmp_path, (prediction("Text."), None)).check_script()


def test_a_script_s_characters_are_counted(tmp_path):
    # U+1F600 is two of a script's characters, the others one.
    context = "\U0001f600\U0001f600 caf\u00e9 \u05d0\u05d1 Ada"
    start = context.index("Ada")
    page = write(tmp_path, (prediction(context, "Ada", start), None))
    (question,) = page.items[0]["questions"]
    answer, units = question["answer"], context.encode("utf-16-le")
    found = units[2 * answer["start"] : 2 * answer["end"]]
    assert found.decode("utf-16-le") == "Ada"
    assert answer["start"] == start + 2


def test_half_of_a_pair_does_not_stop_the_page(tmp_path):
    # JSON can hold it, UTF-8 cannot.
    page = write(tmp_path, (prediction("a \ud800 b", "b", 4), None))
    assert page.items[0]["context"] == "a ? b"
    (question,) = page.items[0]["questions"]
    assert question["answer"]["start"] == 4


def test_a_page_of_no_question_is_one(tmp_path):
    assert write(tmp_path).items == []


def test_an_interrupted_page_does_not_appear(tmp_path):

    def interrupted():
        yield prediction("Text."), None
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write_page(str(tmp_path / "page.html"), "t", interrupted())
    assert not list(tmp_path.iterdir())
