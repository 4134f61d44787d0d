"""Words and positions that a conversion adds.

Expected values are computed here from the tensors of the model in
`tests/goldens`; the mean of float32 rows is compared to 1 unit in the last
place, because the order of a sum is NumPy's.
"""

import functools
import json

import numpy as np
import pytest

import bert
from data.text.tokenization import FullTokenizer
from modeling import BertConfig, checkpoints
from modeling.checkpoints.tf1 import is_weight
from tests.support import conversion_support
from training.convert import conversion
from training.export import loaded_model

WORDS = "bert/embeddings/word_embeddings"
BIAS = "cls/predictions/output_bias"
UNKNOWN = {"never_split": ("[X]",)}
CONFIG = {"original": "bert_config.json", "huggingface": "config.json"}
POSITIONS = "bert/embeddings/position_embeddings"


@pytest.fixture
def vocab_file(goldens, tmp_path):
    """The vocabulary, two of whose tokens are unused."""
    tokens = (goldens / "vocab.txt").read_text().splitlines()
    tokens[7], tokens[300] = "[unused1]", "[unused12]"
    path = tmp_path / "vocab.txt"
    path.write_text("".join(f"{token}\n" for token in tokens))
    return path


@pytest.fixture
def convert(convert, vocab_file):
    return functools.partial(convert, vocab_file=str(vocab_file))


def both(goldens, folder):
    """The weights of both models, without the slots of the first."""
    before = checkpoints.open_checkpoint(str(goldens / "model/trained"))
    before.shapes = {n: s for n, s in before.shapes.items() if is_weight(n)}
    return before, checkpoints.open_checkpoint(str(folder))


@pytest.mark.parametrize("output_format", ["original", "huggingface"])
def test_words_take_unused_rows_then_new_ones(
    goldens, vocab_file, convert, output_format, logged
):
    words = ["angioplasty", "morning", "stent", "catheters", "stent", ""]
    folder = convert(words, output_format=output_format)
    old = FullTokenizer(str(vocab_file))
    new = FullTokenizer(str(folder / "vocab.txt"))
    new_rows = {7: "angioplasty", 300: "stent", 1200: "catheters"}
    for row, word in {**new_rows, 775: "morning"}.items():
        assert new.encode(word) == [row]
    assert len(new.vocab) == 1201
    before, after = both(goldens, folder)
    assert after.shapes[WORDS] == (1201, 32)
    assert after.shapes[BIAS] == (1201,)
    for name in (WORDS, BIAS):
        was, grown = before.read(name), after.read(name)
        for row, word in new_rows.items():
            pieces = old.encode(word)
            assert len(pieces) > 1
            mean = was[pieces].astype(np.float64).mean(axis=0)
            np.testing.assert_allclose(grown[row], mean, rtol=2e-7, atol=1e-9)
        same = [i for i in range(1200) if i not in new_rows]
        np.testing.assert_array_equal(grown[same], was[same])
    for name in before.shapes:
        if name not in (WORDS, BIAS):
            np.testing.assert_array_equal(after.read(name), before.read(name))
    config = BertConfig.from_json_file(str(folder / CONFIG[output_format]))
    assert config.vocab_size == 1201
    assert "Of 4 words, 2 replace [unused] tokens and 1 are new" in logged.text
    assert "1 words are in the vocabulary already: morning" in logged.text


def test_words_fill_the_padding_of_a_table_first(goldens, convert, tmp_path):
    """A vocabulary of 1,195 tokens, whose table has 1,200 rows (8 x 150)."""
    tokens = (goldens / "vocab.txt").read_text().splitlines()[:1195]
    short = tmp_path / "short.txt"
    short.write_text("".join(f"{token}\n" for token in tokens))
    folder = convert(["zyx", "zyw"], vocab_file=str(short))
    before, after = both(goldens, folder)
    assert after.shapes == before.shapes
    tokenizer = FullTokenizer(str(folder / "vocab.txt"))
    assert tokenizer.encode("zyx zyw") == [1195, 1196]


def test_a_word_of_unknown_characters_begins_as_unk(goldens, convert, caplog):
    before, after = both(goldens, convert(["ᚠᚢᚦ"]))
    np.testing.assert_array_equal(after.read(WORDS)[7], before.read(WORDS)[1])
    assert "1 words have no wordpieces but [UNK]" in caplog.text


@pytest.mark.parametrize("output_format", conversion.FORMATS)
def test_cased_words_and_marks_are_taken_if_the_flags_say_so(
    convert, tmp_path, output_format
):
    folder = convert(
        ["Stent", "[ENTITY]"],
        do_lower_case=False,
        never_split=("[ENTITY]",),
        output_format=output_format,
    )
    # Whoever loads the folder, or converts it again, needs no flags.
    again = conversion_support.convert(folder, tmp_path / "again")
    for path in folder, again:
        model = bert.load(path)
        tokenize = model.loaded.tokenizer.tokenize
        assert tokenize("Stent x[ENTITY]") == ["Stent", "x", "[ENTITY]"]
        described = loaded_model.describe(model.loaded)
        assert described.never_split == model.loaded.tokenizer.never_split
        assert not described.do_lower_case


@pytest.mark.parametrize(
    ("words", "options", "message"),
    [
        # Words that no text has.
        (["ok", "Stent"], {}, "1 of 2.*lower-cased.*'Stent' becomes 'stent'"),
        (["x-ray", "a b"], {}, "2 of 2.*x-ray, a b.*'x-ray' becomes 'x - ray'"),
        (["café"], {}, "'café' becomes 'cafe'"),
        (["北京"], {}, "around each Chinese character.*becomes '北 京'"),
        (["[ENTITY]"], {}, "name them in --never_split"),
        (["a" * 201], {}, "words over 200 characters are unknown"),
        (["\u200b"], {}, "becomes 'nothing'"),
        (["", " "], {}, "words.txt has no words; expected one on each line"),
        (["stent"], UNKNOWN, r"no \[X\] .*--never_split only tok"),
        (None, UNKNOWN, "--never_split needs --extra_words"),
        (None, {"max_position_embeddings": 64}, "=64; the model has 128 pos"),
    ],
)
def test_what_cannot_be_added_is_refused(
    convert, tmp_path, words, options, message
):
    with pytest.raises(ValueError, match=message):
        convert(words, **options)
    assert not list(tmp_path.glob("converted*"))


@pytest.mark.parametrize("output_format", ["original", "huggingface"])
def test_positions_repeat_and_a_longer_text_fits(
    goldens, convert, output_format, caplog
):
    folder = convert(max_position_embeddings=300, output_format=output_format)
    before, after = both(goldens, folder)
    was = before.read(POSITIONS)
    expected = np.concatenate([was, was, was[:44]])
    np.testing.assert_array_equal(after.read(POSITIONS), expected)
    if output_format == "huggingface":
        tokenizer = json.loads((folder / "tokenizer_config.json").read_text())
        assert tokenizer["model_max_length"] == 300
    config = BertConfig.from_json_file(str(folder / CONFIG[output_format]))
    assert config.max_position_embeddings == 300
    assert "Positions 128 to 299 repeat positions 0 to 127" in caplog.text
    assert "5.5 times the memory" in caplog.text  # (300 / 128) ** 2
