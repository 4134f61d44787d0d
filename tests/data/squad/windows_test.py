import gzip
import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.squad.examples import Paragraph, SquadReport, read_examples
from data.squad.paragraphs import TokenizedParagraph
from data.squad.windows import WindowOptions, convert_examples, spans
from tests.data.squad import reference
from tests.data.squad.support import (
    GOLDEN,
    question,
    read_golden,
    token_is_max_context,
    token_to_orig_map,
    write_paragraph,
)


def convert(data, tokenizer, options, is_training, report=None):
    examples = read_examples(data, is_training, "v2.0" in data.name)
    return list(convert_examples(examples, tokenizer, options, report))


def features(goldens, name):
    with gzip.open(goldens / f"squad/{name}.features.json.gz") as file:
        return json.load(file)


def row_of(window, tokenizer):
    """The tokens of a row, with padding: as ids."""
    cls, sep = tokenizer.vocab["[CLS]"], tokenizer.vocab["[SEP]"]
    ids = [cls, *window.query_ids.tolist(), sep, *window.doc_ids.tolist(), sep]
    return ids + [0] * (GOLDEN.max_seq_length - len(ids))


def by_number(places):
    return {str(place): value for place, value in places.items()}


@pytest.mark.parametrize("version", ["1.1", "2.0"])
def test_windows_to_predict_equal_the_original_s(goldens, tokenizer, version):
    name = f"dev-v{version}"
    made = []
    converted = convert(read_golden(goldens, name), tokenizer, GOLDEN, False)
    for example_index, (_, windows) in enumerate(converted):
        for doc_span_index, window in enumerate(windows):
            ids = row_of(window, tokenizer)
            length, num_before = len(window.tokens), window.doc_offset
            padding = [0] * (96 - length)
            made.append(
                {
                    "unique_id": 1_000_000_000 + len(made),
                    "example_index": example_index,
                    "doc_span_index": doc_span_index,
                    "tokens": tokenizer.convert_ids_to_tokens(ids[:length]),
                    "token_to_orig_map": by_number(token_to_orig_map(window)),
                    "token_is_max_context": by_number(
                        token_is_max_context(window)
                    ),
                    "input_ids": ids,
                    "input_mask": [1] * length + padding,
                    "segment_ids": [0] * num_before
                    + [1] * (length - num_before)
                    + padding,
                }
            )
    assert made == features(goldens, name)


NAMES = ("start_position", "end_position", "is_impossible")


@pytest.mark.parametrize("version", ["1.1", "2.0"])
def test_windows_to_train_equal_the_original_s(goldens, tokenizer, version):
    name = f"train-v{version}"
    data = read_golden(goldens, name)
    report = SquadReport()
    converted = convert(data, tokenizer, GOLDEN, True, report)
    made = [
        {
            "unique_id": unique_id,
            **dict(zip(NAMES, window.labels, strict=True)),
            "input_ids": row_of(window, tokenizer),
        }
        for unique_id, window in enumerate(
            itertools.chain(*(windows for _, windows in converted)),
            start=1_000_000_000,
        )
    ]
    expected = features(goldens, name)
    assert made == expected
    assert report.num_examples == 48 and report.num_windows == len(expected)
    assert report.num_without_answer == sum(
        not one["is_impossible"] and one["start_position"] == 0
        for one in expected
    )


@pytest.mark.parametrize("context", ["a \u200b b", "a \u200b"])
def test_an_answer_without_wordpieces_is_in_no_window(
    tmp_path, tokenizer, context
):
    asked = question("1", "a", [("\u200b", 2)])
    data = write_paragraph(tmp_path / "a.json", context, asked)
    report = SquadReport()
    ((_, (window,)),) = convert(data, tokenizer, WindowOptions(), True, report)
    assert window.labels[:2] == (0, 0)
    assert report.num_without_answer == 1


def checked_spans(num_tokens, room, stride):
    """Spans, which equal those of a plain search."""
    expected = reference.spans(num_tokens, room, stride)
    found = spans(num_tokens, room, stride)
    assert [span[:2] for span in found] == expected
    for number, span in enumerate(found):
        best = [
            token
            for token in range(span.doc_start, span.doc_start + span.doc_length)
            if reference.is_max_context(expected, number, token)
        ]
        assert best == list(range(span.best_start, span.best_end))
    return found


@given(st.integers(0, 250), st.integers(1, 120), st.integers(1, 130))
def test_spans_equal_a_plain_search(num_tokens, room, stride):
    checked_spans(num_tokens, room, stride)


def test_ties_of_the_last_window_are_those_of_floats():
    # The last part is 100 tokens shorter, which costs it 1: a token in between
    # has equal scores in both except for the rounding of 0.01 length.
    for length in range(203, 303):
        found = checked_spans(length - 100 + 150, length, 150)
        assert [span.doc_length for span in found] == [length, length - 100]


WORDS = st.lists(
    st.text("abc(.-\u200b", min_size=1, max_size=4), min_size=1, max_size=6
)


@given(words=WORDS, data=st.data())
def test_the_answer_s_span_equals_a_plain_search(tokenizer, words, data):
    start = data.draw(st.integers(0, len(words) - 1))
    end = data.draw(st.integers(start, len(words) - 1))
    text = " ".join(words[start : end + 1])
    answer = text[data.draw(st.integers(0, 3)) :]
    tokenized = TokenizedParagraph(Paragraph("", "", words, []), tokenizer)
    pieces = [piece for word in words for piece in tokenizer.tokenize(word)]
    first = [0]
    for word in words:
        first.append(first[-1] + len(tokenizer.tokenize(word)))

    class Example:
        start_position, end_position = start, end
        orig_answer_text = answer

    assert tokenized.answer_tokens(Example) == (
        reference.answer_span(
            pieces, first[start], first[end + 1] - 1, answer, tokenizer
        )
    )


@given(data=st.data())
def test_the_place_of_an_answer_holds_it(tmp_path_factory, tokenizer, data):
    # Spaces and combining marks of all kinds around and in the answer.
    part = st.text("abé1 \t\n\u202f\xa0\u3000\u0301\u200b(", max_size=6)
    before, answer, after = (data.draw(part) for _ in range(3))
    answer = "x" + answer + "y"
    path = tmp_path_factory.mktemp("place") / "a.json"
    asked = question("1", "a", [(answer, len(before))])
    source = write_paragraph(path, before + answer + after, asked)
    found = convert(source, tokenizer, WindowOptions(), True)
    if not found:
        return  # the words differ at odd white space, as in the original
    ((example, (window,)),) = found
    first, last = (place - window.doc_offset for place in window.labels[:2])
    text = "".join(window.paragraph.tokens(first, last + 1)).replace("##", "")
    assert "".join(tokenizer.tokenize(answer)).replace("##", "") in text
    assert "".join(answer.split()) in "".join(
        "".join(example.paragraph.doc_tokens).split()
    )


def test_a_window_has_room_for_text():
    WindowOptions(max_seq_length=68).check_room()
    with pytest.raises(ValueError) as error:
        WindowOptions(max_seq_length=67).check_room()
    # The original's words.
    assert str(error.value) == (
        "The max_seq_length (67) must be greater than max_query_length (64) + 3"
    )
