"""A small corpus in two parts, from a text or from Python's documentation.

That is the language reference (`pydoc_data.topics`) and the docstrings and
block comments of the standard library, without code, tables and markup. The
parts have one sentence on each line and a blank line between documents. No
sentence is in both.
"""

import ast
import hashlib
import inspect
import itertools
import pathlib
import re
import sysconfig
import tokenize
import warnings
from collections.abc import Iterable, Iterator
from pydoc_data import topics

from absl import logging

from data.pretraining.sentences import STOPS, split_sentences
from data.storage import files, outputs

Document = list[str]  # sentences

_SKIPPED = {"dist-packages", "idlelib", "site-packages", "test", "tests"}
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_EVAL_SHARE = 0.1
_MIN_SENTENCES = 200
_MIN_DOCUMENTS = 20
_MAX_SENTENCES_PER_DOCUMENT = 50  # if the text has no documents

_UNDERLINE = re.compile(r"([=\-~^*+#.'\"])\1{2,}$")
_BULLET = re.compile(r"(?:[*•o+-]|\(?\w{1,2}[.)]|:\w[^:]*:|\.\.)\s+")
_MARKUP = (
    (re.compile(r":[\w:]+:`~?([^`<]+?)(?:\s*<[^`>]*>)?`"), r"\1"),  # :func:`x`
    (re.compile(r"(`{1,2}|\*{1,2}|\|)(?=\S)([^`*|]+?)(?<=\S)\1_{0,2}"), r"\2"),
    (re.compile(r"\s*(?:\[[#\d]+\]_?|<https?:[^>]*>)"), ""),  # notes, links
)
# A semicolon asks in Greek only.
_STOP = f"[{STOPS.replace(';', '')}]"
_ENDS_LIKE_SENTENCE = re.compile(_STOP + r"[\"')\]”’」』）]*$")
_PLAIN_WORD = re.compile(
    r"""["'(]*[A-Za-z]+(?:['’/-][A-Za-z]+)*["')]*[,.;:!?]*["')]*"""
)


def clean_paragraphs(text: str) -> list[str]:
    r"""Returns the paragraphs of a reStructuredText without code and markup.

    Literal blocks (indented after a line that ends in a colon), interactive
    sessions (`>>>`), underlined titles and directives are removed. Each list
    entry becomes a paragraph. Each paragraph is one line.
    """
    paragraphs = []
    literal_above = None  # indentation of the line that opened a code block
    for block in re.split(r"\n\s*\n", inspect.cleandoc(text)):
        lines = block.strip("\n").split("\n")
        indents = [len(line) - len(line.lstrip()) for line in lines]
        if literal_above is not None and indents[0] > literal_above:
            continue
        opens_literal = lines[-1].rstrip().endswith(":")
        literal_above = indents[-1] if opens_literal else None
        paragraphs.extend(map(_strip_markup, _join_lines(lines)))
    return paragraphs


def is_english_sentence(sentence: str) -> bool:
    """Whether a text is a sentence of 4 to 100 mostly plain words."""
    words = sentence.split()
    num_plain = sum(map(bool, map(_PLAIN_WORD.fullmatch, words)))
    return (
        num_plain >= 4
        and num_plain >= 0.8 * len(words)
        and len(words) <= 100
        and bool(re.match(r"[\"'(]*[A-Z]", sentence))
        and bool(_ENDS_LIKE_SENTENCE.search(sentence))
    )


def python_documents() -> Iterator[Document]:
    """Yields a document for each topic and each module of this Python."""
    seen = set()

    def sentences_of(texts: Iterable[str]) -> Document:
        new = [text for text in dict.fromkeys(texts) if text not in seen]
        seen.update(new)
        return [
            sentence
            for text in new
            for paragraph in clean_paragraphs(text)
            for sentence in split_sentences(paragraph)
            if is_english_sentence(sentence)
        ]

    for _, text in sorted(topics.topics.items()):
        yield sentences_of([text])
    root = pathlib.Path(sysconfig.get_path("stdlib"))
    for path in sorted(root.rglob("*.py")):
        if not _SKIPPED.intersection(path.relative_to(root).parts):
            yield sentences_of(_prose_of_module(path))


def text_documents(lines: Iterable[str]) -> list[Document]:
    """Divides a user's text into documents of at least 2 sentences.

    Blank lines separate documents. If that gives fewer than 20 documents, or
    fewer than 5 sentences each, blank lines separate paragraphs, and the text
    is divided into equal documents. Wrapped lines, which mostly do not end like
    sentences, are joined. Raises ValueError for fewer than 200 sentences.
    """
    documents = []
    for is_text, block in itertools.groupby(map(str.strip, lines), bool):
        if is_text:
            parts = list(block)
            ends = list(filter(_ENDS_LIKE_SENTENCE.search, parts))
            # Without any stop, as in Thai, a line is a sentence.
            if 0 < 2 * len(ends) < len(parts):
                parts = [" ".join(parts)]
            found = map(split_sentences, parts)
            documents.append(list(itertools.chain.from_iterable(found)))
    sentences = [sentence for document in documents for sentence in document]
    if len(sentences) < _MIN_SENTENCES:
        raise ValueError(
            f"the text has {len(sentences)} sentences in {len(documents)} "
            f"documents; expected at least {_MIN_SENTENCES} sentences."
        )
    if len(sentences) < 5 * len(documents) or len(documents) < _MIN_DOCUMENTS:
        size = len(sentences) // _MIN_DOCUMENTS
        size = min(size, _MAX_SENTENCES_PER_DOCUMENT)
        starts = range(0, len(sentences), size)
        documents = [sentences[start : start + size] for start in starts]
    return [document for document in documents if len(document) >= 2]


def split_train_eval(
    documents: Iterable[Document],
) -> tuple[list[Document], list[Document]]:
    """Divides documents into 90 % training and 10 % evaluation documents.

    Only the text of a document decides where it belongs. Sentences with the
    same words as a training sentence are removed from evaluation, and then
    documents with fewer than 2 sentences. Raises ValueError if either part is
    empty.
    """
    documents = [document for document in documents if len(document) >= 2]

    def digest(i: int) -> bytes:
        return hashlib.sha256("\n".join(documents[i]).encode()).digest()

    room = _EVAL_SHARE * sum(map(len, documents))
    chosen = set()
    for i in sorted(range(len(documents)), key=digest):
        if len(documents[i]) <= room:
            room -= len(documents[i])
            chosen.add(i)
    train = [d for i, d in enumerate(documents) if i not in chosen]
    known = {normalize(sentence) for d in train for sentence in d}
    held_out = (documents[i] for i in sorted(chosen))
    evaluation = [[s for s in d if normalize(s) not in known] for d in held_out]
    evaluation = [document for document in evaluation if len(document) >= 2]
    if not train or not evaluation:
        raise ValueError(
            f"{len(documents)} documents give {len(train)} for training and "
            f"{len(evaluation)} for evaluation without a shared sentence; "
            "give more text, or text that repeats itself less."
        )
    return train, evaluation


def parts_of(text: str | None) -> tuple[list[Document], list[Document]]:
    """Divides a text; None = Python's documentation. The error names it."""
    if not text:
        return split_train_eval(python_documents())
    lines = list(files.read_lines(text))
    try:
        return split_train_eval(text_documents(lines))
    except ValueError as error:
        raise ValueError(f"{text}: {error}") from None


def normalize(sentence: str) -> str:
    """Returns the words of a sentence in lower case, for comparisons."""
    return " ".join(re.findall(r"\w+", sentence.casefold()))


def write(train_output: str, eval_output: str, text: str | None) -> None:
    """Collects and divides the documents, writes them and logs the counts.

    `text` is the path of a text to use; None = Python's documentation.
    """
    outputs.check(
        {"text": [text] if text else []},
        {"train_output": [train_output], "eval_output": [eval_output]},
    )
    paths = [train_output, eval_output]
    for path, part in zip(paths, parts_of(text), strict=True):
        # A sentence on each line, and a blank line between documents.
        content = "\n".join("\n".join([*document, ""]) for document in part)
        files.write_text(path, content)
        logging.info(
            f"{path}: {sum(map(len, part))} sentences in {len(part)} "
            f"documents, {len(content.encode()) / 1e6:.2f} MB"
        )


def _join_lines(lines: list[str]) -> list[str]:
    """Joins wrapped lines to paragraphs; each list entry is a paragraph."""
    paragraphs = [[]]
    for line in map(str.strip, lines):
        if line.startswith(">>>"):  # the output ends at the blank line
            break
        if _UNDERLINE.match(line):  # the lines above are a title
            paragraphs[-1].clear()
            continue
        if bullet := _BULLET.match(line):
            paragraphs.append([])
            line = line[bullet.end() :]
        paragraphs[-1].append(line)
    return [" ".join(parts) for parts in paragraphs if parts]


def _strip_markup(paragraph: str) -> str:
    """Removes the markup of roles, literals, emphasis and notes."""
    for pattern, replacement in _MARKUP:
        paragraph = pattern.sub(replacement, paragraph)
    return " ".join(paragraph.split())


def _prose_of_module(path: pathlib.Path) -> list[str]:
    """Returns docstrings and block comments in the order of the lines."""
    try:
        with tokenize.open(path) as file:
            source = file.read()
        with warnings.catch_warnings(action="ignore"):  # invalid escapes
            tree = ast.parse(source)
    except (SyntaxError, UnicodeDecodeError):
        return []  # a template, or a test of bad syntax
    found = [
        (node.body[0].lineno, text)
        for node in ast.walk(tree)
        if isinstance(node, _DOCUMENTED) and (text := ast.get_docstring(node))
    ]
    comment: list[str] = []
    for number, line in enumerate([*source.split("\n"), ""], start=1):
        line = line.strip()
        if line.startswith("#"):
            comment.append(line.lstrip("#").removeprefix(" "))
        elif comment:
            found.append((number, "\n".join(comment)))
            comment = []
    return [text for _, text in sorted(found)]
