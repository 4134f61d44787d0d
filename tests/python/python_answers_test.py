"""bert.load: answers are those that the programs write for the same texts."""

import functools
import json

import numpy as np
import pytest
import tensorflow as tf
from seqeval.metrics.sequence_labeling import get_entities

import bert
from data.finetuning.tagging import words_of_rows
from data.squad.scoring import normalize_answer
from data.tasks import TaggingExample
from data.text.tokenization import FullTokenizer
from modeling import BertConfig
from tests.support import rounding
from tests.support.huggingface_support import H
from tests.support.model_folder_support import write_huggingface
from tests.support.serving_support import (
    LABELS,
    TEXTS,
    examples_of,
    finished_run,
    predictions_of,
    rows_of,
)
from tests.support.tiers import rare
from tests.training import squad_support
from training.config.run_options import ExportOptions
from training.export import saved_model
from training.runs import pretraining

MASKED = [
    "The man [MASK] to the [MASK].",
    "[MASK]",
    "caf\u00e9 \u4e2d[MASK][MASK]s",
    "to be or not to [MASK] " * 5,
]


@pytest.fixture(scope="module")
def pretrained(released):
    return bert.load(released)


@pytest.fixture(scope="module")
def finished(goldens, tmp_path_factory):
    """Kind, is_pair -> a loaded run, and the model that it was written of."""

    @functools.cache
    def make(kind, is_pair=False):
        folder = tmp_path_factory.mktemp(kind)
        model = finished_run(goldens, folder, kind, is_pair)
        return bert.load(str(folder)), model

    return make


def test_fillings_are_the_program_s(pretrained, released, options, tmp_path):
    (tmp_path / "lines.txt").write_text("\n".join(MASKED), "utf-8")
    pretraining.run(
        options.replace(
            init_checkpoint=released,
            vocab_file=f"{released}/vocab.txt",
            do_train=False,
            do_predict=True,
            predict_file=str(tmp_path / "lines.txt"),
            predict_top_k=7,
            max_seq_length=128,
            max_predictions_per_seq=20,
        )
    )
    lines = (tmp_path / "out/predict_results.jsonl").read_text("utf-8")
    filled = pretrained.fill_mask(MASKED, top_k=7, batch_size=2)
    assert len(filled) == len(MASKED)
    for fillings, line in zip(filled, lines.splitlines(), strict=True):
        wanted = json.loads(line)["masks"]
        assert len(fillings) == len(wanted)
        for ours, expected in zip(fillings, wanted, strict=True):
            assert [x["token"] for x in ours] == [word for word, _ in expected]
            np.testing.assert_allclose(
                [x["score"] for x in ours],
                [probability for _, probability in expected],
                rtol=0,
                # The program writes six decimals.
                atol=rounding.EQUAL + 0.5e-6,
            )
    assert [len(x) for x in pretrained.fill_mask(["[MASK]"])[0]] == [5]


@pytest.mark.parametrize(
    ("kind", "is_pair"),
    [
        ("classification", True),
        rare("multilabel", False),
        rare("regression", False),
        rare("choice", False),
    ],
)
def test_predictions_are_those_of_the_model(finished, goldens, kind, is_pair):
    loaded, model = finished(kind, is_pair)
    examples = examples_of(kind, is_pair, 11)
    wanted = predictions_of(model, rows_of(goldens, kind, examples))
    if kind == "choice":
        texts = [(x.contexts[0], x.choices) for x in examples]
    else:
        texts = [(x.text_a, x.text_b)[: 1 + is_pair] for x in examples]
        texts = texts if is_pair else [text for (text,) in texts]
    labels = LABELS.get(kind, ("no", "yes"))
    answers = loaded.predict(texts, batch_size=4)
    assert loaded.ask(texts, batch_size=4) == answers
    for answer, row in zip(answers, wanted, strict=True):
        if kind == "regression":
            assert list(answer) == ["score"]
            rounding.assert_equal(answer["score"], row[0])
            continue
        probabilities = answer["probabilities"]
        if kind == "choice":
            assert answer["score"] == max(probabilities)
            assert probabilities[answer["choice"]] == answer["score"]
        else:
            assert tuple(probabilities) == labels
            probabilities = list(probabilities.values())
        rounding.assert_equal(probabilities, row)
        if kind == "multilabel":
            chosen = [x for x, p in zip(labels, row, strict=True) if p > 0.5]
            assert answer["labels"] == chosen
        if kind == "classification":
            assert answer["label"] == labels[row.argmax()]
            rounding.assert_equal(answer["score"], row.max())


def test_a_user_s_functions_may_run_eagerly(finished):
    loaded, _ = finished("classification", True)
    (answer,) = loaded.predict([("a", "b")])
    tf.config.run_functions_eagerly(True)
    try:
        (eager,) = loaded.predict([("a", "b")])
    finally:
        tf.config.run_functions_eagerly(False)
    rounding.assert_equal(eager["score"], answer["score"])


def test_texts_of_another_form_than_the_model_s_are_refused(finished):
    # predictor_test has a model of pairs.
    single, _ = finished("multilabel", False)
    with pytest.raises(ValueError, match=r"texts\[1\] is \('a', 'b'\), expec"):
        single.predict(["a", ("a", "b")])


def test_entities_are_the_program_s_labels_joined(finished, goldens):
    loaded, model = finished("tagging")
    texts = [*TEXTS, "The man  went, to Caf\u00e9 \u4e2d\u6587."]
    found = loaded.entities(texts, batch_size=2)
    tokenizer = FullTokenizer(str(goldens / "vocab.txt"))
    words = [tokenizer.basic_tokenizer.tokenize(text) for text in texts]
    # The program has no sentence without words.
    examples = [TaggingExample("", some or ["x"]) for some in words]
    rows = rows_of(goldens, "tagging", examples)
    labelled = words_of_rows(
        predictions_of(model, rows),
        rows["label_mask"],
        [len(example.words) for example in examples],
    )
    assert found[1] == found[4] == []
    for text, some, entities, scores in zip(
        texts, words, found, labelled, strict=True
    ):
        labels = [LABELS["tagging"][i] for i in scores.argmax(-1)]
        wanted = get_entities(labels[: len(some)])
        assert [x["label"] for x in entities] == [x for x, _, _ in wanted]
        for entity, (_, first, last) in zip(entities, wanted, strict=True):
            span = text[entity["start"] : entity["end"]]
            assert entity["text"] == span
            part = slice(first, last + 1)
            assert tokenizer.basic_tokenizer.tokenize(span) == some[part]
            rounding.assert_equal(entity["score"], scores[part].max(-1).mean())
    assert sum(map(len, found)) > 5


def test_questions_are_answered_as_by_the_program(goldens, answered_questions):
    written = squad_support.read_answers(answered_questions)
    data = json.loads((goldens / "squad/dev-v1.1.json").read_text("utf-8"))
    questions = {
        question["id"]: (question["question"], paragraph["context"])
        for article in data["data"]
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
    }
    model = bert.load(str(answered_questions))
    answers = model.answer(
        questions.values(),
        batch_size=7,
        version_2_with_negative=True,
        # No answer is then always the worse possibility.
        null_score_diff_threshold=1e6,
    )
    texts = {}
    for name, answer in zip(questions, answers, strict=True):
        context = questions[name][1]
        place = slice(answer["start"], answer["end"])
        assert answer["answer"] == context[place]
        assert 0 <= answer["score"] <= 1
        assert answer.pop("null_score_diff") < 1e6
        assert list(answer) == ["answer", "start", "end", "score"]
        texts[name] = normalize_answer(answer["answer"])
    wanted = {n: normalize_answer(x) for n, x in written["predictions"].items()}
    for name, text in texts.items():
        # The program gives whole words, where an exact span may end within one
        # in scripts whose marks and joiners the tokenizer drops.
        if questions[name][1].isascii():
            assert text == wanted[name]
        assert text in wanted[name]
    assert len(set(texts.values())) > 3
    check_wrong_settings(model)


def check_wrong_settings(model):
    """What is no setting of a model of questions is refused."""
    takes = "a model of the kind span takes doc_stride, .*version_2_with_neg"
    for name in "max_answer_len", "kind", "weights", "is_pair":
        message = f"there is no setting '{name}'.*; {takes}"
        with pytest.raises(ValueError, match=message):
            model.answer([("who?", "the man")], **{name: 10})
    with pytest.raises(ValueError, match="--n_best_size=0; it must be at lea"):
        model.answer([("who?", "the man")], n_best_size=0)
    for name, value in ("max_seq_length", "64"), ("doc_stride", [1]):
        with pytest.raises(ValueError, match=f"--{name}=.* a whole number"):
            model.answer([("who?", "the man")], **{name: value})
    with pytest.raises(ValueError, match="must be greater than max_query_leng"):
        model.answer([("who?", "the man")], max_query_length=500)


@pytest.fixture(scope="module")
def their_folder(goldens, tmp_path_factory):
    """Architecture -> a folder of Hugging Face, which describes little."""

    def make(architecture, **config):
        folder = tmp_path_factory.mktemp("theirs")
        write_huggingface(goldens, folder, architecture, **config)
        return str(folder)

    return make


def test_a_model_of_hugging_face_takes_texts_and_pairs(their_folder):
    names = {"0": "bad", "1": "so-so", "2": "good"}
    folder = their_folder("BertForSequenceClassification", id2label=names)
    model = bert.load(folder)
    single, pair = (
        model.predict([text])[0]["probabilities"]
        for text in ("the man", ("the man", "went"))
    )
    assert [*single] == [*pair] == [*names.values()]
    assert sum(single.values()) == pytest.approx(1, abs=rounding.ONE_SUM)
    assert max(abs(single[n] - pair[n]) for n in single) > 1e-3


@pytest.mark.all
def test_other_models_of_hugging_face(their_folder):
    tagger = bert.load(their_folder("BertForTokenClassification"))
    # Labels without names are those of no entity: all words come back.
    (entities,) = tagger.entities(["the  man"])
    assert [entity["text"] for entity in entities] == ["the", "man"]
    reader = bert.load(their_folder("BertForQuestionAnswering"))
    settings = {"max_query_length": 8, "doc_stride": 16}
    (answer,) = reader.answer([("who?", "the man went " * 40)], **settings)
    assert answer["answer"] in "the man went " * 40
    encoder = bert.load(their_folder("BertModel"))
    assert encoder.kind == "encoder"
    assert encoder.encode(["a"]).shape == (1, H)


@pytest.mark.all
def test_an_export_answers_as_its_run(finished, tmp_path):
    for kind, texts in (
        ("classification", [(TEXTS[0], TEXTS[3]), (TEXTS[2], "")]),
        ("tagging", TEXTS),
    ):
        run, _ = finished(kind, kind == "classification")
        place = str(tmp_path / kind)
        options = ExportOptions(output_dir=run.folder, export_dir=place)
        for where in place, saved_model.run(options):
            export = bert.load(where)
            assert (export.kind, export.loaded) == (kind, None)
            ours, wanted = export.ask(texts), run.ask(texts)
            if kind == "tagging":  # a list of each text
                ours, wanted = sum(ours, []), sum(wanted, [])
            for x, y in zip(ours, wanted, strict=True):
                rounding.assert_equal(x.pop("score"), y.pop("score"))
                x.pop("probabilities", None), y.pop("probabilities", None)
                assert x == y
    with pytest.raises(ValueError, match="is an export, without .*; load"):
        export.encode(["a"])
    with pytest.raises(ValueError, match="fixed settings; leave out max_seq_l"):
        bert.load(place, max_seq_length=16)


def test_a_model_says_what_it_is(pretrained, released):
    assert repr(pretrained) == f"<bert.Model {released!r}: pretraining>"
    assert isinstance(pretrained.loaded.config, BertConfig)
    assert pretrained.ask(MASKED[:1]) == pretrained.fill_mask(MASKED[:1])
