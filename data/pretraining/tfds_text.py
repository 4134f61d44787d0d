"""The text of a tensorflow-datasets data set, as files that the rest reads.

    data set --text feature--> documents --> text-00000.txt, text-00001.txt, ...
                                             text.json, when all of it is there

The processes that make examples read byte ranges of text files and must not
load TensorFlow. So the data set is read once, one example a document, and by a
process that takes its memory with it when it ends.
"""

import json
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

from absl import logging

from data.progress import Progress
from data.storage import files

# Says that the text is whole, and what it is.
MARKER = "text.json"
_MAX_BYTES = 256 << 20
_EXIT_S = 5

# Wiki40B's articles: each mark is a line and says what the next lines are.
# Only paragraphs are sentences; they are parted by _NEWLINE_.
_WIKI40B_MARKS = {
    "_START_ARTICLE_": False,
    "_START_SECTION_": False,
    "_START_PARAGRAPH_": True,
}
_WIKI40B_BREAK = "_NEWLINE_"


def write_text_files_in_a_process(
    name: str, folder: str, **options: Any
) -> list[str]:
    """Does what `write_text_files` does, without TensorFlow in this process.

    Args:
      name: as there.
      folder: as there.
      **options: as there.

    Returns:
      As there.

    Raises:
      ValueError: as there.
      OSError: as there, or the process was killed.
    """
    if paths := _finished(folder, _asked(name, **options)):
        return paths
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(
        target=_work,
        args=(sender, logging.get_verbosity(), name, folder, options),
    )
    process.start()
    sender.close()
    try:
        result = receiver.recv()
    except EOFError:
        process.join()
        raise OSError(
            f"--tfds={name}: the process that read it ended with exit code "
            f"{process.exitcode} (-9 if it was killed, probably because memory "
            "ran out); see what it said above, then run the same command "
            "again."
        ) from None
    except KeyboardInterrupt:
        process.terminate()
        process.join(_EXIT_S)  # it removes what is half-written
        process.kill()
        raise
    process.join()
    if isinstance(result, Exception):
        raise result
    return result


def write_text_files(
    name: str,
    folder: str,
    *,
    split: str = "train",
    data_dir: str | None = None,
    text_key: str | None = None,
    max_bytes: int = _MAX_BYTES,
) -> list[str]:
    """Writes the text of a data set into files, once.

    An example of the data set is a document: its lines that are not blank, as
    they are, and a blank line after the last. Titles and headings of Wiki40B
    are left out. The order is the data set's. When `folder` already holds all
    of the same text, as asked for by the same arguments, nothing is read. A
    run that was killed begins again.

    Args:
      name: as in `tfds.builder`: `wiki40b/en` or `my_set/config:1.0.0`.
      folder: where to write; it is made.
      split: part of the data set: `train`, `train[:10%]`, `train+test`.
      data_dir: where data sets are; None = the default of
        tensorflow-datasets, `~/tensorflow_datasets`. A data set that is not
        there is downloaded.
      text_key: name of the feature that is the text; None = `text`, or else
        the only string.
      max_bytes: longest file; only a longer document makes a longer one.

    Returns:
      Paths of the files, in the order of the text.

    Raises:
      ValueError: there is no such data set, split or text feature, it is
        damaged, not UTF-8 or without text, or `folder` holds other text.
      OSError: the data set cannot be prepared, or a file not written.
    """
    asked = _asked(name, split, data_dir, text_key, max_bytes)
    if paths := _finished(folder, asked):
        return paths
    # Not above: the process that waits for this one stays small.
    from data import tfds

    source = tfds.DataSet(name, split, data_dir, text_key)
    with Progress(
        f"reading {name}", total=source.num_examples, unit="documents"
    ) as progress:
        written = _write_documents(
            _documents(source.read_texts(), progress), folder, max_bytes
        )
    if not written:
        raise ValueError(
            f"--tfds={name}: the {source.num_examples} examples of split "
            f"{split!r} have no line of text in their {source.text_key!r}; "
            "give another split or feature."
        )
    _finish(folder, asked, source, written)
    return [os.path.join(folder, file["name"]) for file in written]


def _asked(
    name: str,
    split: str = "train",
    data_dir: str | None = None,
    text_key: str | None = None,
    max_bytes: int = _MAX_BYTES,
) -> dict[str, Any]:
    """What decides which text lies in a folder."""
    return {
        "tfds": name,
        "split": split,
        "data_dir": data_dir,
        "text_key": text_key,
        "max_bytes": max_bytes,
    }


def _finished(folder: str, asked: dict[str, Any]) -> list[str] | None:
    """The files of a run that has ended, None if there was none."""
    path = os.path.join(folder, MARKER)
    try:
        marker = json.loads("\n".join(files.read_lines(path)))
        asked_then = marker["asked"]
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        raise ValueError(
            f"{path} does not say which text lies beside it; give another "
            "folder, or remove that one."
        ) from None
    differing = [
        f"{key}={asked_then.get(key)!r} (asked now: {value!r})"
        for key, value in asked.items()
        if asked_then.get(key) != value
    ]
    if differing:
        raise ValueError(
            f"{folder} holds other text: {', '.join(differing)}; give another "
            "folder, or remove that one."
        )
    paths = []
    for file in marker["files"]:
        paths.append(os.path.join(folder, file["name"]))
        if not _has_size(paths[-1], file["bytes"]):
            logging.warning(
                "%s is gone or was changed; reading %s again.",
                *(paths[-1], asked["tfds"]),
            )
            return None
    logging.info(
        "Using the text of %s that is in %s: %d documents. Remove the folder "
        "to read the data set again.",
        *(marker["data_set"], folder, marker["num_documents"]),
    )
    return paths


def _finish(
    folder: str, asked: dict[str, Any], source: Any, written: list[dict]
) -> None:
    """Says, in the folder and in the log, that all text is there."""
    num_documents = sum(file["num_documents"] for file in written)
    num_bytes = sum(file["bytes"] for file in written)
    num_empty = source.num_examples - num_documents
    marker = {
        "asked": asked,
        "data_set": source.full_name,
        "text_key": source.text_key,
        "num_documents": num_documents,
        "num_empty_documents": num_empty,
        "bytes": num_bytes,
        "files": written,
    }
    files.write_text(
        os.path.join(folder, MARKER), json.dumps(marker, indent=2) + "\n"
    )
    logging.info(
        "%s: %s documents, %s bytes of text; left out %s without text",
        *(source.full_name, f"{num_documents:,}", f"{num_bytes:,}"),
        f"{num_empty:,}",
    )


def _has_size(path: str, num_bytes: int) -> bool:
    """Whether a file is there and as long as it was."""
    try:
        return files.size(path) == num_bytes
    except (OSError, *files.op_errors()):
        return False


def _documents(texts: Iterator[str], progress: Progress) -> Iterator[bytes]:
    """Makes documents of texts, but of those without a line of text."""
    for text in texts:
        lines = text.split("\n")
        if not _WIKI40B_MARKS.keys().isdisjoint(lines):
            lines = _wiki40b_paragraphs(lines)
        # Stripped as the corpus's readers do: a line of no-break spaces is
        # blank to them and would cut the document.
        lines = list(filter(None, map(str.strip, lines)))
        if lines:
            yield "\n".join([*lines, "", ""]).encode()
        progress.advance()


def _wiki40b_paragraphs(lines: list[str]) -> list[str]:
    """Takes the paragraphs out of an article of Wiki40B."""
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
    """Fills one file after the other; returns what is in them."""
    written = []
    document = next(documents, None)
    while document:
        name = f"text-{len(written):05d}.txt"
        num_documents = num_bytes = 0
        with (
            files.whole_files([os.path.join(folder, name)]) as (temporary,),
            files.open_write(temporary) as file,
        ):
            while document and (
                not num_bytes or num_bytes + len(document) <= max_bytes
            ):
                file.write(document)
                num_documents += 1
                num_bytes += len(document)
                document = next(documents, None)
        written.append(
            {"name": name, "num_documents": num_documents, "bytes": num_bytes}
        )
    return written


def _work(
    sender: multiprocessing.connection.Connection,
    verbosity: int,
    name: str,
    folder: str,
    options: dict[str, Any],
) -> None:
    """Calls `write_text_files` in the process made for it."""
    # ^C reaches the parent, which ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    threading.Thread(target=_end_with_parent, daemon=True).start()
    logging.use_absl_handler()
    logging.set_verbosity(verbosity)
    try:
        sender.send(write_text_files(name, folder, **options))
    except ImportError as error:
        sender.send(
            ValueError(
                f"--tfds={name} needs what is not installed here: {error}. "
                "Write the text once by the same command without --runner, in "
                "the environment of requirements.txt; it is kept."
            )
        )
    except (ValueError, OSError, *files.op_errors()) as error:
        # Only the text: not every error survives the way.
        kind = ValueError if isinstance(error, ValueError) else OSError
        sender.send(kind(str(error)))


def _end_with_parent() -> None:
    """Ends this process when the parent was killed."""
    multiprocessing.parent_process().join()
    os._exit(1)
