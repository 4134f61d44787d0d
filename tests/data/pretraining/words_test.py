"""Words of a segmenter: the tokens stay, the masks are of words."""

import pathlib
import random
import sys

import numpy as np
import pytest
import tensorflow as tf

from data.pretraining.data_options import PretrainingDataOptions
from data.pretraining.exact import in_memory
from data.pretraining.recipe import Recipe
from data.pretraining.streaming import all_shards
from data.pretraining.words import check_name, encoder
from data.text.tokenization import FullTokenizer

CHARACTERS = "的一是在不了有和人这中大为上个国我以要他"
VOCAB = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *CHARACTERS,
    *("win", "##dow", "##s", "x", "##p", "3", ".", "1", "##4", "。", "e"),
]


@pytest.fixture
def vocab_file(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("".join(f"{token}\n" for token in VOCAB))
    return str(path)


@pytest.fixture
def tokenizer(vocab_file):
    return FullTokenizer(vocab_file)


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
        if token_id >= len(VOCAB) or token.startswith("##"):
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
    ],
)
def test_tokens_of_a_word_are_marked(
    tokenizer, segmenters, name, line, expected
):
    encode = encoder(tokenizer, name)
    words = words_of(tokenizer, encode, line)
    assert words == expected
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


def corpus(tmp_path):
    """Documents of words of one to three characters, with / between."""
    rng = random.Random(1)
    path = tmp_path / "text.txt"
    with path.open("w") as file:
        for _ in range(30):
            for _ in range(6):
                words = [
                    "".join(rng.choices(CHARACTERS, k=rng.randint(1, 3)))
                    for _ in range(8)
                ]
                file.write("/".join(words) + "\n")
            file.write("\n")
    return str(path)


def rows(paths):
    """input_ids with the original tokens back, and the masked positions."""
    found = []
    for record in tf.data.TFRecordDataset(list(map(str, paths))):
        feature = tf.train.Example.FromString(record.numpy()).features.feature
        ids, positions, labels = (
            np.array(feature[name].int64_list.value)
            for name in ("input_ids", "masked_lm_positions", "masked_lm_ids")
        )
        weights = np.array(feature["masked_lm_weights"].float_list.value)
        positions = positions[weights > 0]
        assert max(ids) < len(VOCAB) and max(labels) < len(VOCAB)
        ids[positions] = labels[weights > 0]
        found.append(([VOCAB[i] for i in ids], positions.tolist()))
    return found


def write(tmp_path, vocab_file, text, num_processes):
    out = [str(tmp_path / f"words-{i}") for i in range(2)]
    options = PretrainingDataOptions(
        max_seq_length=32,
        max_predictions_per_seq=8,
        dupe_factor=2,
        do_whole_word_mask=True,
    )
    recipe = Recipe(options, vocab_file, word_segmenter="/")
    if not num_processes:
        in_memory.write_pretraining_data([text], out, recipe)
    else:
        all_shards.write_shards(
            [text], out, recipe, num_processes=num_processes
        )
    return out


@pytest.mark.parametrize("num_processes", [0, 2])
def test_masks_are_of_whole_words(
    tmp_path, vocab_file, segmenters, num_processes
):
    """Every masked run of a row is made of whole words of the text."""
    text = corpus(tmp_path)
    marked = rows(write(tmp_path, vocab_file, text, num_processes))
    lines = [
        line.split("/") for line in pathlib.Path(text).read_text().splitlines()
    ]
    starts = {
        (tuple("".join(words)), len("".join(words[:i])))
        for words in lines
        for i in range(len(words) + 1)
    }
    texts = {tuple("".join(words)) for words in lines}
    num_ends = num_words = 0
    for tokens, positions in marked:
        # The place of each whole line in the row.
        for first in range(len(tokens)):
            for line in texts:
                if tuple(tokens[first : first + len(line)]) != line:
                    continue
                for i in range(1, len(line)):
                    a, b = first + i - 1 in positions, first + i in positions
                    is_start = (line, i) in starts
                    num_words += is_start and a != b
                    num_ends += not is_start and a != b
    assert num_words > 300
    assert num_ends == 0
