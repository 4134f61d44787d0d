r"""Makes the demo's corpus: English that every Python installation carries.

    python -m demo.corpus --train_output=train.txt --eval_output=eval.txt

    python -m demo.corpus --train_output=train.txt --eval_output=eval.txt \
        --text=my.txt

The English is the language reference (`pydoc_data.topics`) and what the
standard library's authors wrote into its modules: docstrings and block
comments. Code, tables and markup are left out. Both outputs hold one sentence
a line and a blank line between documents; no sentence stands in both.
"""

import ast
import hashlib
import inspect
import pathlib
import re
import sysconfig
import tokenize
import warnings
from collections.abc import Iterable, Iterator
from pydoc_data import topics

from absl import flags, logging

from data.pretraining.sentences import split_sentences
from data.storage import files
from training import program

Document = list[str]  # its sentences

_SKIPPED_FOLDERS = {
    "dist-packages",
    "idlelib",
    "site-packages",
    "test",
    "tests",
}
_EVAL_SHARE = 0.1
_MIN_SENTENCES = 200
_MIN_DOCUMENTS = 20
_MAX_SENTENCES_PER_DOCUMENT = 50  # where the text itself has no documents

_UNDERLINE = re.compile(r"([=\-~^*+#.'\"])\1{2,}$")
_BULLET = re.compile(r"(?:[*•o+-]|\(?\w{1,2}[.)]|:\w[^:]*:|\.\.)\s+")
_MARKUP = (
    (re.compile(r":[\w:]+:`~?([^`<]+?)(?:\s*<[^`>]*>)?`"), r"\1"),  # :func:`x`
    (re.compile(r"(`{1,2}|\*{1,2}|\|)(?=\S)([^`*|]+?)(?<=\S)\1_{0,2}"), r"\2"),
    (re.compile(r"\s*(?:\[[#\d]+\]_?|<https?:[^>]*>)"), ""),  # notes, links
)
_ENDS_LIKE_SENTENCE = re.compile(r"[.!?…。！？][\"')\]”’」』）]*$")
_PLAIN_WORD = re.compile(
    r"""["'(]*[A-Za-z]+(?:['’/-][A-Za-z]+)*["')]*[,.;:!?]*["')]*"""
)


def clean_paragraphs(text: str) -> list[str]:
    r"""Takes code and markup out of documentation text.

    Left out are literal blocks (what is indented below a line that ends in a
    colon), interactive sessions (`>>>`), titles with their underlines and
    directives. List entries become paragraphs of their own.

    Args:
      text: reStructuredText, or what looks like it.

    Returns:
      Paragraphs, each on one line.
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
    """Tells a sentence (4 to 100 words, nearly all plain) from other text."""
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
    """Yields one document for each topic and each module of this Python."""
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
        if not _SKIPPED_FOLDERS.intersection(path.relative_to(root).parts):
            yield sentences_of(_prose_of_module(path))


def text_documents(lines: Iterable[str]) -> list[Document]:
    """Turns anybody's text into documents of sentences.

    Blank lines part documents; where they give fewer than 20, or fewer than
    5 sentences each (they part paragraphs then), the text is cut into equal
    documents instead. Lines that mostly end like sentences are taken one by
    one; others are wrapped and are joined first.

    Args:
      lines: of a text file, without line ends.

    Returns:
      Documents of at least 2 sentences.

    Raises:
      ValueError: there are fewer than 200 sentences.
    """
    documents = []
    block: list[str] = []
    for line in [*lines, ""]:
        if line.strip():
            block.append(line.strip())
        elif block:
            if 2 * sum(map(_ends_like_sentence, block)) < len(block):
                block = [" ".join(block)]
            documents.append(
                [s for part in block for s in split_sentences(part)]
            )
            block = []
    sentences = [sentence for document in documents for sentence in document]
    if len(sentences) < _MIN_SENTENCES:
        raise ValueError(
            f"the text has {len(sentences)} sentences in {len(documents)} "
            f"documents; the demo needs at least {_MIN_SENTENCES} sentences "
            "(thousands, to learn anything)."
        )
    if len(sentences) < 5 * len(documents) or len(documents) < _MIN_DOCUMENTS:
        size = len(sentences) // _MIN_DOCUMENTS
        size = min(size, _MAX_SENTENCES_PER_DOCUMENT)
        documents = [
            sentences[start : start + size]
            for start in range(0, len(sentences), size)
        ]
    return [document for document in documents if len(document) >= 2]


def split_train_eval(
    documents: Iterable[Document],
) -> tuple[list[Document], list[Document]]:
    """Sets about a tenth of the documents aside, in their order.

    A document's place depends on its text alone. From evaluation every
    sentence is dropped that training has too (letters and digits compared);
    documents left with fewer than 2 sentences are dropped.

    Args:
      documents: in the order they shall be written.

    Returns:
      Training and evaluation documents.

    Raises:
      ValueError: nothing is left to train or to evaluate on.
    """
    documents = [document for document in documents if len(document) >= 2]
    by_hash = sorted(
        range(len(documents)),
        key=lambda i: hashlib.sha256("\n".join(documents[i]).encode()).digest(),
    )
    room = _EVAL_SHARE * sum(map(len, documents))
    chosen = set()
    for i in by_hash:
        if len(documents[i]) <= room:
            room -= len(documents[i])
            chosen.add(i)
    train = [d for i, d in enumerate(documents) if i not in chosen]
    known = {normalize(sentence) for d in train for sentence in d}
    evaluation = [
        [s for s in documents[i] if normalize(s) not in known]
        for i in sorted(chosen)
    ]
    evaluation = [document for document in evaluation if len(document) >= 2]
    if not train or not evaluation:
        raise ValueError(
            f"{len(documents)} documents give {len(train)} for training and "
            f"{len(evaluation)} for evaluation without a shared sentence; "
            "give more text, or text that repeats itself less."
        )
    return train, evaluation


def normalize(sentence: str) -> str:
    """Reduces a sentence to its words, to tell whether two are the same."""
    return " ".join(re.findall(r"\w+", sentence.casefold()))


def write_documents(path: str, documents: Iterable[Document]) -> None:
    """Writes one sentence a line, a blank line between documents."""
    files.write_text(path, "\n".join("\n".join([*d, ""]) for d in documents))


def _ends_like_sentence(line: str) -> bool:
    return bool(_ENDS_LIKE_SENTENCE.search(line))


def _join_lines(lines: list[str]) -> list[str]:
    """Joins wrapped lines to paragraphs, one for each list entry."""
    paragraphs = [[]]
    for line in map(str.strip, lines):
        if line.startswith(">>>"):  # its output lasts to the blank line
            break
        if _UNDERLINE.match(line):  # so the lines above are a title
            paragraphs[-1].clear()
            continue
        if bullet := _BULLET.match(line):
            paragraphs.append([])
            line = line[bullet.end() :]
        paragraphs[-1].append(line)
    return [" ".join(parts) for parts in paragraphs if parts]


def _strip_markup(paragraph: str) -> str:
    """Takes the marks of roles, literals, emphasis and notes away."""
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
        return []  # a template or test of bad syntax: not prose to learn from
    documented = (
        ast.Module,
        ast.ClassDef,
        ast.FunctionDef,
        ast.AsyncFunctionDef,
    )
    found = [
        (node.body[0].lineno, text)
        for node in ast.walk(tree)
        if isinstance(node, documented) and (text := ast.get_docstring(node))
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


def define_flags() -> None:
    """Defines this program's flags."""
    flags.DEFINE_string("train_output", None, "Text file to train on.")
    flags.DEFINE_string("eval_output", None, "Text file to evaluate on.")
    flags.DEFINE_string(
        "text", None, "UTF-8 text to use in place of Python's documentation."
    )


def main() -> None:
    """Collects the documents, splits and writes them, and reports."""
    options = flags.FLAGS
    files.check_outputs(
        [options.text] if options.text else [],
        [options.train_output, options.eval_output],
    )
    if options.text:
        documents = text_documents(files.read_lines(options.text))
    else:
        documents = python_documents()
    train, evaluation = split_train_eval(documents)
    for path, part in (
        (options.train_output, train),
        (options.eval_output, evaluation),
    ):
        write_documents(path, part)
        logging.info(
            "%s: %d sentences in %d documents, %.2f MB",
            path,
            sum(map(len, part)),
            len(part),
            sum(len(s.encode()) + 1 for d in part for s in d) / 1e6,
        )


if __name__ == "__main__":
    define_flags()
    program.run(main, required=("train_output", "eval_output"))
