"""A run of run_sentence_vectors.py that encodes or searches."""

import contextlib
import dataclasses
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

from absl import logging

import modeling
from data.storage import files, manifests, outputs
from data.storage.json_files import open_json_lines
from data.text.tokenization import whole_characters
from data.vectors import vector_files, vector_index
from data.vectors.text_rows import read_texts
from modeling.checkpoints import tf1
from training.config.vector_options import EncodingOptions
from training.devices.strategy import is_tpu, policy_of
from training.start import remembered
from training.start.start import NOT_USED
from training.vectors.extractor import open_strategy
from training.vectors.texts import QUERY, TextVectors


def run(options: EncodingOptions) -> None:
    """Encodes or searches, after checking that all inputs fit."""
    inputs = {}
    if path := options.input_file:
        files.require_file(path, "--input_file")
        inputs["input_file"] = [path]
    if path := options.index_file:
        inputs["index_file"] = vector_index.files_of(path)
    if options.output_file:
        outputs.check(inputs, {"output_file": [options.output_file]})
    vectors = make_model(options)
    work = encode if options.do_encode else search
    work(options.replace(prompt_name=_prompt(options, vectors)), vectors)


def make_model(options: EncodingOptions) -> TextVectors:
    """Loads the model."""
    path, folder = options.init_checkpoint, options.output_dir
    if path and folder and tf1.has_run(folder):
        logging.info(NOT_USED, "init_checkpoint", folder)
        path = None
    elif path and folder:
        logging.warning("--output_dir=%s is not used: it has no run.", folder)
    strategy = open_strategy(options, "encode_batch_size")
    with strategy.scope():
        loaded = modeling.load(
            path or folder,
            kind="vectors",
            vocab_file=options.vocab_file,
            do_lower_case=options.do_lower_case,
            dtype=policy_of(options.device),
            use_one_hot_embeddings=is_tpu(strategy),
        )
        changes = options.form.changed()
        remembered.warn_of_other_form(loaded.folder, changes)
        loaded.model.form = dataclasses.replace(loaded.model.form, **changes)
        vectors = TextVectors(loaded, options.max_seq_length)
        # What computes belongs to the strategy in whose scope it is made.
        vectors.sentence_extractor(options.encode_batch_size)
        return vectors


def _prompt(options: EncodingOptions, vectors: TextVectors) -> str | None:
    """The name of the prompt before each text; the log has its text."""
    form, name = vectors.form, options.prompt_name
    if name is None and options.do_search:
        name = form.usual(QUERY)
    if prompt := form.prompt(name):
        logging.info("Before each text: %r.", prompt)
    elif any(form.prompts.values()) and name is None:
        logging.warning(
            f"The model has the prompts {', '.join(form.prompts)}, but none is "
            "put before the texts; --prompt_name chooses one."
        )
    return name


def encode(options: EncodingOptions, vectors: TextVectors) -> None:
    """Writes the vectors of all texts, in their order."""
    source, path = options.input_file, options.output_file
    column, size = options.column, vectors.size_of(options.vector_size)
    prompt = vectors.form.prompt(options.prompt_name)
    found = Counter(bool(x.strip()) for x in read_texts(source, column))
    count, num_empty = found.total(), found[False]
    if not count:
        raise ValueError(f"--input_file={source} has no text; give one a line.")
    if is_index := path.endswith(".npy"):
        facts = vector_index.texts_of(source, column)
    texts = read_texts(source, column)
    with vector_files.open_text_writer(path, (count, size), texts) as write:
        extractor = vectors.sentence_extractor(options.encode_batch_size)
        rows = vectors.rows(read_texts(source, column), prompt)
        for line in extractor.extract_all(rows, count, source):
            write(vectors.finished(line.vectors[0, 0], size))
        manifests.remove([path])
    if is_index:
        vector_index.write_facts(
            *(path, vectors.fingerprint(), facts),
            count=count,
            is_unit=vectors.form.normalize,
            prompt=prompt,
        )
    logging.info("%s: vectors of %d texts.", path, count)
    if num_empty:
        logging.warning(
            f"{num_empty} of {count} texts are empty: each has a row, that of "
            "[CLS] [SEP], and a search leaves it out."
        )


def search(options: EncodingOptions, vectors: TextVectors) -> None:
    """Answers the questions of a file, or those of the terminal."""
    path, facts = options.output_file, vectors.fingerprint()
    index = vector_index.open_index(options.index_file, facts)
    batch_size, size = options.encode_batch_size, index.vectors.shape[1]
    show = contextlib.nullcontext(lambda found: print(_as_text(**found)))
    with open_json_lines(path) if path else show as write:
        for group in _questions(options) if options.input_file else _asked():
            asked = vectors.encode(group, batch_size, options.prompt_name, size)
            found = index.search(asked, options.top_k)
            for question, texts in zip(group, found, strict=True):
                write({"question": question, "found": texts})


def _questions(options: EncodingOptions) -> list[list[str]]:
    path = options.input_file
    texts = list(read_texts(path, options.column))
    questions = [text for text in texts if text.strip()]
    if not questions:
        raise ValueError(f"--input_file={path} has no questions; give some.")
    if num_empty := len(texts) - len(questions):
        logging.warning(f"{path}: {num_empty} of {len(texts)} lines are empty.")
    return [questions]


def _asked() -> Iterator[list[str]]:
    """Yields the questions of standard input, one by one."""
    prompt = "Question: " if sys.stdin.isatty() else ""
    print(prompt, end="", flush=True)
    while line := sys.stdin.readline():
        if line.strip():
            yield [line.strip()]
        print(prompt, end="", flush=True)


def _as_text(question: str, found: list[dict[str, Any]]) -> str:
    lines = [f"{x['score']:.4f}  {x['row']:>8}  {x['text']}" for x in found]
    return whole_characters("\n".join([question, *lines, ""]))
