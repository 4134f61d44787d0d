"""The tokenizer in the graph against FullTokenizer and the original's ids."""

import functools
import gzip
import json
import pathlib

import hypothesis
import pytest
import tensorflow as tf
from hypothesis import strategies

from data.text.in_graph.tokenization import InGraphTokenizer
from data.text.tokenization import FullTokenizer

VOCAB = pathlib.Path(__file__).parents[3] / "goldens/vocab.txt"
SPECIAL = ("[MASK]", "[SEP]")
CASINGS = pytest.mark.parametrize(
    "do_lower_case", [True, False], ids=["uncased", "cased"]
)
# Words of the vocabulary, what joins and parts them, and odd characters.
ODD_PARTS = (
    "the|THE|fox|caf|é|e\u0301|Σ|σ| |\t|\n|\v|\0|\x85|\xa0|\u2028|\u200b|\ufffd"
    "|中|豈|İ|한|≠|.|[MASK]|[SEP]|#|\u0301|\u302e|\U00016ff0|😀|\u0378"
).split("|")
PRINTABLE = "".join(map(chr, range(0x20, 0x7F))) + "\t\n\r"
TEXTS = strategies.lists(
    strategies.text()
    | strategies.lists(strategies.sampled_from(ODD_PARTS)).map("".join)
)


def tokenizer_of(vocab_file, do_lower_case, never_split=()):
    """Returns a function of a list of texts to ids, starts, ends, as lists."""
    tokenizer = InGraphTokenizer(str(vocab_file), do_lower_case, never_split)
    graph = tf.function(
        tokenizer.tokenize_with_offsets,
        input_signature=[tf.TensorSpec([None], tf.string)],
    )
    return lambda texts: [
        x.to_list() for x in graph(tf.constant(texts, tf.string, [len(texts)]))
    ]


@functools.cache
def golden_tokenizers(do_lower_case, never_split=()):
    """Returns the tokenizer in the graph and its reference."""
    return (
        tokenizer_of(VOCAB, do_lower_case, never_split),
        FullTokenizer(str(VOCAB), do_lower_case, never_split),
    )


def spans(text, do_lower_case=True, never_split=()):
    """Returns [(wordpiece, slice of the text)]."""
    in_graph, reference = golden_tokenizers(do_lower_case, never_split)
    ids, starts, ends = (x[0] for x in in_graph([text]))
    slices = [text[i:j] for i, j in zip(starts, ends, strict=True)]
    return list(zip(reference.convert_ids_to_tokens(ids), slices, strict=True))


@CASINGS
def test_equals_the_original_on_torture_lines(goldens, do_lower_case):
    path = goldens / "tokenization/tokenization.jsonl"
    lines = map(json.loads, path.read_text("utf-8").splitlines())
    lines = [x for x in lines if x["do_lower_case"] == do_lower_case]
    in_graph, _ = golden_tokenizers(do_lower_case)
    ids, _, _ = in_graph([line["text"] for line in lines])
    assert len(ids) == 43
    for line, line_ids in zip(lines, ids, strict=True):
        assert line_ids == line["ids"], line["text"]


@pytest.mark.parametrize("never_split", [(), SPECIAL])
@CASINGS
@hypothesis.given(texts=TEXTS)
def test_equals_full_tokenizer(do_lower_case, never_split, texts):
    in_graph, reference = golden_tokenizers(do_lower_case, never_split)
    ids, all_starts, all_ends = in_graph(texts)
    assert ids == [reference.encode(text) for text in texts]
    for text, starts, ends in zip(texts, all_starts, all_ends, strict=True):
        assert starts == sorted(starts)
        assert ends == sorted(ends)
        for start, end in zip(starts, ends, strict=True):
            assert 0 <= start < end <= len(text)
            assert text[start:end].strip() == text[start:end]
        if not do_lower_case:  # then no character is cut in two
            assert all(i <= j for i, j in zip(ends, starts[1:], strict=False))


@hypothesis.given(
    strategies.binary()
    | strategies.lists(
        strategies.sampled_from(
            [b"the", b" ", b"\xff", b"\xc3\xa9", b"\xe4\xb8", b"\xed\xa0\x80"]
        )
    ).map(b"".join)
)
def test_bad_bytes_are_dropped_and_do_not_count(text):
    for never_split in ((), SPECIAL):
        in_graph, reference = golden_tokenizers(True, never_split)
        assert in_graph([text])[0] == [reference.encode(text)]
        assert in_graph([text]) == in_graph([text.decode("utf-8", "ignore")])


@CASINGS
@hypothesis.given(text=strategies.text(PRINTABLE))
def test_both_roads_agree(do_lower_case, text):
    in_graph, _ = golden_tokenizers(do_lower_case)
    # A deleted character sends the text down the other road.
    assert in_graph([text]) == in_graph([f"{text}\u200b"])
    two, one = in_graph([f"{text}\u200b", text]), in_graph([text])
    assert two == [[x[0], x[0]] for x in one]


@hypothesis.given(strategies.text("the café.\u200be\u0301Ω中-\0"))
def test_the_slice_of_a_word_gives_its_pieces_again(text):
    in_graph, reference = golden_tokenizers(True)
    (ids,), (starts,), (ends,) = in_graph([text])
    words = []
    for piece in zip(ids, starts, ends, strict=True):
        if not reference.inv_vocab[piece[0]].startswith("##"):
            words.append([])
        words[-1].append(piece)
    for word in words:
        of_slice, _, _ = in_graph([text[word[0][1] : word[-1][2]]])
        assert of_slice == [[i for i, _, _ in word]]


@pytest.mark.parametrize(
    ("text", "slices"),
    [
        ("tabs.", ["tab", "s", "."]),
        ("\u200btab\u200bs \u200b", ["tab", "s"]),  # deleted around
        ("t\u200bab", ["t\u200bab"]),  # deleted inside
        ("Cafe\u0301s TABS", ["C", "a", "f", "e\u0301s", "TAB", "S"]),
        ("THÉ, the", ["THÉ", ",", "the"]),
        ("THE\u0301, the", ["THE\u0301", ",", "the"]),
        ("the\u200d\u0301 x", ["the\u200d\u0301", "x"]),
        ("the \u0301the", ["the", "the"]),  # an accent on nothing
        ("\u0301the", ["the"]),
        ("İn it", ["İn", "it"]),  # lower-cased to three characters
        ("in\x85\xa0it中", ["in", "it", "中"]),
        ("≠the", ["≠", "the"]),  # = and a mark
        ("x" * 201 + " the", ["x" * 201, "the"]),  # too long
        ("é" * 201 + " the", ["é" * 201, "the"]),
        ("\u0259the the", ["\u0259the", "the"]),  # unknown
        ("", []),
        (" \u200b ", []),
    ],
)
def test_offsets_are_where_a_reader_sees_the_piece(text, slices):
    assert [x for _, x in spans(text)] == slices


def test_a_character_that_is_cut_in_two_is_in_both_spans(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("[UNK]\n\u1112\n##\u1161\u11ab\n##\u1100\u1161\n", "utf-8")
    expected = [[[1, 2, 3]], [[0, 0, 1]], [[1, 1, 2]]]
    assert tokenizer_of(path, True)(["한가"]) == expected


def test_words_of_200_characters_are_cut_however_many_bytes(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("a\n##a\n𐐨\n##𐐨\n[UNK]\n", "utf-8")
    in_graph = tokenizer_of(path, True)
    ids, _, _ = in_graph(["a" * 200, "a" * 201, "𐐨" * 200, "𐐨" * 201])
    assert ids == [[0] + [1] * 199, [4], [2] + [3] * 199, [4]]
    # Accents and control characters do not count, nor does a full stop.
    ids, _, _ = in_graph(["á\u200b" * 200, "á" * 201, "a" * 200 + ".a"])
    assert ids == [[0] + [1] * 199, [4], [0] + [1] * 199 + [4, 0]]


def test_odd_vocabularies_work_as_in_full_tokenizer(tmp_path):
    tokens = (
        ["[UNK]", "a", "##b", "a", "", "##", "a b", "a.b", ".", "##.", "É"]
        + ["é", "\x7f2", "##b", " c ", "x" * 201, "é" * 201, "#", "###"]
        + ["[UNK]", "\0", "a\0", "\x7f"]
    )
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(tokens) + "\n", "utf-8")
    texts = ["ab a.b ## #a", "aÉ éb É c", "", " ", "x" * 201, "\x7f2 a\0b ?"]
    for do_lower_case in (True, False):
        reference = FullTokenizer(str(path), do_lower_case)
        ids, _, _ = tokenizer_of(path, do_lower_case)(texts)
        assert ids == [reference.encode(text) for text in texts]


def test_vocabularies_it_cannot_take(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("the\n")
    with pytest.raises(ValueError, match=r"vocab.txt has no \[UNK\] among"):
        InGraphTokenizer(str(path))
    path.write_text("[UNK]\n" + "\u0e01" * 86 + "\n", "utf-8")
    fault = "vocab.txt, line 2: .* has 258 bytes; .* or use FullTokenizer."
    with pytest.raises(ValueError, match=fault):
        InGraphTokenizer(str(path))


def test_never_split_keeps_tokens_whole():
    found = spans("the[MASK] [mask]", never_split=SPECIAL)
    assert [piece for piece, _ in found] == "the [MASK] [ mask ]".split()
    assert [part for _, part in found] == "the [MASK] [ mask ]".split()
    assert spans("thé [MASK][SEP]e\u0301", never_split=SPECIAL) == [
        ("the", "thé"),
        ("[MASK]", "[MASK]"),
        ("[SEP]", "[SEP]"),
        ("e", "e\u0301"),
    ]


def test_tokens_of_never_split_are_no_regular_expressions(tmp_path):
    tokens = [".*", "a|b", "\\d", "a b", "[a", "[a]", "(?i)", "{2}", "é", "##a"]
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(["[UNK]", "a", *tokens]) + "\n", "utf-8")
    texts = [f"a{x}{y}\0a" for x in tokens for y in tokens] + ["", "\0"]
    reference = FullTokenizer(str(path), True, tokens)
    ids, _, _ = tokenizer_of(path, True, tokens)(texts)
    assert ids == [reference.encode(text) for text in texts]
    assert ids[0] == [1, 2, 2, 1]


def test_never_split_must_be_in_the_vocabulary():
    with pytest.raises(ValueError, match=r"vocab.txt has no \[X\] among its"):
        InGraphTokenizer(str(VOCAB), never_split=["[MASK]", "[X]"])
    with pytest.raises(ValueError, match="is '.MASK.'; expected a list"):
        InGraphTokenizer(str(VOCAB), never_split="[MASK]")


def test_a_single_text_is_refused():
    tokenizer = InGraphTokenizer(str(VOCAB))
    with pytest.raises(ValueError, match=r"shape \(\); expected a batch"):
        tokenizer.tokenize("the")


def test_maps_a_data_set_in_its_order():
    texts = ["the", "", "thé\u200b", "the the"] * 50
    dataset = tf.data.Dataset.from_tensor_slices(texts).batch(7)
    dataset = dataset.map(
        InGraphTokenizer(str(VOCAB)).tokenize, num_parallel_calls=2
    )
    assert dataset.element_spec.dtype == tf.int32
    _, reference = golden_tokenizers(True)
    ids = [row for batch in dataset for row in batch.to_list()]
    assert ids == [reference.encode(text) for text in texts]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("vocab", "do_lower_case"),
    [
        ("uncased", True),
        ("cased", False),
        ("chinese", True),
        ("multilingual_cased", False),
        ("multilingual_cased", True),
    ],
)
def test_equals_full_tokenizer_on_real_text(real_data, vocab, do_lower_case):
    path = real_data / "vocab" / vocab / "vocab.txt"
    texts = gzip.decompress(
        (real_data / "novels/novels_train.txt.gz").read_bytes()
    ).split(b"\n")
    assert len(texts) > 200_000
    for file in sorted((real_data / "multilingual").glob("*.txt")):
        texts += file.read_bytes().split(b"\n")
    codes = [i for i in range(0x110000) if not 0xD800 <= i <= 0xDFFF]
    texts += [chr(i).encode() for i in codes]
    texts += [f"a{chr(i)}b".encode() for i in codes]
    in_graph = tokenizer_of(path, do_lower_case)
    reference = FullTokenizer(str(path), do_lower_case)
    for first in range(0, len(texts), 4096):
        batch = texts[first : first + 4096]
        assert in_graph(batch)[0] == [reference.encode(x) for x in batch]
