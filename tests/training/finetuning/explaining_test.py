"""The words that speak for a label."""

import dataclasses
import re
import shutil

import numpy as np
import pytest

import bert
from data.finetuning.feature_options import EXAMPLE_NUMBER, FeatureOptions
from data.finetuning.features import Converter
from data.finetuning.long_text import pool
from data.tasks import InputExample
from modeling import TaskModel
from tests.support.classifier_support import write_table
from tests.support.serving_support import batch_of
from tests.support.small_model import SMALL
from tests.training.finetuning_support import options_of
from training.export import loaded_model
from training.finetuning.explaining import Explainer, number_of
from training.runs import classifier

TEXT = "The man went to the unaffable store, twice."


@pytest.fixture(scope="module")
def model(finished_classifier):
    return bert.load(finished_classifier / "out")


def logit(p):
    return np.log(p / (1 - p))


def assert_adds_up(values, score, baseline):
    difference = score - baseline
    assert abs(sum(values) - difference) <= max(0.02 * abs(difference), 1e-3)


def test_the_words_add_up_to_the_difference_of_the_scores(model):
    for label in model.loaded.labels:
        found = model.explain(TEXT, label)
        values = [word["value"] for word in found["words"]]
        assert_adds_up(values, found["score"], found["baseline"])
        assert found["label"] == label
        p = model.predict([TEXT])[0]["probabilities"][label]
        assert found["score"] == pytest.approx(logit(p), abs=1e-3)


def test_wordpieces_are_joined_to_words_of_the_text(model):
    found = model.explain(TEXT)
    assert found["label"] == model.predict([TEXT])[0]["label"]
    expected = re.findall(r"\w+|[^\w\s]", TEXT)
    assert [word["word"] for word in found["words"]] == expected
    assert all(TEXT[w["start"] : w["end"]] == w["word"] for w in found["words"])


def test_half_of_a_surrogate_pair_is_read_as_by_predict(model):
    whole, half = model.explain("the man"), model.explain("the \ud800man")
    assert half["score"] == pytest.approx(whole["score"], abs=1e-6)
    assert half["words"][1]["word"].endswith("man")
    expected = model.predict(["the \ud800man"])[0]["score"]
    assert 1 / (1 + np.exp(-half["score"])) == pytest.approx(expected, abs=1e-4)


def test_both_texts_of_a_pair_are_explained_without_what_is_cut_off(model):
    texts = ["the man", "he went to the store again"]
    found = explainer_of(model, max_seq_length=9).explain(texts, 1)
    # [CLS] the man [SEP] h ##e w ##ent [SEP]
    assert [word[0] for word in found.words] == [0, 0, 1, 1]


def explainer_of(model, task=None, max_seq_length=16, **changes):
    """Explains the model, or another task's with its vocabulary."""
    said = dataclasses.replace(
        loaded_model.describe(model.loaded),
        max_seq_length=max_seq_length,
        **changes,
    )
    task = task or model.loaded.model
    return Explainer(task, model.loaded.tokenizer.vocab, said)


def pooled(task, tokenizer, text, pooling):
    """The probabilities of a text's windows of 8, by the Python tokenizer."""
    labels = tuple(map(str, range(task.num_labels)))
    options = FeatureOptions(task.kind, labels, 8, stride=3)
    rows = [*Converter(tokenizer, options).rows([InputExample("", text)])]
    batch = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
    numbers = batch[EXAMPLE_NUMBER][:, 0]
    assert len(rows) > 2
    return pool(task.predict(batch).numpy(), numbers, pooling, task.kind)[0]


@pytest.mark.all
@pytest.mark.parametrize("kind", ["classification", "multilabel"])
@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_a_text_of_windows_is_explained_as_a_whole(model, kind, pooling):
    task, tokenizer = small_model(model, kind), model.loaded.tokenizer
    changes = {"stride": 3, "pooling": pooling}
    explainer = explainer_of(model, task, max_seq_length=8, **changes)
    found = explainer.explain([TEXT], 1)
    expected = re.findall(r"\w+|[^\w\s]", TEXT)
    assert [TEXT[word[1] : word[2]] for word in found.words] == expected
    assert_adds_up(
        [word[-1] for word in found.words], found.score, found.baseline
    )
    p = pooled(task, tokenizer, TEXT, pooling)[1]
    assert found.score == pytest.approx(logit(p), abs=1e-3)


def test_a_text_of_too_many_windows_is_refused(model):
    explainer = explainer_of(model, max_seq_length=8, stride=3)
    with pytest.raises(ValueError, match="windows.*32.*shorter"):
        explainer.explain(["the man " * 99], 0)


def test_the_baseline_is_the_row_with_padding_in_place_of_words(model):
    loaded = model.loaded
    found = explainer_of(model).explain(["a man"], 1)
    vocab = loaded.tokenizer.vocab
    pad = vocab["[PAD]"]
    batch = batch_of([[vocab["[CLS]"], pad, pad, vocab["[SEP]"]]])
    p = loaded.model.predict(batch).numpy()[0, 1]
    assert found.baseline == pytest.approx(logit(p), abs=1e-3)


def small_model(model, kind, **changes):
    sizes = {"vocab_size": len(model.loaded.tokenizer.vocab)}
    config = dataclasses.replace(SMALL, initializer_range=0.5, **sizes)
    return TaskModel(config, kind, 3, **changes)


def test_an_unknown_label_and_other_models_are_refused(model):
    labels = ", ".join(model.loaded.labels)
    with pytest.raises(ValueError, match=f"'none', but the labels.*{labels}"):
        model.explain(TEXT, "none")
    with pytest.raises(ValueError, match="regression"):
        explainer_of(model, TaskModel(SMALL, "regression", 1))


def test_what_cannot_be_explained_is_refused(goldens, tmp_path):
    write_table(tmp_path / "data", "regression")
    options = options_of(goldens, tmp_path, "regression", explain_errors=3)
    with pytest.raises(ValueError, match="--explain_errors.*regression"):
        classifier.run(options)


def test_the_page_shades_the_rows_that_are_asked_for(
    goldens, tmp_path, finished_classifier
):
    shutil.copytree(finished_classifier, tmp_path, dirs_exist_ok=True)
    page = tmp_path / "out/errors.html"
    assert '"shaded": [[[' not in page.read_text()  # It was asked for none.
    works = {"do_train": False, "do_predict": False, "explain_errors": 2}
    classifier.run(options_of(goldens, tmp_path, **works))
    assert page.read_text().count('"shaded": [[[') == 2
    assert page.read_text().count('"explained":') == 2


def test_without_the_flag_exact_scores_are_explained(goldens, tmp_path, model):
    options = options_of(goldens, tmp_path, explain_errors=None)
    exact = small_model(model, "multilabel")
    assert number_of(options, exact) == 10
    in_16_bits = small_model(model, "multilabel", dtype="mixed_bfloat16")
    assert number_of(options, in_16_bits) == 0
    assert number_of(options.replace(explain_errors=2), in_16_bits) == 2
    assert number_of(options.replace(use_tpu=True), exact) == 0
    assert number_of(options, TaskModel(SMALL, "regression", 1)) == 0
