"""bert.load: vectors of texts and words, which extract_features.py writes."""

import numpy as np
import pytest

import bert
from tests.support import rounding
from tests.support.serving_support import TEXTS
from tests.support.tiers import rare
from tests.support.vectors_support import extracted


@pytest.mark.parametrize(
    "vectors",
    [
        {"pooling": "cls", "layers": (-1, 0, "embeddings")},
        rare({"pooling": "max", "layers": (-2, -1), "layer_mix": "sum"}),
    ],
)
def test_vectors_are_those_of_the_program(
    golden_model, three_layers, tmp_path, vectors
):
    lines = [*TEXTS, "the man ||| a dog"]
    options = {"layer_mix": "concat"} | vectors
    wanted = extracted(three_layers, tmp_path, lines, **options)
    got = golden_model.encode(
        [*TEXTS, ("the man", "a dog")], **vectors, batch_size=3
    )
    assert got.dtype == np.float32
    rounding.assert_equal(got, wanted["vectors"][:, 0])


def test_vectors_of_words_are_those_of_the_program(
    golden_model, three_layers, tmp_path
):
    for whole_words in True, False:
        options = {"whole_words": whole_words}
        wanted = extracted(three_layers, tmp_path, TEXTS, **options)
        got = golden_model.encode_words(TEXTS, **options)
        for i, (words, vectors) in zip(range(len(TEXTS)), got, strict=True):
            assert words == wanted[f"tokens_{i}"].tolist()
            rounding.assert_equal(vectors, wanted[f"vectors_{i}"][:, 0])


def test_bars_in_a_text_make_no_pair(golden_model):
    plain, pair = golden_model.encode(["a ||| b", ("a", "b")])
    assert np.abs(plain - pair).max() > 100 * rounding.EQUAL
    (words, _), *_ = golden_model.encode_words(["a ||| b"])
    assert words == ["[CLS]", "a", "|", "|", "|", "b", "[SEP]"]


def test_half_a_surrogate_pair_is_dropped_as_by_an_export(golden_model):
    whole, half = golden_model.encode(["the man", "the m\ud800an"])
    rounding.assert_equal(half, whole)


def test_attention_of_a_text(golden_model, three_layers, tmp_path):
    text = "Caf\u00e9 unaffable!"
    options = {"layers": (0,), "attention": True}
    wanted = extracted(three_layers, tmp_path, [text], **options)
    tokens, maps = golden_model.attention(text, layer=0)
    assert tokens == wanted["attention_tokens_0"].tolist()
    rounding.assert_equal(maps, wanted["attention_0"][0])
    rounding.assert_equal(maps.sum(axis=-1), 1)


def test_results_come_in_the_order_of_the_texts(golden_model):
    texts = ["a " * (i * 7 % 50) for i in range(60)]
    together = golden_model.encode(texts, batch_size=8)
    alone = np.concatenate([golden_model.encode([text]) for text in texts[:9]])
    rounding.assert_equal(together[:9], alone)
    series = np.array(texts[:9], object)
    np.testing.assert_array_equal(
        golden_model.encode(iter(series)), golden_model.encode(texts[:9])
    )


def test_texts_that_are_too_long_are_cut_and_counted(three_layers, caplog):
    model = bert.load(three_layers, max_seq_length=16)
    ((words, _),) = model.encode_words(["a b " * 20], whole_words=False)
    assert len(words) == 16
    assert "1 of 1 texts were longer than --max_seq_length=16" in caplog.text
    with pytest.raises(ValueError, match=r"9 \[MASK\], but only 7 of them"):
        model.fill_mask(["[MASK] b " * 9])
