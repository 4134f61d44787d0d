r"""Compares an export's answers with predictions.json, question by question.

  python benchmarks/squad_export.py --output_dir=RUN --export_dir=EXPORT \
    --predict_file=DIR/squad/dev-v1.1.json

RUN is the output_dir of a finished run_squad.py --do_predict --do_export
--export_dir=EXPORT. Prints the share of equal answers, equal normalised
answers (the rules of the official score) and exact slices of the context, how
far probabilities are apart, and each question whose answers differ at all:
with the export's place in the list of nbest_predictions.json.
"""

import json
import sys
import time
from pathlib import Path

from absl import app, flags

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from data.squad.articles import SquadData  # noqa: E402
from data.squad.examples import ExampleOptions, read_examples  # noqa: E402
from data.squad.scoring import normalize_answer  # noqa: E402
from training.export.predictor import Predictor  # noqa: E402

FLAGS = flags.FLAGS


def read_json(name):
    """Reads a file of the run."""
    return json.loads((Path(FLAGS.output_dir) / name).read_text("utf-8"))


def show(example, answer, predicted, nbest):
    """Prints a question whose answers differ."""
    texts = [entry["text"] for entry in nbest]
    place = "not among them"
    if answer["answer"] in texts:
        place = f"number {texts.index(answer['answer']) + 1} of the program's"
    around = slice(max(answer["start"] - 20, 0), answer["end"] + 20)
    print(
        f"{example.qas_id}: {example.question_text}\n"
        f"  program {predicted!r} ({nbest[0]['probability']:.4f})\n"
        f"  export  {answer['answer']!r} ({answer['probability']:.4f}), "
        f"{place}; in {example.context[around]!r}"
    )


def main(_):
    """Asks all questions."""
    data = SquadData(FLAGS.predict_file)
    examples = list(read_examples(data, ExampleOptions(is_training=False)))
    predictions = read_json("predictions.json")
    nbest = read_json("nbest_predictions.json")
    predictor = Predictor.load(FLAGS.export_dir)
    start = time.perf_counter()
    answers = predictor.predict(
        [(x.question_text, x.context) for x in examples], FLAGS.batch_size
    )
    elapsed = time.perf_counter() - start
    equal = normalised = slices = 0
    apart = []
    for example, answer in zip(examples, answers, strict=True):
        predicted = predictions[example.qas_id]
        equal += answer["answer"] == predicted
        place = slice(answer["start"], answer["end"])
        slices += answer["answer"] == example.context[place]
        if answer["answer"] != predicted:
            show(example, answer, predicted, nbest[example.qas_id])
        if normalize_answer(answer["answer"]) == normalize_answer(predicted):
            normalised += 1
            (probability,) = {
                entry["probability"]
                for entry in nbest[example.qas_id]
                if entry["text"] == predicted
            }
            apart.append(abs(answer["probability"] - probability))
    for what, count in (
        ("equal normalised answers", normalised),
        ("equal answers", equal),
        ("exact slices", slices),
    ):
        share = count / len(examples)
        print(f"{what}: {count} of {len(examples)}, {share:.2%}")
    print(
        f"probabilities apart: {max(apart):.2g} at most, of "
        f"{sum(x > 0.001 for x in apart)} more than 0.001\n"
        f"{len(examples) / elapsed:.1f} questions/s"
    )


if __name__ == "__main__":
    flags.DEFINE_string("output_dir", None, "See above.", required=True)
    flags.DEFINE_string("export_dir", None, "See above.", required=True)
    flags.DEFINE_string("predict_file", None, "See above.", required=True)
    flags.DEFINE_integer("batch_size", 16, "Questions asked at once.")
    app.run(main)
