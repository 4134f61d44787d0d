import numpy as np
import pytest
import tensorflow_datasets as tfds

from data import tfds as tfds_reading
from data.tasks import InputExample, TaggingExample, get_task
from tests.support.tfds_support import TEXT, prepare


def label(*names):
    return tfds.features.ClassLabel(names=names)


def test_labels_are_those_of_glue_s_files(tmp_path):
    classes = label("unacceptable", "acceptable")
    features = {"sentence": TEXT, "label": classes, "idx": np.int32}
    splits = {
        "train": [
            {"sentence": "Café", "label": 1, "idx": 7},
            {"sentence": "b", "label": 0, "idx": 8},
        ],
        "test": [{"sentence": "c", "label": -1, "idx": 0}],
    }
    folder = prepare(tmp_path, "my_cola", features, splits)
    cola = get_task("cola", None, tfds="my_cola", tfds_data_dir=folder)
    assert sorted(cola.examples("train"), key=lambda e: e.guid) == [
        InputExample("train-7", "Café", None, "1"),
        InputExample("train-8", "b", None, "0"),
    ]
    assert list(cola.examples("test")) == [InputExample("test-0", "c")]
    # All else is the task's own.
    assert cola.metrics[0] == "matthews"
    assert cola.submission_files == {"test": "CoLA.tsv"}
    with pytest.raises(ValueError, match="--tfds=my_cola: .*no split 'v"):
        list(cola.examples("dev"))


def test_labels_are_found_by_name_whatever_their_order(tmp_path):
    classes = label("entailment", "neutral", "contradiction")
    features = {"premise": TEXT, "hypothesis": TEXT, "label": classes}
    examples = [{"premise": "a", "hypothesis": "b", "label": 1}]
    split = "validation_mismatched"
    folder = prepare(tmp_path, "my_mnli", features, {split: examples})
    mnli = get_task("mnli", "", tfds="my_mnli", tfds_data_dir=folder)
    assert list(mnli.examples("dev_mismatched")) == [
        InputExample("dev_mismatched-0", "a", "b", "neutral")
    ]
    assert mnli.gold("dev_mismatched").tolist() == [2]
    # Another task's data.
    rte = get_task("rte", None, tfds="my_mnli", tfds_data_dir=folder)
    rte.dev_sets = ("dev_mismatched",)
    fault = f"--tfds=my_mnli, {split}, line 1: there is no column 'sentence1'"
    with pytest.raises(ValueError, match=fault):
        list(rte.examples("dev"))


# Task -> its texts' features, its test set, and that set's split.
TEST_SETS = {
    "rte": (("sentence1", "sentence2"), "test", "test"),
    "mnli": (("premise", "hypothesis"), "test_mismatched", "test_mismatched"),
    "ax": (("premise", "hypothesis"), "diagnostic", "test"),
}


def prepare_test_set(folder, name, numbers):
    """A test split of the examples of these numbers; None = it has no idx."""
    (first, second), _, split = TEST_SETS[name]
    numbered = numbers is not None
    features = {first: TEXT, second: TEXT, "label": label("entailment")}
    features |= {"idx": np.int32} if numbered else {}
    examples = [
        {first: f"{number}", second: "b", "label": -1}
        | ({"idx": number} if numbered else {})
        for number in numbers or range(12)
    ]
    return prepare(folder, f"my_{name}", features, {split: examples})


@pytest.mark.parametrize("name", TEST_SETS)
def test_a_test_set_is_answered_in_the_order_of_glue_s_file(tmp_path, name):
    folder = prepare_test_set(tmp_path, name, range(12))
    _, set_name, split = TEST_SETS[name]
    # tensorflow-datasets stores the examples in the order of hashed keys.
    stored = tfds_reading.read_examples(f"my_{name}", split, folder)
    on_disk = [example["idx"] for example in stored]
    assert sorted(on_disk) == list(range(12)) != on_disk

    task = get_task(name, None, tfds=f"my_{name}", tfds_data_dir=folder)
    examples = list(task.examples(set_name))
    prefix = "test_mismatched" if name == "mnli" else "test"
    assert [example.guid for example in examples] == [
        f"{prefix}-{number}" for number in range(12)
    ]
    # A model that answers each text with its own number is always right.
    answers = [example.text_a for example in examples]
    assert task.submission(set_name, answers) == (
        "index\tprediction\n" + "".join(f"{i}\t{i}\n" for i in range(12))
    )


def test_answers_keep_their_numbers_where_rows_are_missing(tmp_path):
    # tensorflow-datasets leaves out rows of GLUE's files that it cannot read.
    folder = prepare_test_set(tmp_path, "rte", [7, 2, 0])
    rte = get_task("rte", None, tfds="my_rte", tfds_data_dir=folder)
    answers = [example.text_a for example in rte.examples("test")]
    assert answers == ["0", "2", "7"]
    assert rte.submission("test", answers) == (
        "index\tprediction\n0\t0\n2\t2\n7\t7\n"
    )


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        (None, "line 1: 'idx' is None, .*for RTE.tsv. Add .*--task_name=tsv"),
        ([3, 3], "line 2: 'idx' is 3, expected the number"),
    ],
)
def test_answers_without_numbers_are_refused(tmp_path, numbers, message):
    folder = prepare_test_set(tmp_path, "rte", numbers)
    rte = get_task("rte", None, tfds="my_rte", tfds_data_dir=folder)
    with pytest.raises(ValueError, match=f"--tfds=my_rte, test, {message}"):
        list(rte.examples("test"))


def test_scores_of_a_test_set_are_not_known(tmp_path):
    features = {"sentence1": TEXT, "sentence2": TEXT}
    features |= {"label": np.float32, "idx": np.int32}
    row = {"sentence1": "a", "sentence2": "b", "idx": 0}
    splits = {"train": [row | {"label": 2.5}], "test": [row | {"label": -1.0}]}
    folder = prepare(tmp_path, "my_stsb", features, splits)
    stsb = get_task("sts-b", None, tfds="my_stsb", tfds_data_dir=folder)
    assert stsb.gold("train").tolist() == [2.5]
    assert stsb.gold("test") is None


def test_one_language_of_translations(tmp_path):
    languages = ("de", "zh")
    features = {
        "premise": tfds.features.Translation(languages),
        "hypothesis": tfds.features.TranslationVariableLanguages(languages),
        "label": label("entailment", "neutral", "contradiction"),
    }
    row = {
        "premise": {"de": "ja", "zh": "shi"},
        "hypothesis": {"de": "nein", "zh": "bu"},
        "label": 2,
    }
    folder = prepare(tmp_path, "my_xnli", features, {"validation": [row]})

    def read(**options):
        options |= {"tfds": "my_xnli", "tfds_data_dir": folder}
        return list(get_task("xnli", None, **options).examples("dev"))

    assert read() == [InputExample("dev-0", "shi", "bu", "contradiction")]
    assert read(language="de")[0].text_b == "nein"
    with pytest.raises(ValueError, match="--language=fr, expected de, zh"):
        read(language="fr")


def test_any_data_set_s_features_are_columns(tmp_path):
    features = {
        "tokens": tfds.features.Sequence(TEXT),
        "ner": tfds.features.Sequence(label("O", "B-PER")),
    }
    row = {"tokens": ["Ann", "ran"], "ner": ["B-PER", "O"]}
    folder = prepare(tmp_path, "my_tags", features, {"train": [row]})
    options = {"text_columns": ["tokens"], "label_column": "ner"}
    options |= {"kind": "tagging", "tfds_data_dir": folder}
    tags = get_task("tsv", None, tfds="my_tags", **options)
    assert list(tags.examples("train")) == [
        TaggingExample("train-0", ("Ann", "ran"), ("B-PER", "O"), 0)
    ]
    assert tags.labels == ("B-PER", "O")


def test_glue_s_own_data_sets_are_known():
    # By the class, without a network: the features that are read are there.
    from tensorflow_datasets.text.glue import Glue

    from data.tasks.tfds import _SOURCES

    configs = {config.name: config for config in Glue.BUILDER_CONFIGS}
    for name, source in _SOURCES.items():
        folder, _, config = source.data_set.partition("/")
        if folder != "glue":
            continue
        assert set(source.texts) <= set(configs[config].text_features)
        classes = configs[config].label_classes
        labels = source.names or get_task(name, "d").labels
        assert sorted(classes or ()) == sorted(labels)
        if source.names:
            assert tuple(classes) == source.names
