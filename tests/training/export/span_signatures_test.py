"""Questions answered by an export, as run_squad.py answers them."""

import numpy as np
import pytest
import tensorflow as tf

from data.records.feature_spec import encode_examples
from data.squad.answers import predict
from data.squad.articles import SquadData
from data.squad.examples import read_examples
from data.squad.scoring import normalize_answer
from data.squad.windows import columns, convert_examples, feature_specs
from data.text.tokenization import FullTokenizer
from tests.support import rounding
from tests.support.model_folders import write_questions
from tests.support.serving_support import INPUTS, assert_served_alike, export
from tests.support.tiers import rare
from training.export import saved_model
from training.export.predictor import Predictor

LENGTH = 96


@pytest.fixture(scope="module", params=[rare("v1.1"), "v2.0"])
def answered(request, goldens, tmp_path_factory):
    """Version, examples, the folder and its model."""
    version = request.param
    folder = tmp_path_factory.mktemp("squad")
    write_questions(goldens, folder, version, "bert_config.json")
    data = SquadData(str(goldens / f"squad/dev-{version}.json")).read()
    read = read_examples(data)
    return version, list(read), folder, saved_model.load(str(folder))


def rows_of(goldens, examples, serving):
    """The inputs of all windows, name -> int32 [N, LENGTH]."""
    tokenizer = FullTokenizer(str(goldens / "vocab.txt"))
    converted = convert_examples(
        examples, tokenizer, serving.description.windows
    )
    windows = [window for _, windows in converted for window in windows]
    found = columns(windows, LENGTH)
    return {name: found[name].astype(np.int32) for name in INPUTS}


def test_scores_of_ids_and_records_are_the_original_s(answered, goldens):
    version, examples, _, serving = answered
    rows = rows_of(goldens, examples, serving)
    rows = {name: x[:24] for name, x in rows.items()}
    specs = [s for s in feature_specs(LENGTH, False) if s.name in INPUTS]
    records = tf.constant(encode_examples(specs, rows))
    functions = serving.signatures
    answers = [
        functions["serving_default"](**rows),
        functions["serve_ids"](rows["input_ids"]),
        functions["serve_examples"](records),
    ]
    real = rows["input_mask"] == 1
    with np.load(goldens / f"squad/span_logits_{version}.npz") as wanted:
        for answer in answers:
            for name in "start_logits", "end_logits":
                assert answer[name].shape == real.shape
                rounding.assert_equal(
                    answer[name].numpy()[real],
                    wanted[name][:24][real],
                    rtol=rounding.EQUAL,
                )


def test_padding_of_all_rows_has_the_least_score(answered, goldens):
    _, examples, _, serving = answered
    rows = rows_of(goldens, examples, serving)
    rows = {name: np.pad(x[:4], [(0, 0), (0, 4)]) for name, x in rows.items()}
    logits = serving.signatures["serving_default"](**rows)
    for name in "start_logits", "end_logits":
        assert (logits[name].numpy()[:, LENGTH:] == -1e9).all()


def expected(answered, goldens):
    """What the programs answer, by the model's own scores."""
    _, examples, _, serving = answered
    serve = serving.signatures["serving_default"]
    logits = serve(**rows_of(goldens, examples, serving))
    tokenizer = FullTokenizer(str(goldens / "vocab.txt"))
    windows = serving.description.windows
    return predict(
        list(convert_examples(examples, tokenizer, windows)),
        np.stack([logits["start_logits"], logits["end_logits"]], axis=2),
        options=serving.description.answers,
    )


def test_answers_are_exact_slices_and_those_of_the_program(answered, goldens):
    version, examples, _, serving = answered
    texts = [(x.question_text, x.paragraph.context) for x in examples]
    answers = Predictor(serving.signatures).predict(texts, batch_size=7)
    equal = 0
    for example, answer, prediction in zip(
        examples, answers, expected(answered, goldens), strict=True
    ):
        place = slice(answer["start"], answer["end"])
        assert answer["answer"] == example.paragraph.context[place]
        wanted = prediction.text.removesuffix("empty")
        equal += normalize_answer(answer["answer"]) == normalize_answer(wanted)
        assert answer["probability"] == pytest.approx(
            prediction.answer.probability * bool(example.paragraph.context),
            abs=rounding.EQUAL,
        )
        if version == "v2.0":
            assert answer["null_score_diff"] == pytest.approx(
                prediction.score_diff, abs=rounding.EQUAL
            )
    # This hardly trained model marks a joined emoji, and half a word, for
    # which the original answers the whole words.
    assert equal >= len(examples) - (2 if version == "v1.1" else 0)


@pytest.mark.parametrize(
    ("question", "context"),
    [("", ""), ("Who?", ""), ("", "A man."), ("who " * 99, "the man " * 999)],
)
def test_empty_and_long_texts_are_answered(answered, question, context):
    serve = answered[3].signatures["serve_text"]
    answer = serve(tf.constant([question]), tf.constant([context]))
    start, end = int(answer["start"][0]), int(answer["end"][0])
    assert answer["answer"].numpy()[0].decode() == context[start:end]
    assert 0 <= float(answer["probability"][0]) <= 1
    if not context:
        assert (start, end) == (0, 0)


@pytest.mark.all
def test_a_plain_session_answers_alike(answered, tmp_path):
    _, examples, folder, serving = answered
    asked = {}
    for count in 1, 33:
        contexts = [e.paragraph.context for e in examples[: count - 1]]
        inputs = {
            "question": [e.question_text for e in examples[:count]],
            "context": [*contexts, ""],
        }
        asked[f"texts{count}"] = "serve_text", inputs
    version = export(folder, tmp_path)
    assert_served_alike(version, serving.signatures, asked, tmp_path)
    with open(f"{version}/README.md", encoding="utf-8") as file:
        assert "it marks the answer in a text" in file.read()
