import numpy as np
import pytest

from data.tasks import (
    ChoiceExample,
    DataProcessor,
    InputExample,
    TaggingExample,
    Task,
    get_task,
    register,
    task,
    task_names,
    task_options,
)
from tests.support.docs_support import ROOT, blocks


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    """What a test registers is forgotten after it."""
    monkeypatch.setattr(task, "_CLASSES", dict(task._CLASSES))


class ReviewProcessor(DataProcessor):
    """As people wrote them for the original."""

    def get_train_examples(self, data_dir):
        return self._examples(data_dir, "train")

    def get_test_examples(self, data_dir):
        return self._examples(data_dir, "test")

    def get_labels(self):
        return ["bad", "good"]

    def _examples(self, data_dir, set_type):
        return [
            InputExample(f"{set_type}-{i}", line[1], label=line[0])
            for i, line in enumerate(
                self._read_tsv(f"{data_dir}/{set_type}.tsv")
            )
        ]


def test_the_original_s_way_of_adding_a_task(tmp_path):
    for name in "train", "test":
        (tmp_path / f"{name}.tsv").write_text('good\t"fine\nbad\tdull\n')
    register("Review", ReviewProcessor)
    assert "review" in task_names()
    review = get_task("REVIEW", str(tmp_path))
    assert (review.name, review.kind) == ("review", "classification")
    assert (review.labels, review.metrics) == (("bad", "good"), ("accuracy",))
    assert list(review.examples("train")) == [
        InputExample("train-0", '"fine', None, "good"),
        InputExample("train-1", "dull", None, "bad"),
    ]
    # What a test set has is a dummy there.
    assert review.gold("test") is None
    assert review.gold("train").tolist() == [1, 0]
    fault = "--task_name=review has no dev set: get_dev_examples of Review"
    with pytest.raises(ValueError, match=fault):
        list(review.examples("dev"))


def test_labels_of_a_processor_may_be_numbers(tmp_path):
    class Numbers(ReviewProcessor):
        def get_labels(self):
            return [0, 1]

        def _examples(self, data_dir, set_type):
            return [InputExample("a", "fine", label=np.int64(1))]

    register("Numbers", Numbers)
    task = get_task("Numbers", str(tmp_path))
    assert task.labels == ("0", "1")
    assert [example.label for example in task.examples("train")] == ["1"]


def test_the_task_of_the_page_reads_its_rows(tmp_path):
    (example,) = blocks(ROOT / "docs/fine_tuning.md", "python")
    exec(compile(example, "docs/fine_tuning.md", "exec"), {})
    (tmp_path / "dev.csv").write_text(
        'text,label\n"Good,\nno?",subjective\nIt is 9.,objective\nx,y\n'
    )
    found = get_task("opinions", str(tmp_path)).examples("dev")
    first = InputExample("dev-1", "Good,\nno?", label="subjective")
    assert (next(found), next(found).label) == (first, "objective")
    with pytest.raises(ValueError, match="line 5: column 'label' is 'y'"):
        next(found)


def test_read_tsv_takes_quotes_as_the_original(tmp_path):
    path = tmp_path / "t.tsv"
    path.write_text("'a\tb'\n")
    assert DataProcessor._read_tsv(str(path)) == [["'a", "b'"]]
    assert DataProcessor._read_tsv(str(path), quotechar="'") == [["a\tb"]]


def test_a_processor_may_have_another_kind(tmp_path):
    @register("words")
    class Words(DataProcessor):
        kind = "tagging"
        metrics = ("entity_f1", "token_accuracy")

        def get_dev_examples(self, data_dir):
            yield TaggingExample("0", ["a", "b"], ["O", "B-X"])

        def get_labels(self):
            return ["O", "B-X"]

    words = get_task("words", str(tmp_path))
    gold = words.gold("dev")
    assert gold == [["O", "B-X"]]
    scores = words.score(gold, [["O", "O"]])
    assert scores == {"entity_f1": 0.0, "token_accuracy": 0.5}


class Small(Task):
    labels = ("x", "y")
    dev_sets = ("dev_a", "dev_b")
    test_sets = ()
    rows: list = []

    def read(self, set_name):
        yield from self.rows


def test_a_set_s_short_name_is_the_first_of_its_kind():
    small = Small("")
    assert small.set_name("dev") == "dev_a"
    assert small.set_name("dev_b") == "dev_b"
    with pytest.raises(ValueError, match="no test set; it has train, dev_a, d"):
        small.set_name("test")


def test_an_empty_set_is_an_error():
    with pytest.raises(ValueError, match="the dev_a set is empty, expected at"):
        list(Small("").examples("dev"))


@pytest.mark.parametrize(
    "example",
    [
        InputExample("e", " "),
        InputExample("e", "a", "\t"),
        ChoiceExample("e", ["a", "a"], ["b", ""]),
        TaggingExample("e", ["a", ""]),
    ],
)
def test_an_empty_text_is_kept_and_told(example, caplog):
    small = Small("")
    small.rows = [InputExample("0", "a"), example, example]
    assert list(small.examples("train")) == small.rows
    assert "2 of 3 examples of the train set have an empty text" in caplog.text
    assert "the first is e." in caplog.text


def test_right_answers_in_the_form_of_each_kind():
    small = Small("")
    small.kind = "multilabel"
    labels = ("y",), (), ("x", "y")
    small.rows = [InputExample("0", "a", None, label) for label in labels]
    assert small.gold("train").tolist() == [[0, 1], [0, 0], [1, 1]]
    small.kind = "regression"
    small.rows = [InputExample("0", "a", None, 2.5)]
    assert small.gold("train") == np.array([2.5])


@pytest.mark.parametrize(
    ("name", "folder", "options", "message"),
    [
        ("colla", "d", {}, r"no such task \(the nearest is cola\); there"),
        ("cola", "d", {"language": "de"}, "no option --language; it takes"),
        ("xnli", "d", {"kind": "x"}, "no option --kind; it takes language"),
        ("cola", None, {}, "give --data_dir, the folder of its files, or"),
        ("tsv", None, {"tfds": "a", "test_file": "b"}, "no option --test_file"),
        ("tsv", None, {"tfds": "a", "drop_missing": True}, "--drop_missing; i"),
        ("tsv", None, {"tfds": ""}, ": --tfds is empty; name the data set"),
        ("swag", None, {"tfds": ""}, "has no data set in tensorflow-datasets"),
    ],
)
def test_what_cannot_be_had_is_an_error(name, folder, options, message):
    with pytest.raises(ValueError, match=f"--task_name={name}.*{message}"):
        get_task(name, folder, **options)


def test_a_folder_and_a_data_set_are_not_both_given():
    with pytest.raises(ValueError, match="--data_dir=d and --tfds=a: give one"):
        get_task("cola", "d", tfds="a")


def test_only_tasks_with_names_of_their_own_are_registered():
    with pytest.raises(TypeError, match="is not a subclass of Task or Data"):
        register("x", dict)
    fault = r"register\('CoLA'\): data.tasks.glue.Cola has this name; give"
    with pytest.raises(ValueError, match=fault):
        register("CoLA", ReviewProcessor)


def test_options_that_are_not_given_are_no_options():
    assert get_task("cola", "d", language=None).data_dir == "d"
    assert task_options("xnli") == {"language": "zh"}
    assert "source" not in task_options("tsv")
