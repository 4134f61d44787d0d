"""Lines to rows: cut, joined and counted as the original does."""

import numpy as np
import pytest

from data.text.tokenization import FullTokenizer
from data.vectors import text_rows

VOCAB = "[PAD] [UNK] [CLS] [SEP] a b c d un ##aff ##able , cafe |".split()


@pytest.mark.parametrize(
    ("line", "tokens", "num_first"),
    [
        ("a b", "[CLS] a b [SEP]", 4),
        ("  a\tb \r", "[CLS] a b [SEP]", 4),
        ("", "[CLS] [SEP]", 2),
        (" \t", "[CLS] [SEP]", 2),
        ("a ||| b c", "[CLS] a [SEP] b c [SEP]", 3),
        # The last bars part the texts.
        ("a ||| b ||| c", "[CLS] a | | | b [SEP] c [SEP]", 7),
        # No pair without a space and a text on both sides.
        ("a ||| ", "[CLS] a | | | [SEP]", 6),
        ("a|||b", "[CLS] a | | | b [SEP]", 7),
        # A second text of which no wordpiece is left is none.
        ("a ||| \u200b", "[CLS] a [SEP]", 3),
        ("Unaffable, zebra", "[CLS] un ##aff ##able , [UNK] [SEP]", 7),
    ],
)
def test_a_line_becomes_a_row(tokenizer, line, tokens, num_first):
    row = text_rows.RowMaker(tokenizer, 16).line(line)
    assert row.tokens == tokens.split()
    assert row.input_ids == [VOCAB.index(token) for token in row.tokens]
    num_second = len(row.tokens) - num_first
    assert row.segment_ids == [0] * num_first + [1] * num_second
    assert row.num_lost == 0


@pytest.mark.parametrize(
    ("line", "length", "tokens", "num_lost"),
    [
        ("a b c d", 5, "[CLS] a b c [SEP]", 1),
        ("a b c d", 3, "[CLS] a [SEP]", 3),
        # The longer text loses its end, the second if they are equal.
        ("a b c ||| d", 6, "[CLS] a b [SEP] d [SEP]", 1),
        ("a ||| b c d", 6, "[CLS] a [SEP] b c [SEP]", 1),
        ("a b ||| c d", 6, "[CLS] a b [SEP] c [SEP]", 1),
        ("a ||| b", 4, "[CLS] a [SEP]", 1),
        # Only a second text with wordpieces needs a place for its [SEP].
        ("a b c d ||| \u200b", 5, "[CLS] a b c [SEP]", 1),
        ("a ||| b", 3, "[CLS] [SEP]", 2),
    ],
)
def test_what_does_not_fit_is_cut_and_counted(
    tokenizer, line, length, tokens, num_lost
):
    row = text_rows.RowMaker(tokenizer, length).line(line)
    assert row.tokens == tokens.split()
    assert row.num_lost == num_lost
    assert len(row.segment_ids) == len(row.word_ids) == len(row.tokens)


def test_wordpieces_know_their_words(tokenizer):
    line = "Unaffable, Zebra ||| caf\u00e9"
    row = text_rows.RowMaker(tokenizer, 16).line(line)
    assert row.words == "[CLS] unaffable , zebra [SEP] cafe [SEP]".split()
    assert row.word_ids == [0, 1, 1, 1, 2, 3, 4, 5, 6]
    cut = text_rows.RowMaker(tokenizer, 5).line("a unaffable b")
    assert cut.tokens == ["[CLS]", "a", "un", "##aff", "[SEP]"]
    assert cut.words == ["[CLS]", "a", "unaffable", "[SEP]"]
    assert cut.word_ids == [0, 1, 2, 2, 3]


def test_wordpieces_are_the_tokenizers(goldens):
    tokenizer = FullTokenizer(str(goldens / "vocab.txt"))
    path = goldens / "tokenization/torture.txt"
    for line in path.read_text("utf-8").split("\n"):
        row = text_rows.RowMaker(tokenizer, 10_000).line(line)
        if "|||" not in line:
            assert row.tokens[1:-1] == tokenizer.tokenize(line)


def test_every_line_counts(tokenizer, tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes("\ufeffa\n\nb\u2028c\n\nd".encode())
    assert text_rows.count_lines(str(path)) == 5
    lines = text_rows.read_texts(str(path))
    rows = [text_rows.RowMaker(tokenizer, 8).line(line) for line in lines]
    texts = [" ".join(row.tokens[1:-1]) for row in rows]
    assert texts == ["a", "", "b c", "", "d"]


def test_an_empty_file_is_refused(tmp_path):
    path = tmp_path / "text.txt"
    path.touch()
    with pytest.raises(ValueError, match="is empty; expected a text on each"):
        text_rows.count_lines(str(path))


def rows_of(lengths):
    return [
        text_rows.TextRow(
            index=i,
            tokens=["a"] * n,
            input_ids=[4] * n,
            segment_ids=[1] * n,
            words=["a"] * n,
            word_ids=list(range(n)),
            num_lost=0,
        )
        for i, n in enumerate(lengths)
    ]


def window_sizes(lengths, batch_size, max_cost):
    def cost(row):
        return len(row.tokens)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_rows, "_NUMBERS_OF_WINDOW", max_cost)
        rows = iter(rows_of(lengths))
        windows = list(text_rows.windows(rows, batch_size, cost))
    indices = [row.index for window in windows for row in window]
    assert indices == list(range(len(lengths)))
    return [len(window) for window in windows]


def test_windows_hold_whole_batches_up_to_a_cost():
    assert window_sizes([5] * 11, 2, 21) == [6, 5]  # 5 rows cost 25, 6 close
    assert window_sizes([50] * 5, 2, 21) == [2, 2, 1]
    assert window_sizes([1] * 801, 4, 10**9) == [400, 400, 1]
    assert window_sizes([], 4, 10) == []


def test_padding():
    batch = text_rows.pad_rows(rows_of([2, 3]), batch_size=3, length=4)
    assert {x.dtype for x in batch.values()} == {np.dtype(np.int32)}
    assert batch["input_ids"].tolist() == [[4, 4, 0, 0], [4, 4, 4, 0], [0] * 4]
    assert batch["input_mask"].tolist() == [[1, 1, 0, 0], [1, 1, 1, 0], [0] * 4]
    assert batch["segment_ids"].tolist() == batch["input_mask"].tolist()
    words = batch["word_ids"].tolist()
    assert words == [[0, 1, -1, -1], [0, 1, 2, -1], [-1] * 4]
