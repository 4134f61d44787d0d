"""What bench.py measures on: a folder of data, made where none is given.

The made folder is laid out as that of the real data, so that nothing behind
this file knows which of both it reads. Its English is what `make demo` takes;
its sentences are words in a random order, as long as those of the real sets:
speed depends on nothing else.
"""

import gzip
import itertools
import json
import subprocess
import sys
from pathlib import Path

import numpy as np

from benchmarks.peers import inputs
from benchmarks.peers.cases import VOCAB_SIZE
from data.finetuning.features import FeatureOptions
from data.finetuning.records import make_records
from data.squad import records as squad_records
from data.squad.articles import SquadData
from data.squad.examples import ExampleOptions
from data.squad.windows import WindowOptions
from data.storage import files
from data.tasks import get_task
from data.text.tokenization import FullTokenizer

ROOT = Path(__file__).resolve().parent.parent
VOCAB = "vocab/uncased/vocab.txt"
NOVELS = "novels/novels_train.txt.gz"
# Wordpieces of an example, [CLS] and [SEP] included: the 2.5th, 7.5th, ...
# percentile of the train sets with the released uncased vocabulary, at 128
# and, SQuAD's windows, at 384.
LENGTHS = {
    "cola": (
        *(6, 7, 7, 8, 8, 9, 9, 9, 10, 10),
        *(11, 11, 12, 12, 13, 13, 14, 16, 18, 22),
    ),
    "rte": (
        *(25, 31, 35, 38, 41, 44, 46, 48, 51, 54),
        *(57, 61, 64, 69, 78, 93, 113, 128, 128, 128),
    ),
    "squad": (
        *(62, 88, 106, 118, 125, 132, 138, 144, 150, 157),
        *(166, 174, 183, 193, 205, 218, 241, 268, 302, 384),
    ),
}
_FOLDERS = {"cola": "glue/CoLA", "rte": "glue/RTE"}
_SIZES = {"train": 2000, "dev": 640}  # examples of a made set
_QUESTION = 12  # words
_COPIES = 12  # of the demo's corpus, 1.7 MB


def make_data(folder):
    """Makes a folder of data from nothing.

    Args:
      folder: where to; what an earlier call made is made anew.
    """
    for name in (VOCAB, NOVELS, *(f"{f}/x" for f in _FOLDERS.values())):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / "squad").mkdir(exist_ok=True)
    _make_text(folder)
    vocab = FullTokenizer(str(folder / VOCAB)).vocab
    words = [w for w in vocab if w.isascii() and w.isalpha() and len(w) > 2]
    rng = np.random.default_rng(1)

    def text(size):
        return " ".join(rng.choice(words, size))

    for part, count in _SIZES.items():
        made = {
            name: list(itertools.islice(itertools.cycle(lengths), count))
            for name, lengths in LENGTHS.items()
        }
        for lengths in made.values():
            rng.shuffle(lengths)
        _write_cola(folder, part, made["cola"], text)
        _write_rte(folder, part, made["rte"], text)
        _write_squad(folder, part, made["squad"], text)


def _make_text(folder):
    """The demo's corpus, and a vocabulary of it."""
    plain = folder / "novels/corpus.txt"
    for arguments in (
        (
            *("-m", "demo.corpus", f"--train_output={plain}"),
            f"--eval_output={folder}/novels/held_out.txt",
        ),
        (
            *("build_vocab.py", f"--input_file={plain}"),
            *(f"--output_file={folder / VOCAB}", f"--vocab_size={VOCAB_SIZE}"),
        ),
    ):
        subprocess.run(
            [sys.executable, *arguments],
            cwd=ROOT,
            check=True,
            capture_output=True,
        )
    # As long as the real novels: in less, starting costs more than working.
    text = (plain.read_bytes() + b"\n") * _COPIES
    (folder / NOVELS).write_bytes(gzip.compress(text, compresslevel=1))
    # The text has words for a fourth of the released vocabulary.
    vocab = list(files.read_lines(str(folder / VOCAB)))
    vocab += [f"[unused{i}]" for i in range(VOCAB_SIZE - len(vocab))]
    files.write_text(str(folder / VOCAB), "\n".join([*vocab, ""]))


def _write_cola(folder, part, lengths, text):
    """source, label, mark, sentence; no header."""
    rows = (f"x\t{n % 2}\t\t{text(n - 2)}\n" for n in lengths)
    files.write_text(str(folder / f"glue/CoLA/{part}.tsv"), "".join(rows))


def _write_rte(folder, part, lengths, text):
    """index, sentence1, sentence2, label."""
    labels = ("entailment", "not_entailment")
    rows = ["index\tsentence1\tsentence2\tlabel\n"]
    for i, length in enumerate(lengths):
        short = (length - 3) // 4
        pair = f"{text(length - 3 - short)}\t{text(short)}"
        rows.append(f"{i}\t{pair}\t{labels[i % 2]}\n")
    files.write_text(str(folder / f"glue/RTE/{part}.tsv"), "".join(rows))


def _write_squad(folder, part, lengths, text):
    """A question for each paragraph, which is one window."""
    paragraphs = []
    for i, length in enumerate(lengths):
        context = text(length - 3 - _QUESTION)
        answer = context.split()[-1]
        start = len(context) - len(answer)
        question = {
            "id": f"{part}{i}",
            "question": text(_QUESTION),
            "answers": [{"text": answer, "answer_start": start}],
        }
        paragraphs.append({"context": context, "qas": [question]})
    article = {"title": "made", "paragraphs": paragraphs}
    files.write_text(
        str(folder / f"squad/{part}-v1.1.json"),
        json.dumps({"version": "1.1", "data": [article]}),
    )


def training_records(name, data, folder):
    """Writes the records of a train set, as the programs do.

    Args:
      name: key of `LENGTHS`.
      data: folder of the data.
      folder: where to.

    Returns:
      The record file; and places of its rows by those that are not padding.
    """
    vocab, path = str(data / VOCAB), str(folder / f"{name}.tf_record")
    if name == "squad":
        report = squad_records.make_records(
            SquadData(str(data / "squad/train-v1.1.json")),
            path,
            vocab_file=vocab,
            do_lower_case=True,
            example_options=ExampleOptions(is_training=True),
            window_options=WindowOptions(max_seq_length=384),
        )
    else:
        task = get_task(name, str(data / _FOLDERS[name]))
        report = make_records(
            task,
            "train",
            path,
            FullTokenizer(vocab),
            FeatureOptions.of_task(task, 128),
        )
    return path, report.num_places / report.num_tokens


def small_task(data, folder, count):
    """The first rows of CoLA's train set, as a data_dir of their own."""
    lines = files.read_lines(str(data / "glue/CoLA/train.tsv"))
    made = folder / "small"
    made.mkdir(exist_ok=True)
    rows = (f"{line}\n" for line in itertools.islice(lines, count))
    files.write_text(str(made / "train.tsv"), "".join(rows))
    return made


def text_of_size(source, path, megabytes):
    """Writes a text of some size: the source, repeated or cut.

    Args:
      source: text file, also a gzipped one.
      path: where to.
      megabytes: of 10**6 bytes, to the next end of a line; 0 = the source as
        it is.

    Returns:
      The path, as a string.
    """
    lines, size = inputs.read_text(str(source), megabytes)
    with files.whole_files([str(path)]) as (temporary,):
        with open(temporary, "w", encoding="utf-8", newline="\n") as file:
            for _ in range(int(megabytes * 1e6 / size)):
                file.writelines(f"{line}\n" for line in [*lines, ""])
            left = megabytes * 1e6 % size if megabytes else size
            for line in lines:
                if left <= 0:
                    break
                file.write(f"{line}\n")
                left -= len(line.encode()) + 1
    return str(path)
