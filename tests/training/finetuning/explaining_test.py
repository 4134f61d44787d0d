"""The words that speak for a label."""

import re
import shutil

import numpy as np
import pytest

import bert
from modeling import BertConfig, TaskModel
from tests.support.classifier_support import write_table
from tests.training.finetuning_support import options_of
from training.finetuning.explaining import Explainer
from training.runs import classifier

TEXT = "The man went to the unaffable store, twice."


@pytest.fixture(scope="module")
def model(finished_classifier):
    return bert.load(finished_classifier / "out")


def log_odds(answer, label):
    p = answer["probabilities"][label]
    return np.log(p / (1 - p))


def test_the_words_add_up_to_the_difference_of_the_scores(model):
    for label in model.loaded.labels:
        found = model.explain(TEXT, label)
        difference = found["score"] - found["baseline"]
        total = sum(word["value"] for word in found["words"])
        assert abs(total - difference) <= max(0.02 * abs(difference), 1e-3)
        assert found["label"] == label
        expected = log_odds(model.predict([TEXT])[0], label)
        assert found["score"] == pytest.approx(expected, abs=1e-3)


def test_wordpieces_are_joined_to_words_of_the_text(model):
    found = model.explain(TEXT)
    assert found["label"] == model.predict([TEXT])[0]["label"]
    expected = re.findall(r"\w+|[^\w\s]", TEXT)
    assert [word["word"] for word in found["words"]] == expected
    assert all(TEXT[w["start"] : w["end"]] == w["word"] for w in found["words"])


def test_both_texts_of_a_pair_are_explained_and_what_is_cut_off_is_not(
    model,
):
    explainer = Explainer(model.loaded.model, model.loaded.tokenizer, 9)
    found = explainer.explain(["the man", "he went to the store again"], 1)
    # [CLS] 2 wordpieces or 3 [SEP] the others [SEP]
    sizes = [
        [len(pieces) for _, pieces in model.loaded.tokenizer.words(text)]
        for text in ("the man", "he went to the store again")
    ]
    room = [min(sum(sizes[0]), 3)]
    room.append(6 - room[0])
    expected = [
        number
        for number in (0, 1)
        for size, end in zip(
            sizes[number], np.cumsum(sizes[number]), strict=True
        )
        if end - size < room[number]
    ]
    assert [word[0] for word in found.words] == expected


def test_a_text_of_several_windows_is_refused(model):
    explainer = Explainer(
        model.loaded.model, model.loaded.tokenizer, 8, stride=3
    )
    assert explainer.explain(["the man"], 0).words
    with pytest.raises(ValueError, match="several windows.*shorter"):
        explainer.explain(["the man " * 5], 0)


def test_the_baseline_is_the_row_with_padding_in_place_of_words(model):
    loaded = model.loaded
    found = Explainer(loaded.model, loaded.tokenizer, 16).explain(["a man"], 1)
    vocab = loaded.tokenizer.vocab
    pad = vocab["[PAD]"]
    ids = np.array([[vocab["[CLS]"], pad, pad, vocab["[SEP]"]]], np.int32)
    batch = {
        "input_ids": ids,
        "input_mask": np.ones_like(ids),
        "segment_ids": np.zeros_like(ids),
    }
    p = loaded.model.predict(batch).numpy()[0, 1]
    expected = np.log(p / (1 - p))
    assert found.baseline == pytest.approx(expected, abs=1e-3)


def test_several_labels_have_log_odds_of_their_own(model):
    config = BertConfig(
        vocab_size=len(model.loaded.tokenizer.vocab),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=16,
        initializer_range=0.5,
    )
    task = TaskModel(config, "multilabel", 3)
    found = Explainer(task, model.loaded.tokenizer, 16).explain(["a man"], 2)
    total = sum(word[-1] for word in found.words)
    difference = found.score - found.baseline
    assert abs(total - difference) <= max(0.02 * abs(difference), 1e-3)


def test_an_unknown_label_and_other_models_are_refused(model):
    labels = ", ".join(model.loaded.labels)
    with pytest.raises(ValueError, match=f"'none', but the labels.*{labels}"):
        model.explain(TEXT, "none")
    config = BertConfig(vocab_size=9, hidden_size=8, num_attention_heads=2)
    with pytest.raises(ValueError, match="regression"):
        Explainer(TaskModel(config, "regression", 1), None, 9)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"do_eval": False}, "--explain_errors=3.*--do_eval"),
        ({"kind": "regression"}, "--explain_errors.*regression"),
    ],
)
def test_explaining_what_cannot_be_is_refused_early(
    goldens, tmp_path, changes, said
):
    write_table(tmp_path / "data", changes.get("kind", "single"))
    with pytest.raises(ValueError, match=said):
        classifier.run(
            options_of(goldens, tmp_path, explain_errors=3, **changes)
        )


def test_the_page_shades_the_rows_that_are_asked_for(
    goldens, tmp_path, finished_classifier
):
    for name in ("data", "out"):
        shutil.copytree(finished_classifier / name, tmp_path / name)
    classifier.run(
        options_of(
            goldens,
            tmp_path,
            explain_errors=2,
            do_train=False,
            do_predict=False,
        )
    )
    page = (tmp_path / "out/errors.html").read_text()
    assert page.count('"shaded": [[[') == 2
    assert page.count('"explained":') == 2
