import pytest

from data.tasks import TaggingExample, get_task
from data.tasks.conll import to_bio
from tests.data.tasks.fixtures import CONLLU, FOLDERS, write_files


@pytest.fixture
def conll(tmp_path):
    def make(options=None, name="conll", **changed):
        folder = write_files(tmp_path / "data", FOLDERS[name] | changed)
        return get_task(name, folder, **(options or {}))

    return make


@pytest.mark.parametrize(
    "labels",
    [
        "I-A I-A O I-A B-A I-B",  # IOB1: B- only to part two of a type
        "B-A I-A O B-A B-A B-B",  # BIO
        "B-A E-A O S-A S-A S-B",  # BIOES
        "B-A L-A O U-A U-A U-B",  # BILOU
    ],
)
def test_every_scheme_of_chunks_is_read_alike(labels):
    assert to_bio(labels.split()) == "B-A I-A O B-A B-A B-B".split()


def test_other_labels_stay_as_they_are():
    labels = ["NN", "-LRB-", "B", "Q-1", "I-", "O"]
    assert to_bio(labels) == labels


def test_sentences_and_documents(conll):
    second = (
        "-DOCSTART- -X- -X- O\n\n# NN I-NP O\n-DOCSTART- -X- O O\nEU NNP O O"
    )
    sentences = FOLDERS["conll"]["valid.txt"] + second
    task = conll(**{"valid.txt": sentences})
    assert list(task.examples("dev")) == [
        TaggingExample(
            "dev-0", ["EU", "rejects", "German"], ["B-ORG", "O", "B-MISC"], 1
        ),
        TaggingExample("dev-1", ["Peter", "Blackburn"], ["B-PER", "I-PER"], 1),
        TaggingExample("dev-2", ["#"], ["O"], 2),
        TaggingExample("dev-3", ["EU"], ["O"], 3),
    ]
    assert task.labels == ("B-MISC", "B-ORG", "B-PER", "I-PER", "O")
    assert task.metrics == ("entity_f1", "token_accuracy")


@pytest.mark.parametrize("column", ["pos", "1", "-3"])
def test_any_column_may_be_the_label(conll, column):
    task = conll({"label_column": column})
    assert next(task.examples("train")).labels == ["NNP", "VBZ", "JJ"]
    assert task.labels == ("JJ", "NNP", "VBZ")
    assert task.metrics == ("token_accuracy",)


def test_two_columns_parted_by_tabs(conll):
    lines = "New York\tB-LOC\r\nis\tO\r\n"
    task = conll(**{"eng.train": lines, "test.txt": "New\u00a0York\nis\n"})
    assert next(task.examples("train")).words == ["New York", "is"]
    (test,) = task.examples("test")
    assert test == TaggingExample("test-0", ["New\u00a0York", "is"], None, 0)


@pytest.mark.parametrize("word", ["\u00a0", "\u3000", "10\u00a0000"])
def test_only_spaces_and_tabs_part_columns(conll, word):
    files = {
        "valid.txt": f" {word} NN I-NP O \n \t\nb NN I-NP O\n",
        "test.txt": f"a\n{word}\n\nb\n",
    }
    task = conll(**files)
    dev = [example.words for example in task.examples("dev")]
    assert dev == [[word], ["b"]]
    test = [example.words for example in task.examples("test")]
    assert test == [["a", word], ["b"]]


def test_files_and_labels_may_be_given(conll):
    options = {"dev_file": "my.txt", "labels": ["O", "B-X"]}
    task = conll(options, **{"my.txt": "a x x B-X\n"})
    assert task.labels == ("O", "B-X")
    assert task.gold("dev") == [["B-X"]]


def test_conllu_leaves_ranges_and_empty_nodes_out(conll):
    task = conll(name="conllu")
    assert list(task.examples("dev")) == [
        TaggingExample("dev-0", ["It", "'s", "on"], ["PRON", "AUX", "ADV"], 1),
        TaggingExample("dev-1", ["#"], ["SYM"], 1),
    ]
    task = conll({"label_column": "xpos"}, name="conllu")
    assert next(task.examples("dev")).labels == ["PRP", "VBZ", "RB"]


def test_a_test_set_may_be_without_labels(conll):
    lines = CONLLU
    for label in "PRON", "AUX", "ADV", "SYM":
        lines = lines.replace(label, "_")
    task = conll(name="conllu", **{"test.conllu": lines})
    assert [example.labels for example in task.examples("test")] == [None] * 2
    assert task.gold("test") is None
    # Labels that only a test set has are unknown.
    lines = "New B-NEW\nYork O\n\nis O\n"
    task = conll(**{"train.txt": "a O\n", "test.txt": lines})
    assert [x.labels for x in task.examples("test")] == [None, ["O"]]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("a NN I-NP O\nb NN O\n", "line 2: 3 columns, expected 4 for each"),
        ("a NN I-NP B-X\n", "sentence dev-0: label 'B-X', expected one of B-M"),
        ("a\tNN\tI-NP\t\n", "from line 1: the label '' is empty"),
        ("\tNN\tI-NP\tO\n", "line 1: the column of words is empty"),
        ("a;NN;I-NP;O\n", "line 1: .*expected more columns, with tabs or"),
    ],
)
def test_a_wrong_line_is_an_error_with_its_place(conll, lines, message):
    with pytest.raises(ValueError, match=f"valid.txt, {message}"):
        list(conll(**{"valid.txt": lines}).examples("dev"))


def test_ids_of_words_count_from_1(conll):
    for before, after, message in (
        ("\n2\t", "\nO2\t", "line 5: the id is 'O2', expected 2 .or as 1-2 or"),
        ("\n2\t", "\n\t", "line 5: the id is '', expected 2"),
        ("\n\n", "\n", "line 8: the id is '1', expected 4 .*blank line ends"),
    ):
        task = conll(
            name="conllu", **{"dev.conllu": CONLLU.replace(before, after)}
        )
        with pytest.raises(ValueError, match=f"dev.conllu, {message}"):
            list(task.examples("dev"))


def test_columns_that_are_not_there_are_an_error(conll):
    fault = "eng.train, line 3: there is no column 'lemma'; it has word, pos"
    with pytest.raises(ValueError, match=fault):
        list(conll({"label_column": "lemma"}).examples("dev"))
    lines = CONLLU.replace("1-2\tIt's\t_\t_\t_\t_\t_\t_\t_\t_", "1 a b c")
    with pytest.raises(ValueError, match="dev.conllu, line 3: 4 columns, exp"):
        list(conll(name="conllu", **{"dev.conllu": lines}).examples("dev"))
