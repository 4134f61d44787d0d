"""Measures an export of LiteRT: sizes, scores of the dev set, milliseconds.

Each of its files answers the dev set by `bert.load(FILE)`, one text after the
other on one thread. --output_dir, the folder of the run, adds a line for the
model itself. A model of vectors is scored on pairs of texts with a number:
--task_name=STS-B.
"""

import itertools
import json
import os
import sys
from pathlib import Path

import numpy as np
from absl import app, flags, logging

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import bert  # noqa: E402
from benchmarks import programs  # noqa: E402
from benchmarks.peers.protocol import elapsed  # noqa: E402
from data import tables  # noqa: E402
from data.squad.articles import SquadData  # noqa: E402
from data.squad.examples import read_examples  # noqa: E402
from data.squad.scoring import Scorer  # noqa: E402
from data.tasks import get_task  # noqa: E402
from data.tasks.examples import TextExample  # noqa: E402
from data.vectors import retrieval  # noqa: E402
from training.export import litert_model  # noqa: E402

FLAGS = flags.FLAGS
_TEXT = "He left, and it was good. "
TEXTS = {"short": _TEXT, "long": _TEXT * 16}
TURNS = 200
_FIRST = (
    "import json, sys, bert\n"
    "bert.load(sys.argv[1])._predictors[()].answer(*json.loads(sys.argv[2]))"
)


def scores(model, said, data):
    """Scores the answers of a model to the dev set.

    Args:
      model: a `bert.Model`.
      said: its task.json.
      data: `predict_file` for questions; else `data_dir`, and if they are not
        the model's `task_name` and `task_options`.

    Returns:
      metric -> value.
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
        tag = model._predictors[()].label_words
        return task.score(gold, [tag(x.words)[0] for x in examples])
    is_pair = said["is_pair"]
    texts = [(x.text_a, x.text_b) if is_pair else x.text_a for x in examples]
    answers = model.predict(texts)
    labels = said["labels"]
    if said["kind"] == "regression":
        return task.score(gold, np.array([x["score"] for x in answers]))
    if said["kind"] == "multilabel":
        found = [[name in x["labels"] for name in labels] for x in answers]
        return task.score(gold, np.array(found, int))
    found = [labels.index(answer["label"]) for answer in answers]
    return task.score(gold, np.array(found))


def _scores_of_questions(model, said, predict_file):
    """Exact match and F1 of the answers to a file of SQuAD."""
    is_new = said["version_2_with_negative"]
    data = SquadData(predict_file).read()
    examples = list(read_examples(data))
    scorer = Scorer(is_new)
    texts = [(x.question_text, x.paragraph.context) for x in examples]
    for example, found in zip(examples, model.answer(texts), strict=True):
        scorer.add(found["answer"], example.answers)
    return scorer.results()


def milliseconds(models, said):
    """Times the answers to a short and to a long text, in turns.

    Args:
      models: name -> a `bert.Model` of one task.
      said: their task.json.

    Returns:
      name -> `short`, `long` -> the times of `TURNS` answers.
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


def main(_):
    """Measures the files, and the run's model."""
    logging.set_verbosity(logging.WARNING)
    if not (path := litert_model.find(FLAGS.export_dir)):
        raise app.UsageError(
            f"--export_dir={FLAGS.export_dir} has no export of LiteRT."
        )
    folder = os.path.dirname(path)
    said = json.loads(Path(folder, "task.json").read_text("utf-8"))
    names = (litert_model.FLOAT, litert_model.INT8)
    places = [os.path.abspath(os.path.join(folder, name)) for name in names]
    sizes = [os.path.getsize(place) / 1e6 for place in places]
    firsts = [_first_answer(place, said) for place in places]
    if FLAGS.output_dir:
        places.append(FLAGS.output_dir)
    models = {place: bert.load(place) for place in places}
    times = milliseconds(models, said)
    rows = []
    for place, megabytes, first in itertools.zip_longest(places, sizes, firsts):
        row = {"": os.path.basename(place), "MB": megabytes}
        row |= scores(models[place], said, FLAGS.flag_values_dict())
        for kind in TEXTS:
            row[f"ms, {kind} text"] = min(times[place][kind])
        rows.append(row | {"s, first answer": first})
    print(programs.processor())
    print(tables.aligned([[*rows[0]], *([*row.values()] for row in rows)]))
    print(f"8 bits: {sizes[1] / sizes[0]:.3f} of the float file")


if __name__ == "__main__":
    flags.DEFINE_string("export_dir", None, "The export.", required=True)
    flags.DEFINE_string("data_dir", None, "Folder of the task's dev set.")
    flags.DEFINE_string("task_name", "", "Another task than the model's.")
    flags.DEFINE_string("predict_file", None, "Questions in SQuAD's form.")
    flags.DEFINE_string("output_dir", None, "The run's folder, for its model.")
    app.run(main)
