"""Small runs of run_squad.py on the golden files."""

import json

import numpy as np

from data.squad.window_options import AnswerOptions, WindowOptions
from tests.support import rounding
from tests.training import finetuning_support
from training.config.squad_options import SquadOptions
from training.runs import questions

# Scores of the golden model are about 3, each with an error of EQUAL times as
# much. A difference of four has twice the deviation of one.
LOGIT = 3 * rounding.EQUAL


def make_options(goldens, output_dir, version="v1.1", **changes):
    """Options for the golden files, in windows of 96 with a stride of 32."""
    return SquadOptions(
        vocab_file=str(goldens / "vocab.txt"),
        train_file=str(goldens / f"squad/train-{version}.json"),
        predict_file=str(goldens / f"squad/dev-{version}.json"),
        do_predict=True,
        finetuning=finetuning_support.make_options(
            goldens,
            output_dir,
            init_checkpoint=str(goldens / f"squad/finetuned_{version}"),
            max_seq_length=96,
            num_train_epochs=1.0,
            learning_rate=1e-4,
        ),
        windows=WindowOptions(96, doc_stride=32, max_query_length=16),
        answers=AnswerOptions(
            version_2_with_negative=version == "v2.0",
            null_score_diff_threshold=None,
        ),
    ).replace(**changes)


def run(goldens, output_dir, version="v1.1", **changes):
    """Runs; returns what was written as JSON, by name."""
    questions.run(make_options(goldens, output_dir, version, **changes))
    return read_answers(output_dir)


def read_answers(output_dir):
    """What a run has written as JSON, by name."""
    return {
        path.stem: json.loads(path.read_text("utf-8"))
        for path in output_dir.glob("*.json")
        if "manifest" not in path.name
    }


def questions_of(path):
    """Id -> question of a file."""
    return {
        question["id"]: question
        for article in json.loads(path.read_text("utf-8"))["data"]
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
    }


def same_answers(one, other):
    """Whether two n-best lists are equal except for rounding.

    Which of two equal scores comes first, rounding says, too.
    """
    assert one.keys() == other.keys()
    for qas_id, answers in one.items():
        scores, its_scores = (
            [
                [x["start_logit"] + x["end_logit"], x["probability"]]
                for x in some
            ]
            for some in (answers, other[qas_id])
        )
        np.testing.assert_allclose(scores, its_scores, atol=2 * LOGIT)
