"""The data that bench.py measures on; made if no folder is given.

The made folder has the layout of the real data. Its text is that of `make
demo`. Its sentences are random words, as long as those of the real sets,
because speed depends on their lengths alone.
"""

import gzip
import itertools

import numpy as np

from benchmarks.peers import inputs
from benchmarks.peers.cases import VOCAB_SIZE
from benchmarks.peers.inputs import GLUE, NOVELS, SQUAD, VOCAB
from benchmarks.programs import run_program
from data.storage import files
from data.storage.json_files import write_json

# Wordpieces of an example, [CLS] and [SEP] included: the 2.5th, 7.5th, ...
# percentile of the train sets with the released uncased vocabulary, at a
# maximum of 128, and of 384 for SQuAD's windows.
_LENGTHS = {
    "cola": "6 7 7 8 8 9 9 9 10 10 11 11 12 12 13 13 14 16 18 22",
    "rte": "25 31 35 38 41 44 46 48 51 54 57 61 64 69 78 93 113 128 128 128",
    "squad": "62 88 106 118 125 132 138 144 150 157 166 174 183 193 205 218 "
    "241 268 302 384",
}
_QUESTION = 12  # words
_COPIES = 12  # of the demo's corpus, 1.7 MB


def make_data(folder):
    """Makes a folder of data, and replaces what an earlier call made."""
    for name in (VOCAB, NOVELS, SQUAD, *(f"{f}/x" for f in GLUE.values())):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
    _make_text(folder)
    text = inputs.random_words(str(folder / VOCAB), seed=1)
    rng = np.random.default_rng(1)
    writers = {"cola": _write_cola, "rte": _write_rte, "squad": _write_squad}
    for part, count in ("train", 2000), ("dev", 640):
        for name, write in writers.items():
            lengths = [int(length) for length in _LENGTHS[name].split()]
            lengths = rng.permutation(np.resize(lengths, count))
            write(folder, part, lengths, text)


def _make_text(folder):
    """Writes the demo's corpus and a vocabulary made of it."""
    plain = folder / "novels/corpus.txt"
    held_out = folder / "novels/held_out.txt"
    made = {"train_output": plain, "eval_output": held_out}
    run_program("-m", "demo.corpus", **made)
    wanted = {"output_file": folder / VOCAB, "vocab_size": VOCAB_SIZE}
    run_program("build_vocab.py", input_file=plain, **wanted)
    # As long as the real novels, so that start-up takes the lesser part.
    text = (plain.read_bytes() + b"\n") * _COPIES
    (folder / NOVELS).write_bytes(gzip.compress(text, compresslevel=1))
    # The text has words for a fourth of the released vocabulary.
    vocab = list(files.read_lines(str(folder / VOCAB)))
    vocab += [f"[unused{i}]" for i in range(VOCAB_SIZE - len(vocab))]
    files.write_text(str(folder / VOCAB), "\n".join([*vocab, ""]))


def _write_cola(folder, part, lengths, text):
    """source, label, mark, sentence; no header."""
    rows = (f"x\t{n % 2}\t\t{text(n - 2)}\n" for n in lengths)
    files.write_text(f"{folder}/{GLUE['cola']}/{part}.tsv", "".join(rows))


def _write_rte(folder, part, lengths, text):
    """index, sentence1, sentence2, label."""
    rows = ["index\tsentence1\tsentence2\tlabel\n"]
    for i, length in enumerate(lengths):
        short = (length - 3) // 4
        label = ("entailment", "not_entailment")[i % 2]
        first, second = text(length - 3 - short), text(short)
        rows.append(f"{i}\t{first}\t{second}\t{label}\n")
    files.write_text(f"{folder}/{GLUE['rte']}/{part}.tsv", "".join(rows))


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
    whole = {"version": "1.1", "data": [article]}
    write_json(str(folder / SQUAD.format(part)), whole)


def small_task(data, folder, count):
    """Writes the first rows of CoLA's train set; returns their data_dir."""
    lines = files.read_lines(f"{data}/{GLUE['cola']}/train.tsv")
    made = folder / "small"
    made.mkdir(exist_ok=True)
    rows = (f"{line}\n" for line in itertools.islice(lines, count))
    files.write_text(str(made / "train.tsv"), "".join(rows))
    return made


def text_of_size(source, path, megabytes):
    """Writes a text of some size, to the next line: the source again or cut."""
    lines, left = inputs.read_text(source, megabytes)[0], megabytes * 1e6
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        for line in itertools.cycle([*lines, ""]):
            if left <= 0:
                return
            file.write(f"{line}\n")
            left -= len(line.encode()) + 1
