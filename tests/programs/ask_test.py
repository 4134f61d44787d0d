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


@pytest.fixture(scope="module")
def folders(goldens, tmp_path_factory):
    """Kind -> the folder of a model."""
    kinds = "pretraining", "span", "classification", "tagging"
    made = {kind: tmp_path_factory.mktemp(kind) for kind in kinds}
    write_released(goldens, made["pretraining"])
    write_questions(goldens, made["span"])
    for kind in kinds[2:]:
        finished_run(goldens, made[kind], kind)
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
    answers = answers_of(ask(folders[kind], lines, JSON))
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
    written = json.loads(asking.to_json(line, kind, answer))
    assert written == {"text": line, **answer}


@pytest.mark.all
def test_a_released_classifier_is_told_its_kind(ask, goldens, tmp_path):
    # Of choices it has one row, whatever their number.
    for kind, size, line, asked in (
        ("multilabel", 3, "a b", "a b"),
        ("choice", 2, "a\tb\tc", ("a", ["b", "c"])),
    ):
        make_model = functools.partial(TaskModel, kind=kind, num_labels=size)
        folder = write_with(goldens, tmp_path / kind, make_model)
        flags = {"num_choices": size} if kind == "choice" else {}
        flags["kind"] = kind
        (wanted,) = bert.load(folder, **flags).predict([asked])
        flags = [f"--{name}={value}" for name, value in flags.items()]
        answers = answers_of(ask(folder, [line], *flags, JSON))
        assert answers == [{"text": line} | wanted]
        done = ask(folder, [line], code=1)
        assert "does not say what it answers; pass kind=, one of" in done.stderr


def test_standard_input_is_answered_for_people(folders, loaded, tmp_path):
    (tmp_path / "typed").write_bytes("\ufeffa\r\n\nCaf\u00e9".encode())
    model = f"--model={folders['classification']}"
    done = fork_server.python("ask.py", model, stdin=tmp_path / "typed")
    texts = ["a", "Caf\u00e9"]
    lines = done.stdout.splitlines()
    answers = loaded("classification").predict(texts)
    for line, text, answer in zip(lines, texts, answers, strict=True):
        label, score, shown = line.split("\t")
        assert (label, shown) == (answer["label"], text)
        assert float(score) == pytest.approx(answer["score"], abs=5e-5)


@pytest.mark.all
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
        assert "standard input, line 3: byte 1 of the line" in done.stderr
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
        JSON,
    )
    answers = answers_of(done)
    assert [x.pop("text") for x in answers] == [QUESTION[0], "who?"]
    for answer in answers:
        assert [*answer] == ["answer", "start", "end", "score"]
        place = slice(answer["start"], answer["end"])
        assert answer["answer"] == QUESTION[1][place] != ""


LONG = "a " * 300 + "[MASK]"
CONTEXT = "--context_file=ask.py"


@pytest.mark.parametrize(
    ("kind", "lines", "flags", "message"),
    [
        (
            "pretraining",
            ["", "a [MASK]", "b"],
            [],
            "lines.txt, line 3 is 'b' without a [MASK]; write one for each",
        ),
        ("pretraining", ["[MASK]", "", LONG], [], "line 3 is 'a a a"),
        ("span", ["who?"], [], "or give --context_file: 'who?'."),
        ("classification", ["a", "a\tb\tc"], [], "line 2 is ('a', 'b', 'c'), "),
        ("tagging", ["a"], ["--top_k=3"], "--top_k=3 is for a model of the"),
        ("tagging", ["a"], ["--num_choices=2"], "num_choices=2 is for a mode"),
        ("tagging", ["a"], [CONTEXT], f"{CONTEXT} is for a model of the kind"),
        ("tagging", ["a"], ["--input_file=no"], "no: no such text file."),
        ("tagging", ["a"], ["--model=no"], "'no': there is no such folder"),
        ("tagging", ["a"], ["--max_seq_length=2"], "it must be at least 3."),
    ],
)
def test_bad_input(ask, folders, kind, lines, flags, message):
    done = ask(folders[kind], lines, *flags, code=1)
    assert message in done.stderr
    assert not done.stdout
