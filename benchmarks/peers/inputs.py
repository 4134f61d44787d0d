"""The work of each case, as files that all sides read: a batch, ids, texts.

Axes: N sequences, B batch, S wordpieces, P predictions.
"""

import gzip
import itertools
import json

import numpy as np

from benchmarks.peers.cases import VOCAB_SIZE
from data.finetuning.features import FeatureOptions, convert_examples
from data.squad import windows
from data.squad.articles import SquadData
from data.squad.examples import ExampleOptions, read_examples
from data.tasks import get_task
from data.text.tokenization import FullTokenizer

# Ids from here on are words in the released uncased vocabulary.
_FIRST_WORD = 1996
_NUM_TEXTS = 8
_CLS, _SEP = 101, 102


def pretraining_batch(rows, length, predictions):
    """Random wordpieces without padding, as records hold them.

    Args:
      rows: B.
      length: S.
      predictions: P, places of a row, all different.

    Returns:
      Name -> array.
    """
    rng = np.random.default_rng(1)
    positions = np.argsort(rng.random((rows, length)), axis=1)[:, :predictions]
    shape = (rows, length)
    batch = {
        "input_ids": rng.integers(_FIRST_WORD, VOCAB_SIZE, shape),
        "input_mask": np.ones(shape),
        "segment_ids": np.broadcast_to(np.arange(length) >= length // 2, shape),
        "masked_lm_positions": np.sort(positions, axis=1),
        "masked_lm_ids": rng.integers(_FIRST_WORD, VOCAB_SIZE, positions.shape),
        "next_sentence_labels": rng.integers(0, 2, (rows, 1)),
    }
    batch = {name: value.astype(np.int32) for name, value in batch.items()}
    weights = np.ones(positions.shape, np.float32)
    return batch | {"masked_lm_weights": weights}


def sequences(rows):
    """Sequences of any length, one after the other.

    Args:
      rows: (ids, segment_ids) of each.

    Returns:
      `input_ids` and `segment_ids` int32, of all of them; `sizes` int32 [N].
    """
    ids, segments = zip(*rows, strict=True)
    return {
        "input_ids": np.concatenate(ids).astype(np.int32),
        "segment_ids": np.concatenate(segments).astype(np.int32),
        "sizes": np.array([len(x) for x in ids], np.int32),
    }


def split(arrays):
    """The sequences again: a list of (ids, segment_ids)."""
    ends = np.cumsum(arrays["sizes"])[:-1]
    names = ("input_ids", "segment_ids")
    return list(zip(*(np.split(arrays[n], ends) for n in names), strict=True))


def full_sequences(count, length):
    """Random sequences of one length."""
    rng = np.random.default_rng(2)
    ids = rng.integers(_FIRST_WORD, VOCAB_SIZE, (count, length))
    ids[:, 0], ids[:, -1] = _CLS, _SEP
    return sequences([(row, np.zeros(length)) for row in ids])


def glue_sequences(task_name, folder, vocab_file, length, count):
    """The training set of a task, in file order, as its program cuts it."""
    task = get_task(task_name, folder)
    options = FeatureOptions.of_task(task, length)
    rows = map(
        _real,
        convert_examples(
            task.examples("train"), FullTokenizer(vocab_file), options
        ),
    )
    return sequences(list(itertools.islice(rows, count or None)))


def _real(row):
    """The wordpieces of a row before its padding."""
    size = int(row["input_mask"].sum())
    return row["input_ids"][:size], row["segment_ids"][:size]


def squad_sequences(path, vocab_file, length, count):
    """The windows of questions, in file order, as run_squad.py cuts them."""
    found = windows.convert_examples(
        read_examples(SquadData(path), ExampleOptions(is_training=False)),
        FullTokenizer(vocab_file),
        windows.WindowOptions(max_seq_length=length),
        is_training=False,
    )
    every = (window for _, of_question in found for window in of_question)
    return sequences(
        [
            _window_row(window)
            for window in itertools.islice(every, count or None)
        ]
    )


def _window_row(window):
    """[CLS] question [SEP] text [SEP], and 1 from the text on."""
    ids = [_CLS, *window.query_ids, _SEP, *window.doc_ids, _SEP]
    return ids, np.arange(len(ids)) >= window.doc_offset


def texts_of_length(vocab_file, length):
    """Some texts of as many wordpieces, [CLS] and [SEP] included."""
    vocab = FullTokenizer(vocab_file).vocab
    words = [w for w in vocab if w.isascii() and w.isalpha() and len(w) > 2]
    rng = np.random.default_rng(3)
    return [" ".join(rng.choice(words, length - 2)) for _ in range(_NUM_TEXTS)]


def read_text(path, megabytes):
    """Whole lines of a UTF-8 text, also a gzipped one.

    Args:
      path: the file.
      megabytes: where to end; 0 = at the end.

    Returns:
      The lines, without their ends; and the bytes of them with it.
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


def write_texts(path, texts):
    """Writes a list of texts."""
    path.write_text(json.dumps(texts))
