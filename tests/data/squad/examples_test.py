import pytest
from hypothesis import example as case
from hypothesis import given
from hypothesis import strategies as st

from data.squad.examples import SquadReport, read_examples
from tests.data.squad import reference
from tests.data.squad.support import (
    article,
    paragraph,
    question,
    write,
    write_paragraph,
)

TRAIN = {"is_training": True}
TRAIN_2 = TRAIN | {"version_2_with_negative": True}
PREDICT = {}
PLACE = "squad.json, article 1"


@pytest.fixture
def read(tmp_path):
    """Reads a file of one paragraph, or of the articles given."""

    def run(options, *content, report=None):
        if isinstance(content[0], str):
            content = [article(paragraph(*content))]
        data = write(tmp_path / "squad.json", *content)
        return list(read_examples(data, report=report, **options))

    return run


def test_a_question_is_read_with_its_answer(read):
    (example,) = read(
        TRAIN,
        "  Ada\tlived \u202f near\nBonn.",
        question("7", "Where?", [("near\nBonn", 15)]),
    )
    assert example.qas_id == "7" and example.question_text == "Where?"
    assert example.paragraph.title == "A title"
    assert example.paragraph.context == "  Ada\tlived \u202f near\nBonn."
    assert example.paragraph.doc_tokens == ["Ada", "lived", "near", "Bonn."]
    assert example.paragraph.offsets == [2, 6, 14, 19]
    assert (example.start_position, example.end_position) == (2, 3)
    assert example.orig_answer_text == "near\nBonn"
    assert example.answers == ("near\nBonn",)
    assert not example.is_impossible


def test_questions_on_a_paragraph_share_it(read):
    first, second = read(PREDICT, "a b", question("1"), question("2"))
    assert first.paragraph is second.paragraph


@given(st.text("ab \t\r\n\u202f\xa0\u3000\x0b", max_size=20) | st.text())
@case(" a\x1cb\u2028c ")
def test_words_are_the_original_s(tmp_path_factory, context):
    path = tmp_path_factory.mktemp("words") / "a.json"
    (example,) = read_examples(write_paragraph(path, context, question("1")))
    assert example.paragraph.doc_tokens == reference.split_words(context)
    for word, offset in zip(
        example.paragraph.doc_tokens, example.paragraph.offsets, strict=True
    ):
        assert context[offset:].startswith(word)


def test_answers_are_not_needed_to_predict(read):
    one, two, three, four = read(
        PREDICT,
        "a b",
        question("1"),
        question("2", answers=[]),
        question("3", answers=[("b", 999), ("a", -1)], is_impossible=True),
        question("4", is_impossible=True),
    )
    assert one.answers is None
    assert two.answers == four.answers == ()
    assert three.answers == ("b", "a")
    # As the original: read only for training.
    assert not three.is_impossible and three.start_position is None


# The second is Hugging Face's form.
@pytest.mark.parametrize("fields", [{"is_impossible": True}, {}])
def test_an_unanswerable_question_has_no_place(read, fields):
    (example,) = read(TRAIN_2, "a b", question("1", answers=[], **fields))
    assert example.is_impossible and example.orig_answer_text == ""
    assert example.start_position == example.end_position == -1


def test_the_first_of_several_answers_is_trained_on(read):
    report = SquadReport()
    (example,) = read(
        TRAIN, "a b", question("1", answers=[("b", 2), ("a", 0)]), report=report
    )
    assert example.start_position == 1 and example.orig_answer_text == "b"
    assert example.answers == ("b", "a")
    assert report.num_several_answers == 1


def test_answers_not_found_are_left_out_and_reported(read, caplog):
    report = SquadReport()
    examples = read(
        TRAIN,
        " Ada lived in Bonn.",
        question("found", answers=[("Bonn", 14)]),
        question("shifted", answers=[("Bonn", 5)]),
        question("spaces", answers=[(" ", 4)]),
        question("empty", answers=[("", 1)]),
        question("leading", answers=[("A", 0)]),
        report=report,
    )
    assert [example.qas_id for example in examples] == ["found"]
    assert report.not_found == [
        {"qas_id": "shifted", "answer": "Bonn", "found": "lived"},
        {"qas_id": "spaces", "answer": " ", "found": "Ada"},
        {"qas_id": "empty", "answer": "", "found": ""},
        {"qas_id": "leading", "answer": "A", "found": ""},
    ]
    # The original's words.
    assert "Could not find answer: 'lived' vs. 'Bonn'" in caplog.text


@pytest.mark.parametrize(
    ("context", "answer", "first", "words"),
    [
        ("  word", "  word", 0, (0, 0)),
        ("  word", " word", 1, (0, 0)),
        ("\n one two three", " one two", 1, (0, 1)),
        ("\u202f\t one two", "\u202f\t one two", 0, (0, 1)),
        # Its end, and not its first character, is in the white space.
        ("one two \n", "two \n", 4, (1, 1)),
        ("one  two", "  two", 3, (0, 1)),
        ("  one ", "  one ", 0, (0, 0)),
        # A part of a word.
        ("In (1895-1943).", "1895", 4, (1, 1)),
    ],
)
def test_an_answer_may_begin_or_end_in_white_space_or_a_word(
    read, context, answer, first, words
):
    (example,) = read(TRAIN, context, question("1", answers=[(answer, first)]))
    assert (example.start_position, example.end_position) == words
    assert example.orig_answer_text == answer


def test_empty_paragraphs_and_questions_are_counted(read):
    report = SquadReport()
    empty = paragraph("", question("1")), paragraph(" \n", question("2", " "))
    examples = read(PREDICT, article(*empty), report=report)
    assert [example.paragraph.doc_tokens for example in examples] == [[], []]
    assert report == SquadReport(num_empty_paragraphs=2, num_empty_questions=1)


@pytest.mark.parametrize(
    ("context", "answer", "start"),
    [("a b", "b", 3), ("a b", "b", -1), ("a b", "b c", 2), ("", "a", 0)],
)
def test_an_answer_outside_the_text_is_an_error(read, context, answer, start):
    place = rf"{PLACE}, paragraph 1, question 1 \(id 'x'\)"
    fault = f"{place}: answer '{answer}' begins at character {start} "
    with pytest.raises(ValueError, match=fault):
        read(TRAIN, context, question("x", answers=[(answer, start)]))


@pytest.mark.parametrize(
    ("options", "answers", "fields", "remedy"),
    [
        (TRAIN, None, {}, "give it one"),
        (TRAIN, [], {}, "pass --version_2_with_negative"),
        (TRAIN_2, None, {}, "give it one"),
        (TRAIN_2, [], {"is_impossible": False}, "give it one"),
        (TRAIN, [], {"is_impossible": True}, "pass --version_2_with_negative"),
    ],
)
def test_a_question_without_answer_cannot_be_trained_on(
    read, options, answers, fields, remedy
):
    asked = question("x", answers=answers, **fields)
    with pytest.raises(ValueError, match=f"'x'.: there is no answer.*{remedy}"):
        read(options, "a b", asked)


@pytest.mark.parametrize("options", [TRAIN, TRAIN_2])
@pytest.mark.parametrize("value", ["False", "true", "", 0, 1, None])
def test_only_true_and_false_say_whether_a_question_is_impossible(
    read, options, value
):
    asked = question("x", answers=[("a", 0)], is_impossible=value)
    fault = f"'x'.: is_impossible is {value!r}, expected .*; correct the file"
    with pytest.raises(ValueError, match=fault):
        read(options, "a b", asked)


def test_an_id_that_is_a_number_becomes_text(read):
    asked = question("x", answers=[("a", 0)]) | {"id": 51870}
    (example,) = read(TRAIN, "a b", asked)
    assert example.qas_id == "51870"


def test_an_id_that_comes_twice_is_an_error(read):
    articles = [article(paragraph("a", question("7")))] * 2
    with pytest.raises(ValueError, match="json: two questions have the id '7'"):
        read(PREDICT, *articles)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (7, ": paragraphs is None, expected a list.* It is 7"),
        ({"title": "x"}, ": paragraphs is None, expected a list"),
        ({"paragraphs": {}}, ": paragraphs is {}, expected a list"),
        (article({}), ", paragraph 1: context is None, expected a text"),
        (article({"context": "a"}), ", paragraph 1: qas is None, expected a l"),
    ],
)
def test_another_form_is_an_error(read, content, message):
    with pytest.raises(ValueError, match=PLACE + message):
        read(TRAIN, content)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"question": "b"}, ": id is None, expected a text"),
        (question("7", None), r" \(id '7'\): question is None, expected"),
        (question("7", answers=[(None, 0)]), ".*: text is None, .*SQuAD's"),
        (question("7", answers=[("a", True)]), ".*: answer_start is True"),
    ],
)
def test_a_question_of_another_form_is_an_error(read, asked, message):
    place = f"{PLACE}, paragraph 1, question 1"
    with pytest.raises(ValueError, match=place + message):
        read(TRAIN, "a", asked)
