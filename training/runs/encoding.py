"""A run of run_sentence_vectors.py that encodes or searches."""

import contextlib
import dataclasses
import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

from absl import logging

import modeling
from data.progress import Progress
from data.storage import files, manifests, outputs
from data.vectors import vector_index
from data.vectors.text_lists import read_texts
from training.config.encoding_options import EncodingOptions
from training.devices.strategy import (
    check_batch_size,
    cluster_of,
    create_strategy,
    is_tpu,
    policy_of,
)
from training.vectors.sentence_encoding import (
    SentenceVectors,
    count_texts,
    write_vectors,
)
from training.vectors.sentence_texts import QUERY


def run(options: EncodingOptions) -> None:
    """Encodes or searches, after checking that all inputs fit.

    Raises:
      ValueError, OSError: an input is missing, damaged or does not fit; all
        inputs are checked before the first batch.
    """
    vectors = open_run(options)
    if options.do_encode:
        encode(options, vectors)
    else:
        search(options, vectors)


def open_run(options: EncodingOptions) -> SentenceVectors:
    """Checks the files and loads the model."""
    inputs = {"input_file": options.input_file, "index_file": None}
    if options.do_search:
        inputs["index_file"] = options.index_file
    for flag, path in inputs.items():
        if path:
            files.require_file(path, f"--{flag}")
    if options.output_file:
        named = {flag: [path] for flag, path in inputs.items() if path}
        outputs.check(named, {"output_file": [options.output_file]})
    if cluster_of(options.device):
        raise ValueError(
            "vectors are made by one process, but TF_CONFIG names several; "
            "unset it, and give each of them a part of the texts."
        )
    size = options.vector_size
    if options.do_search:
        size = vector_index.facts_of(options.index_file).get("vector_size")
    return make_model(options, size)


def make_model(options: EncodingOptions, size: int | None) -> SentenceVectors:
    """Loads the model; `size` is that of its vectors, None = the largest."""
    strategy = create_strategy(options.device)
    check_batch_size(
        *("encode_batch_size", options.encode_batch_size),
        strategy.num_replicas_in_sync,
    )
    with strategy.scope():
        loaded = modeling.load(
            options.init_checkpoint or options.output_dir,
            kind="vectors",
            vocab_file=options.vocab_file,
            do_lower_case=options.do_lower_case,
            dtype=policy_of(options.device),
            use_one_hot_embeddings=is_tpu(strategy),
        )
        given = {
            name: getattr(options, name)
            for name in ("pooling", "normalize")
            if getattr(options, name) is not None
        }
        loaded.model.form = dataclasses.replace(loaded.model.form, **given)
        return SentenceVectors(
            loaded,
            max_seq_length=options.max_seq_length,
            batch_size=options.encode_batch_size,
            vector_size=size,
        )


def _prompt(options: EncodingOptions, vectors: SentenceVectors) -> str:
    """The text before each text; the log says which one."""
    form, name = vectors.form, options.prompt_name
    if name is None and options.do_search and QUERY in form.prompts:
        name = QUERY
    prompt = form.prompt(name)
    if prompt:
        logging.info("Before each text: %r.", prompt)
    elif form.prompts and name is None:
        logging.warning(
            "The model has the prompts %s, but none is put before the texts; "
            "--prompt_name chooses one.",
            ", ".join(form.prompts),
        )
    return prompt


def encode(options: EncodingOptions, vectors: SentenceVectors) -> None:
    """Writes the vectors of all texts, in their order."""
    source, path = options.input_file, options.output_file
    prompt, column = _prompt(options, vectors), options.column
    shape = (count_texts(source, column), vectors.size)
    num_empty = 0

    def texts() -> Iterator[str]:
        nonlocal num_empty
        for text in read_texts(source, column):
            num_empty += not text.strip()
            yield text

    manifests.remove([path])
    with Progress("encoding", total=shape[0], unit="texts") as progress:
        parts = vectors.encode(texts(), prompt, progress.advance)
        num_cut = write_vectors(path, parts, shape)
    if path.endswith(".npy"):
        vector_index.write_facts(
            *(path, vectors.fingerprint()),
            texts={
                "file": os.path.abspath(source),
                "column": column,
                "sha256": files.sha256(source),
            },
            count=shape[0],
            vector_size=vectors.size,
            is_unit=vectors.form.normalize,
            prompt=prompt,
        )
    logging.info("%s: vectors of %d texts.", path, shape[0])
    _warn(num_cut, shape[0], vectors.max_seq_length)
    if num_empty:
        logging.warning(
            "%d of %d texts are empty: each has a row, that of [CLS] [SEP], "
            "and a search leaves it out.",
            *(num_empty, shape[0]),
        )


def _warn(num_cut: int, count: int, length: int) -> None:
    if num_cut:
        logging.warning(
            "%d of %d texts were longer than --max_seq_length=%d wordpieces "
            "and lost what did not fit.",
            *(num_cut, count, length),
        )


def search(options: EncodingOptions, vectors: SentenceVectors) -> None:
    """Answers the questions of a file, or those of the terminal."""
    prompt = _prompt(options, vectors)
    index = vector_index.open_index(options.index_file, vectors.fingerprint())
    questions = _questions(options) if options.input_file else _asked()
    with _open_answers(options.output_file) as write:
        for group in questions:
            encoded = vectors.all(group, prompt)
            _warn(encoded.num_cut, len(group), vectors.max_seq_length)
            found = index.search(encoded.vectors, options.top_k)
            for question, texts in zip(group, found, strict=True):
                write(question, texts)


def _questions(options: EncodingOptions) -> list[list[str]]:
    """All questions of the file as one group."""
    texts = list(read_texts(options.input_file, options.column))
    questions = [text for text in texts if text.strip()]
    if not questions:
        raise ValueError(
            f"--input_file={options.input_file} has no questions; expected one "
            "on each line."
        )
    if len(questions) < len(texts):
        logging.warning(
            "%s: %d of %d lines are empty and are no questions.",
            *(options.input_file, len(texts) - len(questions), len(texts)),
        )
    return [questions]


@contextlib.contextmanager
def _open_answers(
    path: str | None,
) -> Iterator[Callable[[str, list[dict[str, Any]]], None]]:
    """Yields a function that writes the answers to a question."""
    if not path:
        yield lambda question, texts: print(_as_text(question, texts))
        return
    with files.whole_files([path]) as (temporary,):
        with files.open_write(temporary) as file:

            def write(question, texts):
                line = {"question": question, "found": texts}
                file.write((json.dumps(line) + "\n").encode())

            yield write


def _asked() -> Iterator[list[str]]:
    """Yields the questions of standard input, one by one."""
    while True:
        if sys.stdin.isatty():
            print("Question: ", end="", flush=True)
        line = sys.stdin.readline()
        if not line:
            return
        if line.strip():
            yield [line.strip()]


def _as_text(question: str, texts: list[dict[str, Any]]) -> str:
    lines = [f"{x['score']:.4f}  {x['row']:>8}  {x['text']}" for x in texts]
    return "\n".join([question, *lines, ""])
