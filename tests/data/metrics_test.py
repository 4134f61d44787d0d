"""Scores against figures and definitions worked out by hand."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data import metrics

IDS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=40
)
NAMES = ["B-PER", "I-PER", "O", "B-LOC", "O"]


@pytest.mark.parametrize(
    ("kind", "gold", "predicted", "expected"),
    [
        # 3 true and 1 false positives, 2 false and 4 true negatives.
        (
            "classification",
            [1, 1, 1, 0, 1, 1, 0, 0, 0, 0],
            [1, 1, 1, 1, 0, 0, 0, 0, 0, 0],
            {
                "accuracy": 0.7,
                "f1": 2 * 3 / (2 * 3 + 1 + 2),
                "matthews": (3 * 4 - 1 * 2) / (4 * 5 * 5 * 6) ** 0.5,
            },
        ),
        # Labels: 2 right of 2 and 2; 1 of 2 and 1; 0 of 1 and 1. No row is
        # right.
        (
            "multilabel",
            [[1, 0, 1], [0, 1, 0], [1, 1, 0]],
            [[1, 0, 0], [0, 1, 1], [1, 0, 0]],
            {
                "micro_f1": 2 * 3 / (5 + 4),
                "macro_f1": (1 + 2 / 3 + 0) / 3,
                "accuracy": 0.0,
            },
        ),
        # A single label is scored like a binary class.
        (
            "multilabel",
            [[1], [1], [0]],
            [[1], [0], [0]],
            dict.fromkeys(("micro_f1", "macro_f1", "accuracy"), 2 / 3),
        ),
        # Deviations -1.5, -0.5, 0.5, 1.5 and -3.25, -2.25, -1.25, 6.75.
        (
            "regression",
            [1, 2, 3, 4],
            [1, 2, 3, 11],
            {"pearson": 15.5 / (5 * 62.75) ** 0.5, "spearman": 1.0},
        ),
        # Equal numbers share their rank: 1, 2.5, 2.5, 4 and 1, 2, 3, 4 have
        # the covariance 4.5, and the squares 4.5 and 5.
        (
            "regression",
            [0.0, 3.0, 3.0, 5.0],
            [1, 2, 3, 4],
            {"spearman": 4.5 / (4.5 * 5) ** 0.5},
        ),
    ],
)
def test_scores_by_hand(kind, gold, predicted, expected):
    gold, predicted = np.array(gold), np.array(predicted)
    scores = metrics.compute([*expected], kind, gold, predicted)
    assert scores == pytest.approx(expected)


def f1_by_hand(gold, predicted):
    right = sum(a and b for a, b in zip(gold, predicted, strict=True))
    return 2 * right / max(sum(gold) + sum(predicted), 1)


@given(IDS)
def test_class_scores_equal_their_definitions(pairs):
    gold, predicted = zip(*pairs, strict=True)
    classes = {*gold, *predicted}
    assert metrics.macro_f1(gold, predicted) == pytest.approx(
        sum(
            f1_by_hand([a == c for a in gold], [b == c for b in predicted])
            for c in classes
        )
        / len(classes)
    )
    # Gorodkin (2004): the correlation of the rows' one-hot vectors.
    a, b = (np.eye(4)[list(ids)] for ids in (gold, predicted))
    a, b = a - a.mean(axis=0), b - b.mean(axis=0)
    scale = ((a * a).sum() * (b * b).sum()) ** 0.5
    assert metrics.matthews(gold, predicted) == pytest.approx(
        (a * b).sum() / scale if scale > 1e-9 else 0.0, abs=1e-9
    )


@pytest.mark.parametrize("name", ["pearson", "spearman"])
def test_predictions_that_are_not_numbers_have_no_correlation(name):
    gold, predicted = [1.0, 2.0, 3.0], [1.0, np.nan, 2.0]
    score = metrics.compute([name], "regression", gold, predicted)
    assert np.isnan(score[name])


@pytest.mark.parametrize(
    ("kind", "name", "gold", "predicted"),
    [
        ("classification", "f1", [0, 0], [0, 0]),
        ("multilabel", "macro_f1", [[0], [0]], [[0], [0]]),
        ("classification", "matthews", [1, 1], [1, 1]),
        ("regression", "pearson", [1.0], [3.0]),
        ("regression", "spearman", [1.0], [3.0]),
        ("tagging", "token_accuracy", [[]], [[]]),
        ("classification", "matthews", [0, 1], [1, 1]),
        ("regression", "pearson", [1.0, 2.0], [3.0, 3.0]),
        ("regression", "spearman", [1.0, 2.0], [3.0, 3.0]),
        ("tagging", "entity_f1", [["O", "O"]], [["O", "O"]]),
    ],
)
def test_a_score_that_is_not_defined_is_zero(kind, name, gold, predicted):
    assert metrics.compute([name], kind, gold, predicted) == {name: 0.0}


def test_large_counts_do_not_overflow():
    gold = np.tile(np.array([0, 1], np.int32), 200_000)
    assert metrics.matthews(gold, gold) == pytest.approx(1.0)


def test_entities_are_right_by_span_and_type():
    gold = [NAMES, ("B-ORG", "O")]
    predicted = [np.array(["B-PER", "O", "O", "B-LOC", "O"]), ["B-ORG", "O"]]
    # Right: LOC and ORG of 3; PER ends too early.
    scores = metrics.compute(
        ["entity_f1", "token_accuracy"], "tagging", gold, predicted
    )
    wanted = {"entity_f1": 2 / 3, "token_accuracy": 6 / 7}
    assert scores == pytest.approx(wanted)
    table = metrics.entity_table(gold, predicted)
    assert [line.split()[:4] for line in table.splitlines()[2:5]] == [
        ["LOC", "1.000", "1.000", "1.000"],
        ["ORG", "1.000", "1.000", "1.000"],
        ["PER", "0.000", "0.000", "0.000"],
    ]
    assert metrics.entity_table([["O"]], [["O"]]) == "no entities"


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (("B-PER", "I-PER", "O"), ("entity_f1", "token_accuracy")),
        (("NN", "VB"), ("token_accuracy",)),
        (("S-PER", "B-PER", "E-PER", "O"), ("entity_f1", "token_accuracy")),
        (("B-PER", "NN", "O"), ("token_accuracy",)),
        (("B-NP", "I-NP"), ("token_accuracy",)),
    ],
)
def test_entities_are_told_by_their_labels(labels, names):
    assert metrics.for_tags(labels) == names


def tables_of(gold, predicted, labels):
    """The tables of the log."""
    scores = np.full((len(gold), len(labels)), 0.5)
    found = metrics.details(np.array(gold), predicted, scores, labels)
    return metrics.as_text(found).split("\n\n")


def test_confusion_has_gold_in_rows():
    gold, predicted = [0, 0, 1, 2], [0, 2, 1, 1]
    table = tables_of(gold, predicted, ("no", "yes", "maybe"))[0]
    assert table.splitlines() == [
        "gold \\ predicted  no  yes  maybe",
        "no                 1    0      1",
        "yes                0    1      0",
        "maybe              0    1      0",
    ]


@pytest.mark.parametrize(
    ("gold", "predicted"),
    [
        ([0, 0, 1, 1], [0, 1, 1, 1]),
        (
            [[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 1, 0]],
            [[1, 0, 0], [0, 1, 0], [0, 1, 0], [0, 1, 0]],
        ),
    ],
)
def test_the_table_of_classes(gold, predicted):
    table = tables_of(gold, predicted, ("no", "yes", "none"))[-1]
    assert table.splitlines() == [
        "label  precision  recall     f1  gold  predicted",
        "no         1.000   0.500  0.667     2          1",
        "yes        0.667   1.000  0.800     2          3",
        "none       0.000   0.000  0.000     0          0",
    ]


def test_the_area_under_the_curve_by_hand():
    # Of the four pairs of a positive and a negative example, three are in the
    # right order.
    second = np.array([0.1, 0.4, 0.35, 0.8])
    binary = np.stack([1 - second, second], axis=1)
    assert metrics.roc_auc([0, 0, 1, 1], binary, ("no", "yes")) == 0.75
    # Of label 0 both positives are above both others: 1. The positive of
    # label 1 is above one of three: 1/3. That of label 2 is above two of three
    # and equal to one: 5/6.
    three = np.array(
        [[0.7, 0.2, 0.1], [0.3, 0.4, 0.3], [0.2, 0.5, 0.3], [0.4, 0.5, 0.1]]
    )
    area = metrics.roc_auc([0, 1, 2, 0], three, ("a", "b", "c"))
    assert area == pytest.approx((1 + 1 / 3 + 5 / 6) / 3)
    # A label that none has, or all have, has no area.
    assert metrics.roc_auc([0, 0, 0, 0], three, ("a", "b", "c")) is None
    several = np.array([[1, 1, 0], [0, 1, 0], [0, 1, 0], [1, 1, 0]])
    assert metrics.roc_auc(several, three, ("a", "b", "c")) == 1.0


def test_details_are_values_of_json():
    gold, predicted = np.array([0, 1, 1]), np.array([0, 0, 1])
    scores = np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]], np.float32)
    found = metrics.details(gold, predicted, scores, ("no", "yes"))
    assert json.loads(json.dumps(found)) == found
    assert found["confusion_matrix"] == [[1, 0], [1, 1]]
    assert found["labels"] == ["no", "yes"]
    assert found["roc_auc"] == 1.0
    assert found["by_label"]["no"]["precision"] == 0.5
    assert found["by_label"]["no"]["recall"] == 1.0
    several = metrics.details(np.eye(2, dtype=int), np.eye(2), scores[1:], "ab")
    assert several.keys() == {"roc_auc", "by_label"}


def test_of_many_labels_some_are_shown():
    ids = np.arange(33)
    made = tables_of(ids, ids, [f"label{i}" for i in ids])
    assert len(made) == 2
    for table in made:
        lines = table.splitlines()
        assert len(lines) == 32
        assert lines[-1] == "... and 3 more labels"


@pytest.mark.parametrize(
    ("gold", "predicted", "message"),
    [
        ([1, 0], [1], "1 predictions for 2 examples, expected one"),
        ([], [], "0 predictions for 0 examples.*at least one"),
    ],
)
def test_what_cannot_be_scored_is_an_error(gold, predicted, message):
    with pytest.raises(ValueError, match=message):
        metrics.compute(["f1"], "classification", gold, predicted)


@pytest.mark.parametrize("name", ["accuracy", "micro_f1", "macro_f1"])
def test_a_perfect_model_of_three_labels_has_the_best_score(name):
    # Label 1 never occurs; micro F1 of single labels is their accuracy.
    gold, other = [0, 2, 2, 0], [0, 2, 0, 2]
    assert metrics.compute([name], "classification", gold, gold) == {name: 1.0}
    assert metrics.compute([name], "classification", gold, other) == {name: 0.5}


@pytest.mark.parametrize(
    ("name", "kind", "labels", "fitting"),
    [
        ("f2", "classification", "ab", "accuracy, f1, micro_f1, macro_f1, ma"),
        ("f1", "classification", "abc", "3 labels are accuracy, micro_f1, ma"),
        ("accuracy", "regression", "", "pearson, spearman"),
        ("f1", "multilabel", "ab", "micro_f1, macro_f1, accuracy"),
        ("f1", "choice", "01", "are accuracy"),
        ("accuracy", "tagging", ["O", "B-x"], "entity_f1, token_accuracy"),
        ("entity_f1", "tagging", ["NN", "VB"], "are token_accuracy"),
    ],
)
def test_a_metric_that_does_not_fit_the_task_is_refused(
    name, kind, labels, fitting
):
    fault = f"--metrics={name}: .* the kind {kind}.*{fitting}"
    with pytest.raises(ValueError, match=fault):
        metrics.check([name], kind, list(labels))
