"""The small corpus: English kept, code dropped, evaluation kept apart."""

import string

import pytest

from data.pretraining import corpus

DOCSTRING = """Reads a file.

    The :func:`~os.stat` of the *first* file is ``None`` [3]_.  Files that
    are empty, e.g. new ones, are left out!  For example::

        with open(path) as code:
            code.read()  # This is code and must not be taken.

    After the code block the text goes on.

    >>> read("a.txt")
    'This is output and must not be taken.'

    A Title
    -------
    - The first entry of a list
      goes over two lines.
    - The second entry is short.
    """


def make_documents(num_documents, sentences_each=6):
    return [
        [f"Document {i} has a sentence {j}." for j in range(sentences_each)]
        for i in range(num_documents)
    ]


def sentences_of(documents):
    return [sentence for document in documents for sentence in document]


def test_code_and_markup_are_left_out():
    assert corpus.clean_paragraphs(DOCSTRING) == [
        "Reads a file.",
        "The os.stat of the first file is None. Files that are empty, e.g. new "
        "ones, are left out! For example::",
        "After the code block the text goes on.",
        "The first entry of a list goes over two lines.",
        "The second entry is short.",
    ]


@pytest.mark.parametrize(
    ("marked", "plain"),
    [
        (":class:`Popen` starts it", "Popen starts it"),
        ("the `text <https://x.org/a>`_ here", "the text here"),
        ("**very** *important* |x|", "very important x"),
        ("2 * 3 * 4 stays", "2 * 3 * 4 stays"),
        ("as told [12] there", "as told there"),
    ],
)
def test_marks_are_stripped(marked, plain):
    assert corpus.clean_paragraphs(marked) == [plain]


@pytest.mark.parametrize(
    ("sentence", "is_english"),
    [
        ("Return the number of items in a list.", True),
        ('The "yield" statement (see below) suspends it.', True),
        ("Return the number of items in a list", False),
        ("return the number of items in a list.", False),
        ("Too short a.", False),
        ("X = foo(a, b) if c[0] else d.", False),
    ],
)
def test_only_english_sentences_count(sentence, is_english):
    assert corpus.is_english_sentence(sentence) == is_english


def test_module_prose_is_docstrings_and_comments_in_order(tmp_path):
    path = tmp_path / "module.py"
    path.write_text(
        '"""First."""\n# Second,\n#   more.\nclass A:\n    "Third."\n'
        "x = 1  # not a block\n# Fourth."
    )
    assert corpus._prose_of_module(path) == (
        ["First.", "Second,\n  more.", "Third.", "Fourth."]
    )
    path.write_text("def broken(:\n")
    assert corpus._prose_of_module(path) == []


def test_python_documents_are_english_and_deterministic(tmp_path, monkeypatch):
    # A standard library of three modules and a test folder.
    (tmp_path / "test").mkdir()
    for name in ("b.py", "a.py", "c.py", "test/d.py"):
        (tmp_path / name).write_text(
            f'"""The module {name} has this sentence. It has two."""\n'
            "# The same license stands in every single module.\n"
        )
    monkeypatch.setattr(corpus.sysconfig, "get_path", lambda _: str(tmp_path))
    documents = list(corpus.python_documents())
    assert documents == list(corpus.python_documents())
    modules = documents[len(corpus.topics.topics) :]
    assert [d[0] for d in modules] == [
        f"The module {name}.py has this sentence." for name in "abc"
    ]
    assert [len(d) for d in modules] == [2, 1, 1]  # the license only once
    sentences = sentences_of(documents)
    assert len(sentences) > 2000  # Python 3.11's 79 topics give about 3,000
    assert not [s for s in sentences if ">>>" in s or "\n" in s]


def test_training_and_evaluation_share_no_sentence():
    documents = make_documents(50)
    for i, document in enumerate(documents):
        document.append("This stands in all of them.")
        document.append(f"DOCUMENT {(i * 7) % 50} has... a sentence 0")
    train, evaluation = corpus.split_train_eval(documents)
    known = set(map(corpus.normalize, sentences_of(train)))
    assert known.isdisjoint(map(corpus.normalize, sentences_of(evaluation)))
    assert len(train) == 45 and 1 <= len(evaluation) <= 5
    assert all(len(document) >= 2 for document in train + evaluation)


def test_place_of_a_document_depends_on_its_text_alone():
    documents = make_documents(60)
    _, evaluation = corpus.split_train_eval(documents)
    _, from_reversed = corpus.split_train_eval(reversed(documents))
    assert from_reversed == evaluation[::-1] and len(evaluation) == 6


def test_documents_of_one_sentence_are_dropped():
    documents = make_documents(30) + [["Alone in the world."]]
    train, evaluation = corpus.split_train_eval(documents)
    assert sorted(train + evaluation) == sorted(documents[:-1])


def test_text_that_repeats_itself_cannot_be_evaluated():
    documents = [["The same again.", "And the same again."]] * 40
    with pytest.raises(ValueError, match="40 documents give .* 0 for evaluat"):
        corpus.split_train_eval(documents)


def test_text_with_one_sentence_a_line_stays_as_it_is():
    documents = make_documents(40)
    lines = "\n\n".join(map("\n".join, documents)).split("\n")
    assert corpus.text_documents(lines) == documents
    # Thai has no stops: nothing says that lines are wrapped.
    documents = [[line.rstrip(".") for line in x] for x in documents]
    lines = [line.rstrip(".") for line in lines]
    assert corpus.text_documents(lines) == documents


def test_wrapped_text_is_joined_and_cut_into_documents():
    sentences = [
        f"The {word} sentence is wrapped over\nthe end of its line."
        for word in made_up_words(1000)
    ]
    paragraphs = [
        " ".join(sentences[i : i + 2]) for i in range(0, len(sentences), 2)
    ]
    documents = corpus.text_documents("\n\n".join(paragraphs).split("\n"))
    assert [len(document) for document in documents] == [50] * 20
    assert sentences_of(documents) == [s.replace("\n", " ") for s in sentences]


def made_up_words(number):
    letters = string.ascii_lowercase
    return [letters[i % 26] + letters[i // 26 % 26] * 9 for i in range(number)]


def test_written_documents_are_parted_by_blank_lines(tmp_path, monkeypatch):
    train, held_out = [["A b.", "C d."], ["E f.", "G h."]], [["I j.", "K l."]]
    monkeypatch.setattr(corpus, "python_documents", lambda: train + held_out)
    monkeypatch.setattr(corpus, "split_train_eval", lambda _: (train, held_out))
    paths = tmp_path / "train.txt", tmp_path / "eval.txt"
    corpus.write(*map(str, paths), text=None)
    assert paths[0].read_text() == "A b.\nC d.\n\nE f.\nG h.\n"
    assert paths[1].read_text() == "I j.\nK l.\n"
