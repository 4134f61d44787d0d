"""Trains sentence vectors, here and by sentence-transformers: a table.

It needs `make peers`. --data holds glue/STS-B and squad/{train,dev}-v1.1.json.
Both sides read the same rows, in batches, epochs, rates and seeds that are
equal; their vectors are scored by the same function.
"""

import hashlib
import json
import os
import subprocess
from pathlib import Path

import numpy as np

from benchmarks.peers.inputs import SQUAD
from benchmarks.programs import (
    python_of,
    require_known,
    require_same,
    run_with_log,
)
from benchmarks.tables import table
from data.settings import Settings, setting
from data.squad.articles import SquadData
from data.squad.examples import read_examples
from data.storage import files
from data.storage.json_files import read_json, write_json
from data.tasks.examples import TextExample
from data.vectors import retrieval
from data.vectors.text_sets import PAIR, TextOptions, TextSets
from training import program
from training.config import flags

# Name -> what differs. Rates were not tuned for either side.
TASKS = {
    "sts": {"loss": "cosent", "epochs": 2, "batch": 32, "length": 64},
    "squad": {"loss": "negatives", "epochs": 1, "batch": 64, "length": 128},
}
SIDES = ("ours", "sentence-transformers")


class Options(Settings):
    """What is compared."""

    data: str = setting(help="Folder of the data sets.")
    checkpoint: str = setting(help="The pretrained model, with its vocabulary.")
    output_dir: str = setting(help="Folder of the runs.")
    tasks: tuple[str, ...] = setting(tuple(TASKS), "Of sts, squad.")
    seeds: int = setting(3, "Runs of each side.", least=1)
    learning_rate: float = setting(1e-4, "Of both sides.", above=0)

    def _check(self) -> None:
        require_known("tasks", self.tasks, TASKS)


def examples(task, part, data):
    """The pairs of texts of a set, with scores if it has them."""
    if task == "sts":
        place = {"task_name": "STS-B", "data_dir": f"{data}/glue/STS-B"}
        given = TextOptions(text_columns=PAIR, **place)
        return list(TextSets(options=given, scored=True).examples(part))
    articles = SquadData(f"{data}/{SQUAD.format(part)}").read()
    return [
        TextExample((x.question_text, x.paragraph.context))
        for x in read_examples(articles)
    ]


def ours(options, task, folder, seed, do_train):
    """Runs run_sentence_vectors.py; returns its metrics."""
    wanted, rows = TASKS[task], f"{options.output_dir}/{task}"
    if not (folder / "metrics.json").exists():
        run_with_log(
            Path(f"{folder}.log"),
            "run_sentence_vectors.py",
            do_train=do_train,
            do_eval=True,
            task_name="jsonl",
            train_file=f"{rows}_train.jsonl",
            dev_file=f"{rows}_dev.jsonl",
            init_checkpoint=options.checkpoint,
            output_dir=folder,
            loss=wanted["loss"],
            max_seq_length=wanted["length"],
            num_train_epochs=wanted["epochs"],
            train_batch_size=wanted["batch"],
            eval_batch_size=64,
            learning_rate=options.learning_rate,
            seed=seed,
        )
    return read_json(str(folder / "metrics.json"))["dev"]


def theirs(folder, **request):
    """Runs their_vectors.py; returns the array that it writes."""
    folder.mkdir(parents=True, exist_ok=True)
    vectors = folder / "vectors.npy"
    script = Path(__file__).with_name("their_vectors.py")
    if not vectors.exists():
        request |= {"folder": str(folder), "vectors": str(vectors)}
        subprocess.run(
            [python_of("peers"), script],
            input=json.dumps(request),
            text=True,
            check=True,
            env=os.environ | {"HF_HUB_OFFLINE": "1"},
        )
    return np.load(vectors)


def measure(options, task):
    """Side -> its scores, one mapping of metrics for each seed."""
    folder, wanted = Path(options.output_dir, task), TASKS[task]
    for part in "train", "dev":
        rows, text = examples(task, part, options.data), ""
        for row in rows:
            score = {} if row.score is None else {"score": row.score}
            values = dict(zip(PAIR, row.texts, strict=True)) | score
            text += json.dumps(values) + "\n"
        same = {f"{task}_{part}": hashlib.sha256(text.encode()).hexdigest()}
        require_same(options.output_dir, **same)
        files.write_text(f"{options.output_dir}/{task}_{part}.jsonl", text)
    pairs = retrieval.pair_set(rows)
    texts = folder.with_name(f"{task}_texts.json")
    write_json(str(texts), list(pairs.texts))
    untrained = ours(options, task, folder / "untrained", 1, False)
    found = {"untrained mean": [untrained]} | {side: [] for side in SIDES}
    for seed in range(1, options.seeds + 1):
        run = folder / f"ours-{seed}"
        found["ours"].append(ours(options, task, run, seed, True))
        vectors = theirs(
            folder / f"theirs-{seed}",
            do="train",
            model=f"{options.output_dir}/huggingface",
            train=str(folder.with_name(f"{task}_train.jsonl")),
            texts=str(texts),
            seed=seed,
            rate=options.learning_rate,
            **wanted,
        )
        found[SIDES[1]].append(pairs.evaluate(vectors))
    if not pairs.scores:
        found["BM25"] = [bm25(folder, pairs)]
    return found


def bm25(folder, pairs):
    """The metrics of BM25: its scores are the products of these vectors."""
    documents = np.unique(pairs.pairs[:, 1])
    queries = np.unique(pairs.pairs[:, 0])
    asked = [[pairs.texts[i] for i in part] for part in (queries, documents)]
    path = folder.with_name("bm25_texts.json")
    write_json(str(path), asked)
    scores = theirs(folder / "bm25", do="bm25", texts=str(path))
    # A question's vector is its scores, a document's is its own axis.
    vectors = np.zeros([len(pairs.texts), len(documents)], np.float32)
    vectors[queries], vectors[documents] = scores, np.eye(len(documents))
    return pairs.evaluate(vectors)


def rows(names, found):
    """Rows of the table: mean, least and largest of each metric."""
    for side, runs in found.items():
        cells = [side]
        for name in names:
            values = [run[name] for run in runs]
            spread = f" ({min(values):.4f} to {max(values):.4f})"
            mean = f"{np.mean(values):.4f}"
            cells.append(mean + (spread if len(values) > 1 else ""))
        yield cells


def main():
    """Trains what is missing and prints the tables."""
    options = flags.read(Options)
    program.load_tensorflow()
    from modeling.checkpoints.model_folder import weights_sha256

    require_same(
        options.output_dir,
        checkpoint=weights_sha256(options.checkpoint),
        learning_rate=options.learning_rate,
    )
    base = Path(options.output_dir, "huggingface")
    if not base.exists():
        run_with_log(
            Path(f"{base}.log"),
            "convert_checkpoint.py",
            model=options.checkpoint,
            output_dir=base,
            output_format="huggingface",
        )
    for task in options.tasks:
        found = measure(options, task)
        names = list(found["ours"][0])
        print(table((task, *names), rows(names, found)), flush=True)


if __name__ == "__main__":
    flags.define(Options)
    program.run(main)
