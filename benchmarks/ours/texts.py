"""Tokenizers, and SQuAD from file to windows and from scores to answers.

SQuAD's ways are timed beside a plain rendering of the original's, the one in
tests/data/squad/reference.py, by processor time. It has this project's
tokenizer, which is faster, and leaves out the places of answers, shuffling and
prediction files.
"""

import collections
import functools
import tempfile
import time

import numpy as np
import tensorflow as tf

from benchmarks.peers import inputs
from benchmarks.peers.protocol import elapsed, texts_of
from data.squad import records
from data.squad.answers import predict
from data.squad.articles import SquadData
from data.squad.predictions import write_files
from data.squad.window_options import AnswerOptions, WindowOptions
from data.squad.windows import Questions
from data.text.in_graph.tokenization import InGraphTokenizer
from data.text.tokenization import FullTokenizer
from tests.data.squad import reference

_TOKENIZED_AT_ONCE = 1024  # lines


def tokenizing_python(case):
    """Every line, one by one."""
    lines = texts_of(case)
    encode = FullTokenizer(case["vocab"]).encode
    return {"": lambda: [elapsed(lambda: [encode(line) for line in lines])]}


def tokenizing_in_graph(case):
    """Every line, in batches of tf.data, as many at once as threads."""
    lines = texts_of(case)
    lines = tf.data.Dataset.from_tensor_slices(lines)
    dataset = lines.batch(_TOKENIZED_AT_ONCE).map(
        InGraphTokenizer(case["vocab"]).tokenize,
        num_parallel_calls=case["threads"],
    )
    # A deque of length 0 drops what it takes.
    return {"": lambda: [elapsed(collections.deque, dataset, 0)]}


def write_windows(case, path, **sizes):
    """Writes the windows of the train set as the programs do; their report."""
    questions = Questions(
        SquadData(_squad(case, "train")).read(),
        FullTokenizer(case["vocab"]),
        WindowOptions(**sizes),
        is_training=True,
    )
    return records.make_records(questions, path)


def _squad(case, part):
    return f"{case['input']}/{inputs.SQUAD.format(part)}"


def squad_windows(case):
    """Reads the train set and writes its windows."""
    path = _squad(case, "train")

    def plain():
        number = 0
        with tf.io.TFRecordWriter(f"{case['folder']}/plain") as writer:
            for _, windows in _plain_windows(path, case):
                number += len(windows)
                for window in windows:
                    example = tf.train.Example()
                    for name in ("input_ids", "input_mask", "segment_ids"):
                        feature = example.features.feature[name]
                        feature.int64_list.value.extend(window[name])
                    writer.write(example.SerializeToString())
        return number

    def ours():
        with tempfile.TemporaryDirectory() as folder:
            return write_windows(case, f"{folder}/train.tf_record").num_windows

    return _seconds_each(ours=ours, plain=plain)


def squad_answers(case):
    """Chooses answers of the dev set from random scores and writes them."""
    path = _squad(case, "dev")
    tokenizer = FullTokenizer(case["vocab"])
    questions = list(_plain_windows(path, case))
    ends = np.cumsum([len(windows) for _, windows in questions])
    scores = np.random.default_rng(0).normal(size=(2, ends[-1], 384))
    scores = scores.astype(np.float32)
    plain_scores = list(zip(*scores.tolist(), strict=True))

    def plain():
        for (words, windows), end in zip(questions, ends, strict=True):
            found = plain_scores[end - len(windows) : end]
            wanted = {"do_lower_case": True, "with_null": False}
            sizes = {"n_best": 20, "max_length": 30}
            reference.predict(words, windows, found, **sizes, **wanted)
        return len(questions)

    def ours():
        data = SquadData(path).read()
        asked = Questions(data, tokenizer, WindowOptions())
        logits = np.stack(scores, axis=2)
        predictions = predict(asked.converted, logits, AnswerOptions())
        write_files(case["folder"], predictions, False)
        return len(questions)

    return _seconds_each(ours=ours, plain=plain)


def _plain_windows(path, case):
    """Yields (words, windows) of each question."""
    tokenizer = FullTokenizer(case["vocab"])
    for _, question, words in reference.read(path):
        windows = reference.windows(
            question, words, tokenizer, length=384, stride=128, max_query=64
        )
        yield words, windows


def _seconds_each(**functions):
    """Ways that return the processor time of one of what they count."""

    def timed(function):
        start = time.process_time()
        count = function()
        return [(time.process_time() - start) / count]

    return {k: functools.partial(timed, x) for k, x in functions.items()}
