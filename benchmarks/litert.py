"""Measures an export of LiteRT: sizes, scores of the dev set, milliseconds.

Each of its files answers the dev set by `bert.load(FILE)`, one text after the
other on one thread. A model of vectors is scored on pairs of texts with a
number: --task_name=STS-B.
"""

import dataclasses
import json
from pathlib import Path

import numpy as np
from absl import logging

import bert
from benchmarks import programs
from benchmarks.peers.protocol import elapsed
from data import tables
from data.settings import Settings, optional, setting
from data.squad.articles import SquadData
from data.squad.examples import read_examples
from data.squad.scoring import Scorer
from data.storage.json_files import read_json
from data.tasks import get_task
from data.tasks.examples import TextExample
from data.vectors import retrieval
from training import program
from training.config import flags
from training.export import litert_answers, litert_model

_TEXT = "He left, and it was good. "
TEXTS = {"short": _TEXT, "long": _TEXT * 16}
TURNS = 200
_FIRST = (
    "import json, sys\n"
    "from training.export.litert_answers import load\n"
    "load(sys.argv[1]).answer(*json.loads(sys.argv[2]))"
)


class LitertOptions(Settings):
    """What is measured."""

    export_dir: str = setting(help="The export.")
    data_dir: str | None = optional("Folder of the task's dev set.")
    task_name: str | None = optional("Another task than the model's.")
    predict_file: str | None = optional("Questions in SQuAD's form.")


def scores(model, said, data):
    """Scores the answers of a `bert.Model` to the dev set: metric -> value.

    `said` is its task.json. `data` are `predict_file` for questions; else
    `data_dir`, and, if they are not the model's, `task_name`, `task_options`.
    """
    if said["kind"] == "span":
        return _scores_of_questions(model, said, data["predict_file"])
    is_own = said["kind"] != "vectors"
    columns = said["columns"] if is_own else {}
    columns = columns | data.get("task_options", {})
    name = data.get("task_name") or said["task_name"]
    task = get_task(name, data["data_dir"], **columns)
    examples, gold = list(task.examples("dev")), task.gold("dev")
    if not is_own:
        pairs = [(x.text_a, x.text_b) for x in examples]
        found = retrieval.pair_set(map(TextExample, pairs, gold))
        return found.evaluate(model.encode(found.texts))
    if said["kind"] == "tagging":
        tag = litert_answers.load(model.folder).label_words
        return task.score(gold, [tag(x.words)[0] for x in examples])
    is_pair = said["is_pair"]
    texts = [(x.text_a, x.text_b) if is_pair else x.text_a for x in examples]
    answers = model.predict(texts)
    labels = said["labels"]
    if said["kind"] == "regression":
        found = [x["score"] for x in answers]
    elif said["kind"] == "multilabel":
        found = [[int(y in x["labels"]) for y in labels] for x in answers]
    else:
        found = [labels.index(answer["label"]) for answer in answers]
    return task.score(gold, np.array(found))


def _scores_of_questions(model, said, predict_file):
    """Exact match and F1 of the answers to a file of SQuAD."""
    has_null = said["version_2_with_negative"]
    examples = read_examples(SquadData(predict_file).read())
    examples = [x for x in examples if x.is_scored(has_null)]
    scorer = Scorer(has_null)
    texts = [(x.question_text, x.paragraph.context) for x in examples]
    for example, found in zip(examples, model.answer(texts), strict=True):
        scorer.add(found["answer"], example.answers)
    return scorer.results()


def milliseconds(models, said):
    """Times the answers to a short and to a long text, in turns.

    `models` are name -> a `bert.Model` of one task, `said` is their task.json.
    Returns name -> `short`, `long` -> the times of `TURNS` answers.
    """
    times = {name: {kind: [] for kind in TEXTS} for name in models}
    for turn in range(TURNS + 1):
        for name, model in models.items():
            ask = model.encode if said["kind"] == "vectors" else model.ask
            for kind, text in TEXTS.items():
                texts = texts_of(said, text)
                texts = [texts[0] if len(texts) == 1 else texts]
                passed = 1e3 * elapsed(ask, texts)
                if turn:  # the first one traces the graph
                    times[name][kind].append(passed)
    return times


def texts_of(said, text):
    """The texts of one answer of the model."""
    if said["kind"] == "span":
        return "Who left?", text
    if said["kind"] == "choice":
        return text, [text] * len(said["labels"])
    return (text, text) if said.get("is_pair") else (text,)


def _first_answer(place, said):
    """Seconds from the start of a process to its first answer."""
    texts = json.dumps(texts_of(said, TEXTS["short"]))
    return elapsed(programs.run_program, "-c", _FIRST, place, texts)


def main():
    """Measures the files of an export."""
    options = flags.read(LitertOptions)
    logging.set_verbosity(logging.WARNING)
    if not (path := litert_model.find(options.export_dir)):
        raise ValueError(
            f"--export_dir={options.export_dir} has no export of LiteRT."
        )
    program.load_tensorflow()
    folder = Path(path).resolve().parent
    said = read_json(str(folder / "task.json"))
    names = (litert_model.FLOAT, litert_model.INT8)
    models = {name: bert.load(str(folder / name)) for name in names}
    times = milliseconds(models, said)
    rows = []
    for name, model in models.items():
        row = {"": name, "MB": (folder / name).stat().st_size / 1e6}
        row |= scores(model, said, dataclasses.asdict(options))
        for kind in TEXTS:
            row[f"ms, {kind} text"] = min(times[name][kind])
        first = _first_answer(str(folder / name), said)
        rows.append(row | {"s, first answer": first})
    print(programs.processor())
    print(tables.aligned([[*rows[0]], *([*row.values()] for row in rows)]))
    print(f"8 bits: {rows[1]['MB'] / rows[0]['MB']:.3f} of the float file")


if __name__ == "__main__":
    flags.define(LitertOptions)
    program.run(main)
