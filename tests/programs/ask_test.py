"""ask.py prints what bert.load answers, line by line."""

import functools
import json
import os

import pytest

import bert
from modeling import TaskModel
from tests.support import fork_server
from tests.support.model_folder_support import write_with
from tests.support.model_folders import write_questions, write_released
from tests.support.serving_support import finished_run
from training.export import asking

LINES = ["The man went to the store.", "", "Caf\u00e9 \u4e2d \u2028x", "a"]
KINDS = ["classification", "tagging"]


@pytest.fixture(scope="module")
def folders(goldens, tmp_path_factory):
    """Kind -> the folder of a model."""
    made = {
        "pretraining": write_released(
            goldens, tmp_path_factory.mktemp("released")
        ),
        "span": write_questions(goldens, tmp_path_factory.mktemp("span")),
    }
    for kind in KINDS:
        folder = tmp_path_factory.mktemp(kind)
        finished_run(goldens, folder, kind)
        made[kind] = str(folder)
    return made


@pytest.fixture(scope="module")
def loaded(folders):
    """Kind -> the model, as Python loads it."""
    return functools.cache(lambda kind: bert.load(folders[kind]))


@pytest.fixture
def ask(tmp_path):
    """Starts the program on lines."""

    def ask(folder, lines, *flags, code=0):
        path = tmp_path / "lines.txt"
        path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
        flags = f"--model={folder}", f"--input_file={path}", *flags
        return fork_server.python("ask.py", *flags, code=code)

    return ask


def answers_of(done):
    # U+2028 ends no line.
    return [json.loads(line) for line in done.stdout.split("\n")[:-1]]


JSON = "--format=jsonl"
TEXTS = [line for line in LINES if line]
MASKED = ["a [MASK] \u4e2d[MASK]"]
QUESTION = ("where did the man go?", "the man went to the store .")


@pytest.mark.all  # questions and classifications are asked below, too
@pytest.mark.parametrize(
    ("kind", "lines", "asked"),
    [
        ("classification", LINES, TEXTS),
        ("tagging", LINES, TEXTS),
        ("pretraining", MASKED, MASKED),
        ("span", ["\t".join(QUESTION)], [QUESTION]),
    ],
)
def test_the_program_prints_the_answers_of_python(
    ask, folders, loaded, kind, lines, asked
):
    answers = answers_of(ask(folders[kind], lines, "--format=jsonl"))
    assert [x.pop("text") for x in answers] == [x for x in lines if x]
    wanted = loaded(kind).ask(asked)
    for line, answer in zip(filter(None, lines), wanted, strict=True):
        assert line in asking.to_text(line, kind, answer)
    name = {"tagging": "entities", "pretraining": "fillings"}.get(kind)
    if name:
        wanted = [{name: answer} for answer in wanted]
    # The same program on the same batch; JSON keeps every digit.
    assert answers == wanted


@pytest.mark.parametrize(
    ("kind", "line", "asked", "answer", "text"),
    [
        (
            "multilabel",
            "a\tb",
            ("a", "b"),
            {"labels": ["x", "y"], "probabilities": {"x": 0.75, "y": 0.625}},
            "x,y\ta\tb",
        ),
        ("regression", "a", "a", {"score": 0.62506}, "0.6251\ta"),
        (
            "choice",
            "a\tb\tc\td",
            ("a", ["b", "c", "d"]),
            {"choice": "c", "score": 0.5, "probabilities": {"b": 0.25}},
            "c\t0.5000\ta\tb\tc\td",
        ),
        (
            "span",
            "a\tb\tc",
            ("a", "b\tc"),
            {"answer": "x\ny", "score": 0.5},
            "x y\t0.5000\ta\tb\tc",
        ),
    ],
)
def test_lines_of_the_other_kinds(kind, line, asked, answer, text):
    # python_answers_test has what their models answer.
    assert asking.asked_by(line, kind, None, "the line") == asked
    assert asking.to_text(line, kind, answer) == text
    assert json.loads(asking.to_json(line, kind, answer)) == {
        "text": line,
        **answer,
    }


@pytest.mark.all
def test_an_original_s_classifier_is_told_its_kind(ask, goldens, tmp_path):
    folder = write_with(
        goldens, tmp_path / "a", lambda x: TaskModel(x, "multilabel", 3)
    )
    answers = answers_of(ask(folder, ["a b"], "--kind=multilabel", JSON))
    (wanted,) = bert.load(folder, kind="multilabel").predict(["a b"])
    assert answers == [{"text": "a b"} | wanted]
    done = ask(folder, ["a b"], code=1)
    assert "does not say what it answers; pass kind=, one of" in done.stderr


@pytest.mark.all
def test_an_original_s_classifier_is_told_its_number_of_choices(
    ask, goldens, tmp_path
):
    # It has one row, whatever the number of choices.
    folder = write_with(
        goldens, tmp_path / "b", lambda x: TaskModel(x, "choice", 2)
    )
    flags = "--kind=choice", "--num_choices=2", JSON
    answers = answers_of(ask(folder, ["a\tb\tc"], *flags))
    (wanted,) = bert.load(folder, kind="choice", num_choices=2).predict(
        [("a", ["b", "c"])]
    )
    assert answers[0]["probabilities"] == wanted["probabilities"]


def test_standard_input_is_answered_for_people(folders, loaded, tmp_path):
    (tmp_path / "typed").write_bytes("\ufeffa\r\n\nCaf\u00e9".encode())
    folder = folders["classification"]
    done = fork_server.python(
        "ask.py", f"--model={folder}", stdin=tmp_path / "typed"
    )
    texts = ["a", "Caf\u00e9"]
    for line, text, answer in zip(
        done.stdout.splitlines(),
        texts,
        loaded("classification").predict(texts),
        strict=True,
    ):
        label, score, shown = line.split("\t")
        assert (label, shown) == (answer["label"], text)
        assert float(score) == pytest.approx(answer["score"], abs=5e-5)


def test_a_line_that_is_not_utf8_is_named(folders, tmp_path):
    (tmp_path / "typed").write_bytes(b"a\n\n\xff\nb\n")
    ours, theirs = os.openpty()
    # Ctrl-D ends what is typed.
    os.write(ours, b"a\n\n\xff\nb\n\x04")
    for stdin, code, shown in (
        (tmp_path / "typed", 1, []),
        (os.ttyname(theirs), 0, ["a", "b"]),
    ):
        model = f"--model={folders['classification']}"
        done = fork_server.python("ask.py", model, stdin=stdin, code=code)
        assert (
            "error: standard input, line 3: byte 1 of the line is 0xff, which "
            "is not UTF-8" in done.stderr
        )
        lines = done.stdout.splitlines()
        assert [line.split("\t")[2] for line in lines] == shown


@pytest.mark.all
def test_fillings_for_people(ask, folders):
    done = ask(folders["pretraining"], ["a [MASK] [MASK]"], "--top_k=2")
    first, *fillings = done.stdout.splitlines()
    assert first == "a [MASK] [MASK]"
    assert [line.count("%") for line in fillings] == [2, 2]


def test_questions_on_one_text(ask, folders, tmp_path):
    (tmp_path / "context.txt").write_text(QUESTION[1], "utf-8")
    done = ask(
        folders["span"],
        [QUESTION[0], "who?"],
        f"--context_file={tmp_path}/context.txt",
        "--format=jsonl",
    )
    answers = answers_of(done)
    assert [x.pop("text") for x in answers] == [QUESTION[0], "who?"]
    for answer in answers:
        assert [*answer] == ["answer", "start", "end", "score"]
        place = slice(answer["start"], answer["end"])
        assert answer["answer"] == QUESTION[1][place] != ""


@pytest.mark.parametrize(
    ("kind", "lines", "flags", "message"),
    [
        (
            "pretraining",
            ["", "a [MASK]", "b"],
            [],
            "lines.txt, line 3 is 'b' without a [MASK]; write one for each",
        ),
        (
            "span",
            ["who?"],
            [],
            "line 1 is a question without a text; write both with a tab "
            "between, or give --context_file: 'who?'.",
        ),
        (
            "tagging",
            ["a"],
            ["--top_k=3"],
            "--top_k=3 is for a model of the kind pretraining, but",
        ),
        (
            "tagging",
            ["a"],
            ["--context_file=ask.py"],
            "--context_file=ask.py is for a model of the kind span, but",
        ),
        (
            "classification",
            ["a", "a\tb\tc"],
            [],
            "lines.txt, line 2 is ('a', 'b', 'c'), expected text.",
        ),
        (
            "pretraining",
            ["[MASK]", "", "a " * 300 + "[MASK]"],
            [],
            "lines.txt, line 3 is 'a a a",
        ),
        ("tagging", ["a"], ["--context_file=no"], "no: no such text file."),
        ("tagging", ["a"], ["--input_file=no"], "no: no such text file."),
        ("tagging", ["a"], ["--model=no"], "'no': there is no such folder"),
        ("tagging", ["a"], ["--max_seq_length=2"], "it must be at least 3."),
    ],
)
def test_bad_input(ask, folders, kind, lines, flags, message):
    done = ask(folders[kind], lines, *flags, code=1)
    assert message in done.stderr
    assert not done.stdout
