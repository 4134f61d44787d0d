"""Tokenization against the original's outputs (tests/goldens), and its rules.

Expected values without another source follow from the original's rules, as
its tokenization.py at commit eedf571 states them.
"""

import collections
import hashlib
import json
import pickle
import re
import unicodedata

import hypothesis
import pytest
from hypothesis import strategies

from data.text import tokenization
from tests.support.tiers import rare

# What the rules treat apart: white space of all kinds, control characters,
# joiners, ideographs, combining marks, sigmas, punctuation.
ODD_CHARACTERS = (
    " \t\n\r\v\f\0\x1c\x85\xa0\u2028\u3000\u200b\u00ad\ufffd中㐀ΣσİéÅ"
    "e\u0301\u0345$`¿—[]#Maskthe"
)
TEXTS = strategies.text() | strategies.text(
    strategies.sampled_from(ODD_CHARACTERS)
)


@pytest.fixture(scope="module", params=[True, False], ids=["uncased", "cased"])
def tokenizer(request, goldens):
    return tokenization.FullTokenizer(str(goldens / "vocab.txt"), request.param)


def test_equals_the_original_on_torture_lines(tokenizer, goldens):
    text = (goldens / "tokenization/tokenization.jsonl").read_text("utf-8")
    do_lower_case = tokenizer.basic_tokenizer.do_lower_case
    lines = map(json.loads, text.splitlines())
    lines = [x for x in lines if x["do_lower_case"] == do_lower_case]
    assert len(lines) == 43
    for line in lines:
        text = line["text"]
        assert tokenizer.basic_tokenizer.tokenize(text) == line["basic"]
        assert tokenizer.tokenize(text) == line["tokens"]
        assert tokenizer.encode(text) == line["ids"]
        assert tokenizer.convert_tokens_to_ids(line["tokens"]) == line["ids"]


# Blocks of 256 code points with characters that Unicode 15.0 added. Python 3.12
# knows them, and there the original's tokenizer changes as ours does.
ADDED_LATER = {0xE, 0x10E, 0x112, 0x11B, 0x11F, 0x134, 0x1E0, 0x1E4}
# Planes of 65,536 code points: those with characters, and the other ones.
PLANES = [{0, 1, 2, 3, 14}, {*range(4, 14), 15, 16}]


@pytest.mark.parametrize("planes", [PLANES[0], rare(PLANES[1])])
@pytest.mark.parametrize("casing", ["uncased", "cased"])
def test_equals_the_original_on_every_code_point(goldens, casing, planes):
    tokenizer = tokenization.BasicTokenizer(do_lower_case=casing == "uncased")
    text = (goldens / "tokenization/code_points.jsonl").read_text("utf-8")
    blocks = [json.loads(line) for line in text.splitlines()]
    assert len(blocks) == 0x110000 // 256
    is_later = unicodedata.unidata_version != "14.0.0"
    quote = json.encoder.encode_basestring_ascii  # as json.dumps, but faster
    for block in blocks:
        first = int(block["block"], 16)
        if first >> 16 not in planes:
            continue
        if is_later and first // 256 in ADDED_LATER:
            continue
        lines = [
            f"[{', '.join(map(quote, tokenizer.tokenize(text)))}]\n"
            for code_point in range(first, first + 256)
            if not 0xD800 <= code_point <= 0xDFFF
            for text in (chr(code_point), f"a{chr(code_point)}b")
        ]
        digest = hashlib.sha256("".join(lines).encode()).hexdigest()
        assert digest[:16] == block[casing], block["block"]


@hypothesis.given(TEXTS)
def test_fast_road_equals_basic_then_wordpiece(tokenizer, text):
    expected = []
    for word in tokenizer.basic_tokenizer.tokenize(text):
        expected += tokenizer.wordpiece_tokenizer.tokenize(word)
    assert tokenizer.tokenize(text) == expected
    ids = tokenizer.convert_tokens_to_ids(expected)
    assert tokenizer.encode(text) == ids
    assert tokenizer.encode(text) == ids  # now from memory


@hypothesis.given(TEXTS, TEXTS)
def test_white_space_makes_texts_independent(tokenizer, left, right):
    assert tokenizer.encode(f"{left} {right}") == (
        tokenizer.encode(left) + tokenizer.encode(right)
    )


@hypothesis.given(TEXTS)
def test_basic_tokens_are_fixed_points(tokenizer, text):
    basic = tokenizer.basic_tokenizer
    hypothesis.assume("İ" not in text)
    tokens = basic.tokenize(text)
    assert basic.tokenize(" ".join(tokens)) == tokens


@hypothesis.given(strategies.text("abun#fle", min_size=1, max_size=30))
def test_pieces_join_to_the_word_and_are_the_longest(word):
    vocab = {"a", "un", "b", "##a", "##b", "##aff", "##able", "##ab", "##le"}
    pieces = tokenization.WordpieceTokenizer(vocab).tokenize(word)
    if pieces == ["[UNK]"]:
        return
    assert word == pieces[0] + "".join(x.removeprefix("##") for x in pieces[1:])
    start = 0
    for piece in pieces:
        prefix = "##" if start else ""
        end = start + len(piece) - len(prefix)
        longer = range(end + 1, len(word) + 1)
        assert all(prefix + word[start:stop] not in vocab for stop in longer)
        start = end


def test_results_are_the_callers_to_change(tokenizer):
    tokenizer.tokenize("the dog").append("spoiled")
    tokenizer.encode("the dog").clear()
    assert tokenizer.tokenize("the dog")[-1] != "spoiled"
    assert tokenizer.encode("the dog")


def test_memory_is_bounded_and_forgetting_changes_nothing(goldens, monkeypatch):
    monkeypatch.setattr(tokenization._Memo, "_MAX_WORDS", 3)
    tokenizer = tokenization.FullTokenizer(str(goldens / "vocab.txt"))
    text = "the quick brown fox jumps over the lazy dog " + "x" * 100
    first = tokenizer.encode(text)
    assert len(tokenizer._ids) <= 3
    assert tokenizer.encode(text) == first
    assert all(len(word) <= 64 for word in tokenizer._ids)


def test_tokenizer_travels_to_worker_processes(tokenizer):
    text = "It's the dog's dinner."
    expected = tokenizer.encode(text)
    assert pickle.loads(pickle.dumps(tokenizer)).encode(text) == expected


def test_never_split_keeps_tokens_whole(goldens):
    tokenizer = tokenization.FullTokenizer(
        str(goldens / "vocab.txt"), never_split=["[MASK]", "[SEP]"]
    )
    text = "the[MASK]\u200bthe [mask][SEP]"
    expected = ["the", "[MASK]", "the", "[", "mask", "]", "[SEP]"]
    assert tokenizer.tokenize(text) == expected
    assert tokenizer.encode(text) == (tokenizer.convert_tokens_to_ids(expected))
    assert tokenizer.tokenize(b"[MA\xffSK]the") == ["[MASK]", "the"]
    # A text ends at a token, so that this sigma is a final one.
    assert tokenizer.tokenize("ΑΣ[MASK]Α") == (
        tokenizer.tokenize("ας") + ["[MASK]"] + tokenizer.tokenize("α")
    )


def test_the_longest_token_of_never_split_is_taken(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("[UNK]\n[A\n[A]\n]\n.*\n")
    tokenizer = tokenization.FullTokenizer(
        str(path), never_split=["[A", "[A]", ".*"]
    )
    assert tokenizer.encode("[A][A.*[a]") == [2, 1, 4, 0, 0, 3]


def test_never_split_must_be_tokens_of_the_vocabulary(goldens):
    path = str(goldens / "vocab.txt")
    with pytest.raises(ValueError, match=r"vocab.txt has no \[X\] among its"):
        tokenization.FullTokenizer(path, never_split=["[MASK]", "[X]"])
    for wrong in ("[MASK]", ["[MASK]", ""]):
        fault = re.escape(f"never_split is {wrong!r}; expected a list")
        with pytest.raises(ValueError, match=fault):
            tokenization.FullTokenizer(path, never_split=wrong)


def test_bytes_are_utf8_and_bad_ones_dropped(tokenizer):
    assert tokenizer.encode("th\u00e9".encode()) == tokenizer.encode("thé")
    assert tokenizer.tokenize(b"th\xffe") == ["the"]
    assert tokenization.printable_text(b"a\xffb") == "ab"
    with pytest.raises(ValueError, match="Unsupported string type: <class 'i"):
        tokenization.convert_to_unicode(3)


def test_example_of_the_original():
    # The docstring of the original's WordpieceTokenizer and its test.
    vocab = ["[UNK]", "un", "runn", "##aff", "##able", "##ing"]
    tokenizer = tokenization.WordpieceTokenizer(vocab)
    assert tokenizer.tokenize("") == []
    assert tokenizer.tokenize("unaffable runningX running") == (
        ["un", "##aff", "##able", "[UNK]", "runn", "##ing"]
    )


def test_words_over_200_characters_are_unknown():
    tokenizer = tokenization.WordpieceTokenizer(["a", "##a"])
    assert tokenizer.tokenize("a" * 200) == ["a"] + ["##a"] * 199
    assert tokenizer.tokenize("a" * 201) == ["[UNK]"]
    short = tokenization.WordpieceTokenizer(
        ["a", "##a"], unk_token="?", max_input_chars_per_word=2
    )
    assert short.tokenize("aa aaa b") == ["a", "##a", "?", "?"]


def test_unknown_token_or_id_is_a_key_error(tokenizer):
    message = r"'zzz' is not in the vocabulary of 1200 entries; use the"
    with pytest.raises(KeyError, match=message):
        tokenizer.convert_tokens_to_ids(["the", "zzz"])
    with pytest.raises(KeyError, match="1200 is not in the vocabulary"):
        tokenizer.convert_ids_to_tokens([1200])


def test_ids_convert_back(tokenizer):
    vocab, inv_vocab = tokenizer.vocab, tokenizer.inv_vocab
    ids = tokenization.convert_tokens_to_ids(vocab, ["[CLS]", "the"])
    assert ids == [vocab["[CLS]"], vocab["the"]]
    assert tokenization.convert_ids_to_tokens(inv_vocab, ids) == (
        tokenizer.convert_ids_to_tokens(ids)
    )


@pytest.mark.parametrize(
    ("do_lower_case", "model", "remedy"),
    [
        (False, "uncased_L-12_H-768_A-12", True),
        (False, "chinese_L-12_H-768_A-12", True),
        (True, "cased_L-24_H-1024_A-16", False),
        (True, "multi_cased_L-12_H-768_A-12", False),
    ],
)
def test_casing_that_contradicts_a_released_checkpoint(
    do_lower_case, model, remedy
):
    path = f"/models/{model}/bert_model.ckpt"
    flags = f"--do_lower_case={do_lower_case} does not fit --init_checkpoint"
    fault = f"^{flags}={path}: .*pass --do_lower_case={remedy}, or rename"
    with pytest.raises(ValueError, match=fault):
        tokenization.validate_case_matches_checkpoint(do_lower_case, path)
    tokenization.validate_case_matches_checkpoint(remedy, path)


@pytest.mark.parametrize(
    "path", [None, "", "/my/cased_model/model.ckpt-5", "/x/own/bert_model.ckpt"]
)
def test_checkpoints_of_other_names_pass(path):
    tokenization.validate_case_matches_checkpoint(True, path)
    tokenization.validate_case_matches_checkpoint(False, path)


@hypothesis.given(TEXTS)
def test_cased_words_keep_every_visible_character(text):
    tokens = tokenization.BasicTokenizer(do_lower_case=False).tokenize(text)
    kept = collections.Counter("".join(tokens))
    visible = [c for c in text if (tokenization._clean(c) or "").strip()]
    assert kept == collections.Counter(visible)
    for token in tokens:
        has_punctuation = any(tokenization._split(c) != c for c in token)
        assert len(token) == 1 or not has_punctuation
