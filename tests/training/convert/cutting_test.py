"""Layers and words that a conversion takes away.

Expected values are computed from the tensors and by the model of
`tests/goldens`; a cut model's outputs are equal bit for bit, because the kept
rows and layers compute the same numbers.
"""

import json

import numpy as np
import pytest

import modeling
from data.text.tokenization import FullTokenizer
from modeling import BertConfig, checkpoints
from training.convert import sizes

WORDS = "bert/embeddings/word_embeddings"
BIAS = "cls/predictions/output_bias"
TEXT = "the morning was long , and the evening was short .\n"


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(TEXT * 3)
    return str(path)


def num_single(tokenizer):
    """How many wordpieces are one character; these are always kept."""
    return sum(len(t.removeprefix("##")) == 1 for t in tokenizer.vocab)


def opened(path):
    return checkpoints.open_checkpoint(str(path)).weights()


def outputs(weights, config_file, input_ids, input_mask):
    """The encoder's outputs [B, S, H] for weights by name."""
    model = modeling.BertModel(BertConfig.from_json_file(str(config_file)))
    for name, variable in checkpoints.variables_by_name([model]).items():
        variable.assign(weights[name])
    return model(input_ids, input_mask, np.zeros_like(input_ids))


@pytest.mark.parametrize("output_format", ["original", "huggingface"])
def test_layers_are_those_of_the_model(goldens, convert, output_format):
    before = opened(goldens / "model/trained")
    after = opened(convert(keep_layers=[2, 0], output_format=output_format))
    is_last = [n for n in before if "/layer_1/" in n or "/layer_2/" in n]
    assert not [name for name in after if "/layer_2/" in name]
    assert len(after) == len(before) - len(is_last) + len(is_last) // 2
    for name, value in after.items():
        source = name
        for new, old in ("0", "2"), ("1", "0"):
            if f"/layer_{new}/" in name:
                source = name.replace(f"/layer_{new}/", f"/layer_{old}/")
        np.testing.assert_array_equal(value, before[source])


def test_one_number_is_a_number_of_layers_as_far_apart_as_can_be(
    goldens, convert
):
    assert sizes.evenly(3, of=6) == [0, 2, 4]
    assert sizes.evenly(4, of=12) == [0, 3, 6, 9]
    assert sizes.evenly(6, of=6) == [0, 1, 2, 3, 4, 5]
    assert sizes.evenly(1, of=2) == [0]
    before = opened(goldens / "model/trained")
    folder = convert(keep_layers=[1])
    config = BertConfig.from_json_file(str(folder / "bert_config.json"))
    assert config.num_hidden_layers == 1
    one = opened(folder)
    name = "bert/encoder/layer_0/output/dense/kernel"
    np.testing.assert_array_equal(one[name], before[name])


@pytest.mark.parametrize("output_format", ["original", "huggingface"])
def test_texts_of_kept_words_have_the_same_outputs(
    goldens, convert, text, output_format, logged
):
    old = FullTokenizer(str(goldens / "vocab.txt"))
    used = {t for t in old.tokenize(TEXT) if len(t.removeprefix("##")) > 1}
    size = num_single(old) + 5 + len(used)
    folder = convert(
        keep_words=size, input_file=text, output_format=output_format
    )
    new = FullTokenizer(str(folder / "vocab.txt"))
    assert len(new.vocab) == size
    assert new.tokenize(TEXT) == old.tokenize(TEXT)
    assert list(new.vocab) == sorted(new.vocab, key=old.vocab.get)
    assert "100.00 % of the text's" in logged.text
    original = convert(name="original", keep_words=size, input_file=text)
    before, after = opened(goldens / "model/trained"), opened(original)
    rows = [old.vocab[token] for token in new.vocab]
    np.testing.assert_array_equal(after[WORDS], before[WORDS][rows])
    np.testing.assert_array_equal(after[BIAS], before[BIAS][rows])
    ids = [
        [t.vocab[p] for p in ["[CLS]", *t.tokenize(TEXT), "[SEP]"]]
        for t in (old, new)
    ]
    padding = np.random.default_rng(7).integers(1, 9)
    input_ids = np.pad(np.array(ids)[:, None], [(0, 0), (0, 0), (0, padding)])
    mask = np.pad(np.ones((1, len(ids[0])), int), [(0, 0), (0, padding)])
    expected = outputs(before, goldens / "bert_config.json", input_ids[0], mask)
    actual = outputs(after, original / "bert_config.json", input_ids[1], mask)
    np.testing.assert_array_equal(
        actual.get_sequence_output(), expected.get_sequence_output()
    )


def test_the_most_frequent_wordpieces_are_kept(goldens, convert, tmp_path):
    old = FullTokenizer(str(goldens / "vocab.txt"))
    words = [t for t in old.vocab if t.isalpha() and len(t) > 4][:3]
    path = tmp_path / "words.txt"
    path.write_text(" ".join([words[0]] * 2 + [words[1]] * 5 + [words[2]]))
    size = num_single(old) + 7
    folder = convert(keep_words=size, input_file=str(path))
    kept = FullTokenizer(str(folder / "vocab.txt")).vocab
    assert [word in kept for word in words] == [True, True, False]
    config = json.loads((folder / "bert_config.json").read_text())
    assert config["vocab_size"] == size


def test_words_that_are_added_stay(goldens, convert, text):
    size = 6 + num_single(FullTokenizer(str(goldens / "vocab.txt")))
    folder = convert(["zzyzx"], keep_words=size, input_file=text)
    assert "zzyzx" in FullTokenizer(str(folder / "vocab.txt")).vocab


def test_a_text_of_few_words_gives_a_smaller_vocabulary(convert, text, logged):
    folder = convert(keep_words=1000, input_file=text, keep_layers=[1])
    assert len((folder / "vocab.txt").read_text().split()) < 1000
    assert "MB before" in logged.text


@pytest.mark.parametrize(
    "options, remedy",
    [
        ({"keep_layers": [0, 5]}, "0 to 2"),
        ({"keep_layers": [5]}, "0 to 2"),
        ({"keep_layers": [0, 0]}, "each once"),
        ({"keep_layers": [-1]}, "0 to 2"),
        ({"keep_words": 100}, "--input_file"),
        ({"input_file": "text.txt"}, "--keep_words"),
        ({"keep_words": 7, "input_file": "TEXT"}, "at least"),
    ],
)
def test_what_cannot_be_kept_is_refused(
    convert, tmp_path, text, options, remedy
):
    if options.get("input_file") == "TEXT":
        options = options | {"input_file": text}
    flag = next(iter(options))
    with pytest.raises(ValueError, match=flag) as error:
        convert(**options)
    assert remedy in str(error.value)
    assert not (tmp_path / "converted").exists()


def test_a_vocabulary_without_special_tokens_is_refused(
    goldens, convert, tmp_path, text
):
    tokens = (goldens / "vocab.txt").read_text().splitlines()
    path = tmp_path / "no_mask.txt"
    path.write_text("\n".join(t.replace("[MASK]", "masked") for t in tokens))
    with pytest.raises(ValueError, match=r"\[MASK\]"):
        convert(keep_words=900, input_file=text, vocab_file=str(path))
