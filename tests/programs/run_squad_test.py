import gzip
import json

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from data.records import reading
from data.squad import windows
from data.squad.articles import SquadData
from data.squad.examples import read_examples
from data.squad.scoring import normalize_answer
from tests.support.fork_server import run_golden
from tests.support.tfds_support import TEXT, prepare
from tests.training.squad_support import LOGIT, questions_of
from training.export.predictor import Predictor

LENGTHS = ["--max_seq_length=96", "--doc_stride=32", "--max_query_length=16"]


def run(goldens, output_dir, *flags, code=0):
    """Starts the program with the golden model."""
    flags = *LENGTHS, *flags
    return run_golden(goldens, "run_squad.py", output_dir, *flags, code=code)


def read(path):
    return json.loads(path.read_text("utf-8"))


@pytest.fixture(scope="module")
def answered(goldens, tmp_path_factory):
    """The original's model asked on 2.0, with everything that is written."""
    folder = tmp_path_factory.mktemp("v2")
    done = run(
        goldens,
        folder,
        f"--train_file={goldens}/squad/train-v2.0.json",
        f"--predict_file={goldens}/squad/dev-v2.0.json",
        f"--init_checkpoint={goldens}/squad/finetuned_v2.0",
        "--version_2_with_negative",
        "--do_predict",
        "--find_null_threshold",
        "--write_html",
        "--do_export",
        f"--export_dir={folder}/export",
    )
    return folder, done.stderr


@pytest.mark.all
def test_an_export_is_of_the_model_as_it_is_made(answered, goldens):
    flags = "--do_export", "--export_dir=unused", "--n_best_size=3"
    done = run(goldens, answered[0], *flags, code=1)
    assert "--n_best_size=3: the model of " in done.stderr
    assert "with --n_best_size=20. Leave the flag out" in done.stderr


def test_every_question_is_answered_in_all_files(answered, goldens):
    folder, log = answered
    gold = list(questions_of(goldens / "squad/dev-v2.0.json"))
    predictions = read(folder / "predictions.json")
    nbest = read(folder / "nbest_predictions.json")
    odds = read(folder / "null_odds.json")
    assert list(predictions) == list(nbest) == list(odds) == gold
    page = (folder / "predictions.html").read_text("utf-8")
    assert all(json.dumps(qas_id) in page for qas_id in gold)
    assert "<title>dev-v2.0.json, step 0</title>" in page
    threshold = read(folder / "null_threshold.json")
    for qas_id, text in predictions.items():
        texts = [answer["text"] for answer in nbest[qas_id]]
        best = next((some for some in texts if some), "")
        is_null = odds[qas_id] > threshold["null_score_diff_threshold"]
        assert text == ("" if is_null else best)
    metrics = read(folder / "metrics.json")
    assert metrics["total"] == len(gold)
    assert metrics["HasAns_total"] + metrics["NoAns_total"] == len(gold)
    assert metrics["f1"] == pytest.approx(metrics["best_f1"])
    assert "The best null_score_diff_threshold is" in log
    assert "***** Results at step 0 *****" in log


def test_the_export_answers_as_the_program(answered, goldens):
    folder, _ = answered
    data = SquadData(str(goldens / "squad/dev-v2.0.json")).read()
    examples = list(read_examples(data))[::3]
    answers = Predictor.load(str(folder / "export")).predict(
        [(x.question_text, x.paragraph.context) for x in examples]
    )
    predictions = read(folder / "predictions.json")
    odds = read(folder / "null_odds.json")
    for example, answer in zip(examples, answers, strict=True):
        wanted = predictions[example.qas_id]
        assert normalize_answer(answer["answer"]) == normalize_answer(wanted)
        place = slice(answer["start"], answer["end"])
        assert answer["answer"] == example.paragraph.context[place]
        assert answer["null_score_diff"] == pytest.approx(
            odds[example.qas_id], abs=2 * LOGIT
        )


def test_the_scores_in_the_nbest_file_are_the_models(answered, goldens):
    folder, _ = answered
    with np.load(goldens / "squad/span_logits_v2.0.npz") as arrays:
        # Of [CLS], in the 16 windows of question 0.
        nulls = [arrays[f"{end}_logits"][:16, 0] for end in ("start", "end")]
    start, end = min(zip(*nulls, strict=True), key=sum)
    first, *_ = read(folder / "nbest_predictions.json").values()
    (null,) = (answer for answer in first if not answer["text"])
    assert null["start_logit"] == pytest.approx(start, abs=LOGIT)
    assert null["end_logit"] == pytest.approx(end, abs=LOGIT)
    best = next(answer for answer in first if answer["text"])
    diff = start + end - best["start_logit"] - best["end_logit"]
    odds, *_ = read(folder / "null_odds.json").values()
    assert odds == pytest.approx(diff, abs=2 * LOGIT)


def test_the_records_are_those_of_the_original(answered, goldens):
    folder, _ = answered
    features = goldens / "squad/dev-v2.0.features.json.gz"
    expected = json.loads(gzip.decompress(features.read_bytes()))
    data = tf.data.TFRecordDataset(str(folder / "eval.tf_record"))
    (batch,) = data.batch(10_000)
    found = reading.parse_batch(windows.feature_specs(96, False), batch)
    for name in ("input_ids", "input_mask", "segment_ids"):
        np.testing.assert_array_equal(
            found[name], [window[name] for window in expected]
        )


def tfds_rows(article):
    """The questions of an article as examples of tensorflow-datasets."""
    return [
        {
            "id": question["id"],
            "title": article["title"],
            "context": paragraph["context"],
            "question": question["question"],
            "answers": {
                name: [answer[name] for answer in question["answers"]]
                for name in ("text", "answer_start")
            },
        }
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
    ]


@pytest.mark.all
def test_questions_of_a_data_set(goldens, tmp_path):
    rows = tfds_rows(read(goldens / "squad/dev-v1.1.json")["data"][0])
    features = dict.fromkeys(("id", "title", "context", "question"), TEXT)
    features["answers"] = tfds.features.Sequence(
        {"text": TEXT, "answer_start": np.int32}
    )
    folder = prepare(
        tmp_path, "my_squad", features, {"train": rows, "validation": rows}
    )
    run(
        goldens,
        tmp_path / "out",
        "--tfds=my_squad",
        f"--tfds_data_dir={folder}",
        f"--init_checkpoint={goldens}/squad/finetuned_v1.1",
        "--do_train",
        "--do_predict",
        "--train_batch_size=4",
        "--num_train_epochs=1",
    )
    predictions = read(tmp_path / "out/predictions.json")
    assert predictions.keys() == {row["id"] for row in rows}
    metrics = read(tmp_path / "out/metrics.json")
    assert metrics["total"] == len(rows)
    assert metrics["global_step"] == len(rows) // 4
