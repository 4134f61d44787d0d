"""The text of a tensorflow-datasets data set, written to text files once.

    data set --text feature--> documents --> text-00000.txt, text-00001.txt, ...
                                             text.json, when all are written

The processes that make examples read byte ranges of text files and must not
load TensorFlow. So a separate process reads the data set, and its memory is
freed when it ends.
"""

import dataclasses
import os
from collections.abc import Iterator
from typing import Any

from absl import logging

from data.processes import Advance, Workers
from data.progress import Progress
from data.settings import Settings, optional, setting
from data.storage import files, manifests
from data.storage.json_files import write_json

# Written last; says what the text files were made from.
_MANIFEST = "text.json"

# Marks of Wiki40B's articles: each is a line of its own and gives the kind of
# the lines after it. Only paragraphs are text; _NEWLINE_ separates them.
_WIKI40B_MARKS = {
    "_START_ARTICLE_": False,
    "_START_SECTION_": False,
    "_START_PARAGRAPH_": True,
}
_WIKI40B_BREAK = "_NEWLINE_"


class TfdsText(Settings, kw_only=False):
    """Text of tensorflow-datasets.

    `tfds` and `split` are as in `tfds.builder`, such as `my_set/config:1.0.0`
    and `train[:10%]`. A text file has at most `max_bytes`, unless it is a
    single document that is longer.
    """

    tfds: str | None = optional(
        "[new] Read the text of a tensorflow-datasets data set, such as "
        "wiki40b/en, instead of --input_file. It is written to text files "
        "beside the output."
    )
    split: str = setting(
        "train", "[new] Split of the data set.", flag="tfds_split"
    )
    data_dir: str | None = optional(
        "[new] Folder in which tensorflow-datasets keeps its data sets.",
        flag="tfds_data_dir",
    )
    text_key: str | None = optional(
        "[new] Name of the feature with the text; default: `text`, or the only "
        "string feature.",
        flag="tfds_text_key",
    )
    max_bytes: int = 256 << 20


def write_text_files_in_a_process(text: TfdsText, folder: str) -> list[str]:
    """Runs `write_text_files` in a new process, which loads TensorFlow."""
    if paths := _finished(folder, text):
        return paths
    with Workers(1, apart=True) as workers:
        (paths,) = workers.run(_work, [(text, folder)], lambda *_: None)
    return paths


def write_text_files(
    text: TfdsText, folder: str, advance: Advance = lambda *_: None
) -> list[str]:
    """Writes the text of a data set to files, unless an earlier run did so.

    Each example of the data set becomes a document: its lines that are not
    blank, then a blank line. Titles and headings of Wiki40B are left out. An
    unfinished run is started again. Returns the paths in the order of the data
    set. Raises ValueError if it cannot be read or has no text, or `folder`
    holds other text.
    """
    if paths := _finished(folder, text):
        return paths
    # Imported here because it loads TensorFlow, which finished text does not
    # need.
    from data import tfds

    source = tfds.open_text(text.tfds, text.split, text.data_dir, text.text_key)
    documents = _documents(source, advance)
    written = _write_documents(documents, folder, text.max_bytes)
    if not written:
        raise ValueError(
            f"--tfds={text.tfds}: the {source.num_examples} examples of split "
            f"{text.split!r} have no line of text in their "
            f"{source.text_key!r}; give another split or feature."
        )
    num_documents = sum(file["num_documents"] for file in written)
    manifest = {
        "asked": dataclasses.asdict(text),
        "data_set": source.full_name,
        "text_key": source.text_key,
        "num_documents": num_documents,
        "num_empty_documents": source.num_examples - num_documents,
        "bytes": sum(file["bytes"] for file in written),
        "files": written,
    }
    write_json(os.path.join(folder, _MANIFEST), manifest)
    logging.info(
        "%(data_set)s: %(num_documents)d documents, %(bytes)d bytes of text; "
        "left out %(num_empty_documents)d without text",
        manifest,
    )
    return [os.path.join(folder, file["name"]) for file in written]


def _finished(folder: str, text: TfdsText) -> list[str] | None:
    """The files of a finished run; None = there are none, or not complete."""
    manifest = manifests.require_same(
        os.path.join(folder, _MANIFEST),
        dataclasses.asdict(text),
        "give another --output_file, or remove that folder",
        key="asked",
    )
    if manifest is None:
        return None
    paths = []
    for file in manifest["files"]:
        path = os.path.join(folder, file["name"])
        if not files.exists(path) or files.size(path) != file["bytes"]:
            logging.warning(
                "%s is gone or was changed; reading %s again.", path, text.tfds
            )
            return None
        paths.append(path)
    logging.info(
        "Using the text of %s that is in %s: %d documents. Remove the folder "
        "to read the data set again.",
        *(manifest["data_set"], folder, manifest["num_documents"]),
    )
    return paths


def _documents(source: Any, advance: Advance) -> Iterator[bytes]:
    """Yields the texts as documents; leaves out those without text."""
    name, total = f"reading {source.full_name}", source.num_examples
    with Progress(name, total=total, unit="documents") as progress:
        for text in source.texts:
            advance(0, 0)
            progress.advance()
            lines = text.split("\n")
            if not _WIKI40B_MARKS.keys().isdisjoint(lines):
                lines = _wiki40b_paragraphs(lines)
            # The readers of the corpus strip lines the same way: to them a line
            # of no-break spaces is blank and would end the document.
            lines = list(filter(None, map(str.strip, lines)))
            if lines:
                yield "\n".join([*lines, "", ""]).encode()


def _wiki40b_paragraphs(lines: list[str]) -> list[str]:
    paragraphs = []
    is_text = True
    for line in lines:
        if line in _WIKI40B_MARKS:
            is_text = _WIKI40B_MARKS[line]
        elif is_text:
            paragraphs += line.split(_WIKI40B_BREAK)
    return paragraphs


def _write_documents(
    documents: Iterator[bytes], folder: str, max_bytes: int
) -> list[dict[str, Any]]:
    """Writes one file after the other; returns their names and sizes."""
    written = []
    document = next(documents, None)
    while document:
        name = f"text-{len(written):05d}.txt"
        num_documents = num_bytes = 0
        room = max(max_bytes, len(document))
        with files.open_whole(os.path.join(folder, name)) as file:
            while document and num_bytes + len(document) <= room:
                file.write(document)
                num_documents += 1
                num_bytes += len(document)
                document = next(documents, None)
        sizes = {"num_documents": num_documents, "bytes": num_bytes}
        written.append({"name": name} | sizes)
    return written


def _work(task: tuple[TfdsText, str], advance: Advance) -> list[str]:
    """Calls `write_text_files` in the process made for it."""
    text, folder = task
    try:
        return write_text_files(text, folder, advance)
    except ImportError as error:
        raise ValueError(
            f"--tfds={text.tfds} needs a missing package: {error}. Write "
            "the text once without --runner, with requirements.txt installed."
        ) from None
    except files.op_errors() as error:
        # The other process need not know TensorFlow's errors.
        raise OSError(str(error)) from None
