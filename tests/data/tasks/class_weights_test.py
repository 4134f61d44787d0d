import numpy as np
import pytest
from sklearn.utils.class_weight import compute_class_weight

from data.settings import Settings, make, setting
from data.tasks import class_weights, get_task
from data.tasks.class_weights import ClassWeights, parse_weights
from tests.data.tasks.fixtures import write_files

LABELS = ["7", "1", "7", "7", "10", "7"]


@pytest.fixture
def task(tmp_path):
    lines = "".join(f"a\t{label}\n" for label in LABELS)
    return get_task(
        "tsv", write_files(tmp_path, {"train.tsv": f"text\tlabel\n{lines}"})
    )


@pytest.mark.parametrize(
    ("given", "weights"),
    [
        ("", ()),
        ((), ()),
        ("1,5,2", (1.0, 5.0, 2.0)),
        ([1, 5, 2], (1.0, 5.0, 2.0)),
        ({1: 5, 7: np.float32(50)}, (5.0, 50.0, 1.0)),
        ({10.0: 3}, (1.0, 1.0, 3.0)),
    ],
)
def test_numbers_are_by_place_or_by_label(task, given, weights):
    assert task.labels == ("1", "7", "10")
    parsed = class_weights.parse_weights(given)
    assert class_weights.of_labels(parsed, task) == weights


def test_a_series_has_labels_and_an_array_an_order(task):
    class Series(np.ndarray):
        """What pandas offers."""

        def to_dict(self):
            return {7: 4.0, 1: 2.0}

    class Options(Settings):
        class_weights: ClassWeights = setting("", parse=parse_weights)

    array = np.array([4.0, 2.0, 3.0])
    for given, expected in (array.view(Series), (2, 4, 1)), (array, (4, 2, 3)):
        made = make(Options, {"class_weights": given})
        assert class_weights.of_labels(made.class_weights, task) == expected


def test_balanced_weights_are_scikit_learn_s(task):
    expected = compute_class_weight(
        "balanced", classes=np.array(task.labels), y=np.array(LABELS)
    )
    given = class_weights.parse_weights("balanced")
    found = class_weights.of_labels(given, task)
    assert found == pytest.approx(tuple(expected))


def test_balanced_weights_of_words(tmp_path):
    data = {"train.tsv": "words\tlabel\na b c\tO O B-x\nd\tO\n"}
    task = get_task("tsv", write_files(tmp_path, data), kind="tagging")
    found = class_weights.of_labels("balanced", task)
    assert found == pytest.approx((4 / 2 / 1, 4 / 2 / 3))


@pytest.mark.parametrize(
    "given", ["even", "1,b", [1, 0], [1, float("nan")], {"7": None}, 3, None]
)
def test_what_is_no_weight_is_refused(given):
    with pytest.raises(ValueError, match="--class_weights=.*above 0.*balanced"):
        class_weights.parse_weights(given)


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        ((1.0, 2.0), {}, r"--class_weights=\(1.0, 2.0\); expected 3 weights"),
        ({"8": 2.0}, {}, "weight of '8', which is not a label; expected one"),
        ("balanced", {"labels": ["1", "7", "8", "10"]}, "of the label '8'"),
        ("balanced", {"kind": "regression"}, "not regression; leave it out"),
    ],
)
def test_weights_that_do_not_fit_the_task_are_refused(
    task, given, options, message
):
    task = get_task("tsv", task.data_dir, **options)
    with pytest.raises(ValueError, match=message):
        class_weights.of_labels(given, task)
