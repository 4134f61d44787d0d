r"""Times SQuAD's way from file to windows, and from scores to answers.

  python benchmarks/squad_windows.py --real_data=DIR

DIR holds squad/train-v1.1.json, squad/dev-v1.1.json and
vocab/uncased/vocab.txt. Prints windows/s (reading, windows with the places of
answers, shuffling, records) and questions/s (reading, answers from random
scores, files), in one process, each beside a plain rendering of the original's
way in tests/data/squad/reference.py: best of the repeats, taken in turns, of
the process's own time. The plain way has this project's tokenizer, which is
faster than the original's, and leaves out places, shuffling and files.
"""

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import tensorflow as tf
from absl import app, flags

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from data.squad import records  # noqa: E402
from data.squad.answers import AnswerOptions, predict  # noqa: E402
from data.squad.articles import SquadData  # noqa: E402
from data.squad.examples import ExampleOptions, read_examples  # noqa: E402
from data.squad.prediction_files import PredictionWriter  # noqa: E402
from data.squad.windows import WindowOptions  # noqa: E402
from data.text.tokenization import FullTokenizer  # noqa: E402
from tests.data.squad import reference  # noqa: E402

FLAGS = flags.FLAGS
LENGTHS = {"length": 384, "stride": 128, "max_query": 64}
NAMES = ("input_ids", "input_mask", "segment_ids")


def seconds(function, *args):
    """Runs a function; returns its processor time and its result."""
    start = time.process_time()
    result = function(*args)
    return time.process_time() - start, result


def compare(what, plain, fast):
    """Times two ways in turns; prints the rates of the best."""
    times = {plain: [], fast: []}
    for _ in range(FLAGS.repeats):
        for way in times:
            elapsed, count = seconds(way)
            times[way].append(elapsed / count)
    rates = [1 / min(times[way]) for way in (plain, fast)]
    print(
        f"{what}/s: plain {rates[0]:,.0f}, here {rates[1]:,.0f}, "
        f"{rates[1] / rates[0]:.1f} times as many"
    )


def write_plainly(path, vocab_file, folder):
    """Writes windows as the original does; returns their number."""
    tokenizer = FullTokenizer(vocab_file)
    number = 0
    with tf.io.TFRecordWriter(f"{folder}/plain.tf_record") as writer:
        for _, question, words in reference.read(path):
            for window in reference.windows(
                question, words, tokenizer, **LENGTHS
            ):
                features = {
                    name: tf.train.Feature(
                        int64_list=tf.train.Int64List(value=window[name])
                    )
                    for name in NAMES
                }
                example = tf.train.Example(
                    features=tf.train.Features(feature=features)
                )
                writer.write(example.SerializeToString())
                number += 1
    return number


def write_here(path, vocab_file, folder):
    """Writes windows; returns their number."""
    records._tokenizer.cache_clear()  # as a new process
    with tempfile.TemporaryDirectory(dir=folder) as new:
        return records.make_records(
            SquadData(path),
            f"{new}/train.tf_record",
            vocab_file=vocab_file,
            do_lower_case=True,
            example_options=ExampleOptions(is_training=True),
            window_options=WindowOptions(),
        ).num_windows


def answer_plainly(questions, scores):
    """Chooses answers as the original does; returns how many."""
    row = 0
    for words, windows in questions:
        rows = slice(row, row + len(windows))
        row += len(windows)
        reference.predict(
            words,
            windows,
            list(zip(*(part[rows] for part in scores), strict=True)),
            n_best=20,
            max_length=30,
            do_lower_case=True,
            with_null=False,
        )
    return len(questions)


def answer_here(path, tokenizer, scores, folder):
    """Chooses answers and writes them; returns how many."""
    number = 0
    with PredictionWriter(folder, False) as writer:
        for prediction in predict(
            read_examples(SquadData(path), ExampleOptions(False)),
            *scores,
            tokenizer=tokenizer,
            window_options=WindowOptions(),
            options=AnswerOptions(),
        ):
            writer.write(prediction)
            number += 1
    return number


def main(_):
    """Compares both ways twice."""
    train, dev, vocab_file = (
        f"{FLAGS.real_data}/{name}"
        for name in (
            "squad/train-v1.1.json",
            "squad/dev-v1.1.json",
            "vocab/uncased/vocab.txt",
        )
    )
    with tempfile.TemporaryDirectory() as folder:
        compare(
            "windows",
            lambda: write_plainly(train, vocab_file, folder),
            lambda: write_here(train, vocab_file, folder),
        )
        tokenizer = FullTokenizer(vocab_file)
        questions = [
            (words, reference.windows(question, words, tokenizer, **LENGTHS))
            for _, question, words in reference.read(dev)
        ]
        num_windows = sum(len(windows) for _, windows in questions)
        scores = np.random.default_rng(0).normal(size=(2, num_windows, 384))
        scores = scores.astype(np.float32)
        plain_scores = scores.tolist()
        compare(
            "questions",
            lambda: answer_plainly(questions, plain_scores),
            lambda: answer_here(dev, tokenizer, scores, folder),
        )


if __name__ == "__main__":
    flags.DEFINE_string("real_data", None, "See above.", required=True)
    flags.DEFINE_integer("repeats", 3, "Runs of each way.")
    app.run(main)
