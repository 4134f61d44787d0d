"""Words of a segmenter: the tokens stay, the masks are of words."""

import itertools
import random
import sys

import pytest

from data.pretraining.words import check_name, encoder
from tests.data.pretraining.support import decode, recipe_of, records_of, write

FIRST, LATER = "的一是在不了有和人这", "中大为上个国我以要他"
CHARACTERS = FIRST + LATER
VOCAB = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *CHARACTERS,
    *("win", "##dow", "##s", "x", "##p", "3", ".", "1", "##4", "。", "e"),
    *("ไทย", "##ประ", "##เทศ", "##ใหญ"),
]


@pytest.fixture
def segmenters(tmp_path, monkeypatch):
    """A module with segmenters, where Python finds modules."""
    (tmp_path / "segmenters.py").write_text(
        "def two(line):\n"
        "    return [line[i:i + 2] for i in range(0, len(line), 2)]\n"
        "def wrong(line):\n"
        "    return ['x', *two(line)]\n"
        "def nothing(line):\n"
        "    pass\n"
        "def no_list(line):\n"
        "    return line\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    yield
    sys.modules.pop("segmenters", None)


def words_of(tokenizer, encode, line):
    """The tokens of each word, as `encode` marks them."""
    words = []
    for token_id in encode(line):
        token = tokenizer.inv_vocab[token_id % len(VOCAB)]
        if token_id >= len(VOCAB):
            words[-1].append(token)
        else:
            words.append([token])
    return [" ".join(word) for word in words]


@pytest.mark.parametrize(
    ("name", "line", "expected"),
    [
        ("space", "中国 人 不 要", ["中 国", "人", "不", "要"]),
        # What the tokenizer splits is not joined but by the segmenter.
        ("/", "中国/人/不要/。", ["中 国", "人", "不 要", "。"]),
        ("tab", "我\t以为。\t是", ["我", "以 为", "。", "是"]),
        # Latin words keep their pieces; numbers and punctuation stay apart.
        (
            "/",
            "大windows/ xp/ 3.14/个",
            ["大 win ##dow ##s", "x ##p", "3", ".", "1 ##4", "个"],
        ),
        # A character that is unknown, and one whose decomposition is longer.
        ("/", "鑫人/é中", ["[UNK] 人", "e 中"]),
        ("segmenters:two", "中国人不要", ["中 国", "人 不", "要"]),
        # Thai has no spaces: the text is one token of the tokenizer.
        ("/", "ประเทศ/ไทย", ["[UNK]"]),
        ("/", "ไทย/ประเทศ/ใหญ", ["ไทย", "##ประ ##เทศ", "##ใหญ"]),
    ],
)
def test_the_tokens_of_words(tokenizer, segmenters, name, line, expected):
    encode = encoder(tokenizer, name)
    assert words_of(tokenizer, encode, line) == expected
    text = line if name in ("space", "tab") else line.replace("/", "")
    ids = [token_id % len(VOCAB) for token_id in encode(line)]
    assert ids == tokenizer.encode(text)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("wrong", r"returns \['x', '中国'\] of '中国'; expected a list of its"),
        ("nothing", "returns None of '中国'; expected a list"),
        ("no_list", "returns 中国 of '中国'; expected a list"),
    ],
)
def test_words_that_are_not_the_lines_are_refused(
    tokenizer, segmenters, name, message
):
    encode = encoder(tokenizer, f"segmenters:{name}")
    with pytest.raises(ValueError, match=message):
        encode("中国")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("jiebaa:lcut", "cannot be imported .*install jiebaa, or put"),
        ("random:lcut", "cannot be imported .*no attribute 'lcut'"),
        ("os:sep", "is '/'; expected a function of a line"),
        ("jieba", "expected what is between the words .*module:function"),
        ("ab", "one character other than a letter"),
        ("", "expected what is between the words"),
    ],
)
def test_bad_segmenters_are_refused(tokenizer, name, message):
    with pytest.raises(ValueError, match=message):
        check_name(name)
        encoder(tokenizer, name)


def rows_of_words(tmp_path, vocab_file, num_processes):
    """Writes records of words of one to three characters; reads them.

    The first characters of words are not in other places.
    """
    draw, text = random.Random(1), tmp_path / "text.txt"
    lines = [
        "/".join(
            draw.choice(FIRST)
            + "".join(draw.choices(LATER, k=draw.randint(0, 2)))
            for _ in range(8)
        )
        for _ in range(180)
    ]
    documents = ["\n".join(lines[i : i + 6]) for i in range(0, 180, 6)]
    text.write_text("\n\n".join(documents))
    options = {"max_seq_length": 32, "do_whole_word_mask": True}
    recipe = recipe_of(vocab_file, **options).replace(word_segmenter="/")
    write([text], tmp_path, recipe, num_processes=num_processes)
    return decode(recipe, records_of(tmp_path))


@pytest.mark.parametrize("num_processes", [0, 2])
def test_masks_are_of_whole_words(tmp_path, vocab_file, num_processes):
    rows = rows_of_words(tmp_path, vocab_file, num_processes)
    is_prediction = rows["masked_lm_weights"] == 1
    assert rows["input_ids"].max() < len(VOCAB)
    assert rows["masked_lm_ids"].max() < len(VOCAB)
    num_apart = 0
    for i, positions in enumerate(rows["masked_lm_positions"]):
        positions = positions[is_prediction[i]]
        tokens = rows["input_ids"][i].copy()
        tokens[positions] = rows["masked_lm_ids"][i][is_prediction[i]]
        for place, pair in enumerate(itertools.pairwise(tokens)):
            before, after = (VOCAB[token] for token in pair)
            is_apart = (place in positions) != (place + 1 in positions)
            if before in CHARACTERS and after in LATER:
                assert not is_apart
            elif before in CHARACTERS and after in FIRST:
                num_apart += is_apart
    assert num_apart > 300
