"""Rows of examples: the original's, and those of the other kinds."""

import numpy as np
import pytest

from data.finetuning import features
from data.finetuning.tagging import words_of_rows
from data.tasks import ChoiceExample, InputExample, TaggingExample, get_task
from data.text.tokenization import FullTokenizer
from tests.support.run_files import rows_in

GOLDEN_FILES = {"train": "train", "dev": "eval", "test": "predict"}
VOCAB = "[PAD] [UNK] [CLS] [SEP] a b c d ##d e".split()
PAD, UNK, CLS, SEP, A, B, C, D, DD, E = range(len(VOCAB))


def options(kind="classification", labels=("no", "yes"), length=8, **others):
    return features.FeatureOptions(kind, labels, length, **others)


def convert(examples, tokenizer, made):
    """The rows as lists, and the report."""
    converter = features.Converter(tokenizer, made)
    return list(converter.rows(examples)), converter.report


@pytest.mark.parametrize("name", ["CoLA", "MRPC", "MNLI"])
@pytest.mark.parametrize("set_name", GOLDEN_FILES)
def test_rows_are_the_original_s(name, set_name, goldens):
    folder = goldens / "classifier" / name
    task = get_task(name, str(folder))
    rows = features.Converter(
        FullTokenizer(str(goldens / "vocab.txt")),
        features.FeatureOptions.of_task(task, 64),
    ).rows(task.examples(set_name))
    path = folder / f"expected/{GOLDEN_FILES[set_name]}.tf_record"
    for expected, row in zip(rows_in(path), rows, strict=True):
        assert {name: list(values) for name, values in row.items()} == expected


def test_a_pair_and_a_text_alone(tokenizer):
    examples = [
        InputExample("0", "a b", "c", "yes"),
        InputExample("1", "ad", None, "no"),
        # As the original, which asks whether there are tokens.
        InputExample("2", "a", "", None),
    ]
    rows, report = convert(examples, tokenizer, options())
    assert rows[0] == {
        "input_ids": [CLS, A, B, SEP, C, SEP, PAD, PAD],
        "input_mask": [1, 1, 1, 1, 1, 1, 0, 0],
        "segment_ids": [0, 0, 0, 0, 1, 1, 0, 0],
        "label_ids": [1],
        "is_real_example": [1],
    }
    assert rows[1]["input_ids"][:4] == [CLS, A, DD, SEP]
    assert rows[2]["input_ids"][:4] == [CLS, A, SEP, PAD]
    assert rows[2]["label_ids"] == [0]
    assert report == features.RecordsReport(
        num_examples=3, num_records=3, num_tokens=13, num_places=24
    )
    told = "3 examples, 0 shortened to --max_seq_length (0.0%), padding 45.8%"
    assert str(report) == told


def test_pairs_are_shortened_by_the_original_s_rule_and_counted(tokenizer):
    examples = [
        InputExample("0", "a b c d", "e e"),
        InputExample("1", "a b c d a b c", None),
        InputExample("2", "a b c", "d e"),
    ]
    rows, report = convert(examples, tokenizer, options())
    assert [row["input_ids"] for row in rows] == [
        [CLS, A, B, C, SEP, E, E, SEP],
        [CLS, A, B, C, D, A, B, SEP],
        [CLS, A, B, C, SEP, D, E, SEP],
    ]
    assert report.num_shortened == 2


def test_numbers_and_several_labels(tokenizer):
    examples = [InputExample("0", "a", None, 2.5), InputExample("1", "a")]
    rows, _ = convert(examples, tokenizer, options("regression", ()))
    assert [row["label_ids"] for row in rows] == [[2.5], [0.0]]
    examples = [
        InputExample(str(i), "a", None, label)
        for i, label in enumerate([("z", "x"), (), None])
    ]
    rows, _ = convert(examples, tokenizer, options("multilabel", "xyz"))
    answers = [row["label_ids"] for row in rows]
    assert answers == [[1, 0, 1], [0, 0, 0], [0, 0, 0]]


def test_choices_stand_one_after_the_other(tokenizer):
    example = ChoiceExample("0", ["a", "b"], ["c", "d e a b c d"], "1")
    made = options("choice", ("0", "1"), 6)
    (row,), report = convert([example], tokenizer, made)
    assert row == {
        "input_ids": [CLS, A, SEP, C, SEP, PAD, CLS, B, SEP, D, E, SEP],
        "input_mask": [1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1],
        "segment_ids": [0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 1, 1],
        "label_ids": [1],
        "is_real_example": [1],
    }
    assert (report.num_shortened, report.num_places) == (1, 12)


def test_the_first_piece_carries_the_label(tokenizer):
    made = options("tagging", ("X", "Y"))
    # U+00AD, a soft hyphen, has no pieces.
    example = TaggingExample("0", ["ad", "\u00ad", "b"], ["Y", "X", "Y"])
    (row,), _ = convert([example], tokenizer, made)
    assert row == {
        "input_ids": [CLS, A, DD, UNK, B, SEP, PAD, PAD],
        "input_mask": [1, 1, 1, 1, 1, 1, 0, 0],
        "segment_ids": [0] * 8,
        "label_ids": [0, 1, 0, 0, 1, 0, 0, 0],
        "label_mask": [0, 1, 0, 1, 1, 0, 0, 0],
        "is_real_example": [1],
    }


@pytest.mark.parametrize("document_context", [False, True])
def test_every_word_is_labelled_once_whatever_the_length(
    tokenizer, document_context
):
    rng = np.random.default_rng(7)
    names = ("X", "Y", "Z")
    sentences = [
        TaggingExample(
            str(i),
            rng.choice(["a", "add", "b", "dd"], length).tolist(),
            rng.choice(names, length).tolist(),
            document=i // 3,
        )
        for i, length in enumerate([1, 40, 3, 7, 2, 11, 5])
    ]
    made = options("tagging", names, document_context=document_context)
    rows, report = convert(sentences, tokenizer, made)
    labels = np.array([row["label_ids"] for row in rows])
    mask = np.array([row["label_mask"] for row in rows])
    lengths = [len(sentence.words) for sentence in sentences]
    words = words_of_rows(labels, mask, lengths)
    assert [[names[i] for i in one] for one in words] == [
        sentence.labels for sentence in sentences
    ]
    assert report.num_examples == 7 and report.num_split >= 3
    assert report.num_records == len(rows) > 7
    assert f"{report.num_split} split over several rows" in str(report)


def test_context_comes_from_the_same_document_only(tokenizer):
    sentences = [
        TaggingExample(str(i), [word], ["X"], document)
        for i, (word, document) in enumerate([("a", 0), ("b", 0), ("c", 1)])
    ]
    made = options("tagging", ("X",), document_context=True)
    rows, _ = convert(sentences, tokenizer, made)
    assert [row["input_ids"][:4] for row in rows] == [
        [CLS, A, B, SEP],
        [CLS, A, B, SEP],
        [CLS, C, SEP, PAD],
    ]
    assert [row["label_mask"][:4] for row in rows] == [
        [0, 1, 0, 0],
        [0, 0, 1, 0],
        [0, 1, 0, 0],
    ]


def test_a_word_longer_than_the_row_keeps_its_label(tokenizer):
    made = options("tagging", ("X",), length=5)
    example = TaggingExample("0", ["b", "addddd"], ["X", "X"])
    rows, report = convert([example], tokenizer, made)
    assert [row["input_ids"] for row in rows] == [
        [CLS, B, SEP, PAD, PAD],
        [CLS, A, DD, DD, SEP],
    ]
    assert [row["label_mask"] for row in rows] == [[0, 1, 0, 0, 0]] * 2
    assert (report.num_shortened, report.num_split) == (1, 1)


def text_of(label):
    return InputExample("3", "a", None, label)


@pytest.mark.parametrize(
    ("kind", "example", "message"),
    [
        ("classification", text_of("maybe"), "label 'maybe', expected one of"),
        ("multilabel", text_of(("no", "on")), "label 'on', expected one of"),
        ("choice", ChoiceExample("3", "aaa", "bbb"), "3 .* 3 .*, expected 2"),
        ("tagging", TaggingExample("3", "ab", ["no"]), "1 labels for 2"),
        ("tagging", TaggingExample("3", []), "has no words"),
    ],
)
def test_examples_that_do_not_fit(tokenizer, kind, example, message):
    with pytest.raises(ValueError, match=f"example 3:? {message}"):
        convert([example], tokenizer, options(kind))


def test_examples_of_another_kind_are_refused(tokenizer):
    fault = "a InputExample in a task of kind choice, expected a ChoiceExample"
    with pytest.raises(TypeError, match=fault):
        convert([InputExample("0", "a")], tokenizer, options("choice"))


def test_options_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="--max_seq_length=4; .* at least 5"):
        options(length=4)
    with pytest.raises(ValueError, match="--document_context is for tagging"):
        options(document_context=True)
