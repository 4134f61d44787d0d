"""Writes what all sides of a case read: a batch, sequences or texts.

Axes: N sequences, B batch, S wordpieces, P predictions.
"""

import gzip
import itertools
import json

import numpy as np

from benchmarks.peers.cases import VOCAB_SIZE
from data.finetuning.feature_options import FeatureOptions
from data.finetuning.features import Converter
from data.squad import windows
from data.squad.articles import SquadData
from data.tasks import get_task
from data.text.tokenization import FullTokenizer

# Places in a folder of data.
VOCAB = "vocab/uncased/vocab.txt"
NOVELS = "novels/novels_train.txt.gz"
GLUE = {"cola": "glue/CoLA", "rte": "glue/RTE"}
SQUAD = "squad/{}-v1.1.json"
# Ids from here on are words in the released uncased vocabulary.
FIRST_WORD = 1996
_NUM_TEXTS = 8
_CLS, _SEP = 101, 102


def write(request, options, folder):
    """Writes the input of a case into a folder.

    Returns the path; and how much of the case's unit one call does.
    """
    kind = request["kind"]
    texts, arrays = folder / "texts.json", folder / "input.npz"
    if kind == "latency":
        words = random_words(request["vocab"], seed=3)
        size = request["length"] - 2  # without [CLS] and [SEP]
        texts.write_text(json.dumps([words(size) for _ in range(_NUM_TEXTS)]))
        return texts, 1
    if kind.startswith("tokenizing"):
        lines, size = read_text(novels(options), options.megabytes)
        texts.write_text(json.dumps(lines))
        return texts, size / 1e6
    if kind == "encoding":
        lines = filter(str.strip, read_text(novels(options), 5)[0])
        lines = list(itertools.islice(lines, request["count"]))
        texts.write_text(json.dumps(lines))
        return texts, len(lines)
    if kind == "pretraining":
        names = ("rows", "length", "predictions")
        sizes = (request[name] for name in names)
        words = request["model"]["vocab_size"]
        np.savez(arrays, **pretraining_batch(words, *sizes))
        return arrays, 1
    if kind == "prediction":
        rows = _rows(request, options.data)
        rows = itertools.islice(rows, request["count"] or None)
        ids, segments = zip(*rows, strict=True)
        np.savez(
            arrays,
            input_ids=np.concatenate(ids).astype(np.int32),
            segment_ids=np.concatenate(segments).astype(np.int32),
            sizes=np.array([len(x) for x in ids], np.int32),
        )
        return arrays, len(ids)
    return options.data, 1


def novels(options):
    """The path of the text."""
    return options.text or f"{options.data}/{NOVELS}"


def pretraining_batch(vocab_size, rows, length, predictions):
    """Name -> array: random wordpieces without padding, as in records."""
    rng = np.random.default_rng(1)
    shape = rows, length
    words = min(FIRST_WORD, vocab_size // 2), vocab_size
    positions = np.argsort(rng.random(shape), axis=1)[:, :predictions]
    batch = {
        "input_ids": rng.integers(*words, shape),
        "input_mask": np.ones(shape),
        "segment_ids": np.indices(shape)[1] >= shape[1] // 2,
        "masked_lm_positions": np.sort(positions, axis=1),
        "masked_lm_ids": rng.integers(*words, positions.shape),
        "masked_lm_weights": np.ones(positions.shape),
        "next_sentence_labels": rng.integers(0, 2, (shape[0], 1)),
    }
    floats = ("masked_lm_weights",)
    return {
        name: value.astype(np.float32 if name in floats else np.int32)
        for name, value in batch.items()
    }


def split(arrays):
    """The sequences of a written input: a list of (ids, segment_ids)."""
    ends = np.cumsum(arrays["sizes"])[:-1]
    names = ("input_ids", "segment_ids")
    return list(zip(*(np.split(arrays[n], ends) for n in names), strict=True))


def _rows(request, data):
    """Yields (ids, segment_ids) of the sequences that a case predicts."""
    name, length = request["data"], request["length"]
    if not name:
        rng = np.random.default_rng(2)
        ids = rng.integers(FIRST_WORD, VOCAB_SIZE, (request["count"], length))
        ids[:, 0], ids[:, -1] = _CLS, _SEP
        yield from ((row, np.zeros(length)) for row in ids)
        return
    tokenizer = FullTokenizer(request["vocab"])
    if name == "squad":
        articles = SquadData(f"{data}/{SQUAD.format('dev')}").read()
        sizes = windows.WindowOptions(max_seq_length=length)
        questions = windows.Questions(articles, tokenizer, sizes)
        for _, found in questions.converted:
            for window in found:
                ids = [_CLS, *window.query_ids, _SEP, *window.doc_ids, _SEP]
                yield ids, np.arange(len(ids)) >= window.doc_offset
        return
    task = get_task(name, f"{data}/{GLUE[name]}")
    options = FeatureOptions.of_task(task, length)
    for row in Converter(tokenizer, options).rows(task.examples("train")):
        size = int(row["input_mask"].sum())
        yield row["input_ids"][:size], row["segment_ids"][:size]


def random_words(vocab_file, seed):
    """Returns a function from a number of wordpieces to a random text."""
    vocab = FullTokenizer(vocab_file).vocab
    words = [w for w in vocab if w.isascii() and w.isalpha() and len(w) > 2]
    rng = np.random.default_rng(seed)
    return lambda size: " ".join(rng.choice(words, size))


def read_text(path, megabytes):
    """Reads whole lines of a UTF-8 text, which may be gzipped.

    `megabytes` of 10**6 bytes, 0 = all of it. Returns the lines without their
    ends; and their bytes, ends included.
    """
    opener = gzip.open if path.endswith(".gz") else open
    lines, size = [], 0
    with opener(path, "rt", encoding="utf-8", newline="\n") as file:
        for line in file:
            if megabytes and size > megabytes * 1e6:
                break
            lines.append(line.rstrip("\n"))
            size += len(line.encode())
    return lines, size
