"""bert.load: vectors of texts and words, which extract_features.py writes."""

import numpy as np
import pytest

import bert
from tests.support import rounding
from tests.support.serving_support import TEXTS, close
from training.config.extraction_options import ExtractionOptions, VectorOptions
from training.config.run_options import DeviceOptions
from training.runs import vectors as extraction


@pytest.fixture(scope="module")
def pretrained(three_layers):
    return bert.load(three_layers)


def extracted(three_layers, tmp_path, lines, **vectors):
    """What extract_features.py writes for lines."""
    (tmp_path / "lines.txt").write_text("\n".join(lines) + "\n", "utf-8")
    extraction.run(
        ExtractionOptions(
            input_file=str(tmp_path / "lines.txt"),
            output_file=str(tmp_path / "vectors.npz"),
            bert_config_file=f"{three_layers}/bert_config.json",
            init_checkpoint=three_layers,
            vocab_file=f"{three_layers}/vocab.txt",
            batch_size=2,
            vectors=VectorOptions(**vectors),
            format="npz",
            device=DeviceOptions(),
        )
    )
    return np.load(tmp_path / "vectors.npz")


@pytest.mark.parametrize(
    "vectors",
    [
        {"pooling": "mean"},
        {"pooling": "cls", "layers": (-1, 0, "embeddings")},
        {"pooling": "max", "layers": (-2, -1), "layer_mix": "sum"},
    ],
)
def test_vectors_are_those_of_the_program(
    pretrained, three_layers, tmp_path, vectors
):
    options = {"layers": (-1,), "layer_mix": "concat"} | vectors
    wanted = extracted(
        three_layers, tmp_path, [*TEXTS, "the man ||| a dog"], **options
    )
    got = pretrained.encode(
        [*TEXTS, ("the man", "a dog")], **vectors, batch_size=3
    )
    assert got.dtype == np.float32
    close(got, wanted["vectors"][:, 0])


def test_vectors_of_words_are_those_of_the_program(
    pretrained, three_layers, tmp_path
):
    for whole_words in True, False:
        wanted = extracted(
            three_layers, tmp_path, TEXTS, whole_words=whole_words, layers=(-1,)
        )
        got = pretrained.encode_words(TEXTS, whole_words=whole_words)
        for i, (words, vectors) in enumerate(got):
            assert words == wanted[f"tokens_{i}"].tolist()
            close(vectors, wanted[f"vectors_{i}"][:, 0])


def test_bars_in_a_text_make_no_pair(pretrained):
    plain, pair = pretrained.encode(["a ||| b", ("a", "b")])
    assert np.abs(plain - pair).max() > 100 * rounding.EQUAL
    (words, _), *_ = pretrained.encode_words(["a ||| b"])
    assert words == ["[CLS]", "a", "|", "|", "|", "b", "[SEP]"]


def test_attention_of_a_text(pretrained, three_layers, tmp_path):
    text = "Caf\u00e9 unaffable!"
    wanted = extracted(
        three_layers, tmp_path, [text], layers=(0,), attention=True
    )
    tokens, maps = pretrained.attention(text, layer=0)
    assert tokens == wanted["attention_tokens_0"].tolist()
    close(maps, wanted["attention_0"][0])
    close(maps.sum(axis=-1), 1)


def test_results_come_in_the_order_of_the_texts(pretrained):
    texts = ["a " * (i * 7 % 50) for i in range(60)]
    together = pretrained.encode(texts, batch_size=8)
    alone = np.concatenate([pretrained.encode([text]) for text in texts[:9]])
    close(together[:9], alone)
    series = np.array(texts[:9], object)
    np.testing.assert_array_equal(
        pretrained.encode(iter(series)), pretrained.encode(texts[:9])
    )


def test_texts_that_are_too_long_are_cut_and_counted(three_layers, caplog):
    model = bert.load(three_layers, max_seq_length=16)
    with caplog.at_level("WARNING"):
        ((words, _),) = model.encode_words(["a b " * 20], whole_words=False)
    assert len(words) == 16
    message = "1 of 1 texts were longer than --max_seq_length=16 wordpi"
    assert message in caplog.text
    with pytest.raises(ValueError, match=r"9 \[MASK\], but only 7 of them"):
        model.fill_mask(["[MASK] b " * 9])
