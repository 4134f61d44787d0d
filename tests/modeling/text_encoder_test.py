"""`TextEncoder`: strings to the rows of the Python tokenizer, in any model."""

import json
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

import modeling
from data.finetuning import features
from data.tasks import InputExample
from data.text.packing import INPUTS
from data.text.tokenization import FullTokenizer
from tests.support import fork_server
from tests.support.model_folders import change_json

TEXTS = [
    "The man went to the café.",
    "",
    "中国 and unaffable 한국",
    "the man " * 40,
    "a\u200bb \ufffd Ünder\tthe STORE\n",
]
SECOND = ["he went", "", "the \u4e2d", "man " * 9, ""]


def rows(texts, second, vocab_file, length=16):
    """What fine-tuning feeds to a model, without columns of padding."""
    examples = [
        InputExample("", a, b) for a, b in zip(texts, second, strict=True)
    ]
    options = features.FeatureOptions(
        "classification", ("0", "1"), max_seq_length=length
    )
    converter = features.Converter(FullTokenizer(vocab_file), options)
    made = list(converter.rows(examples))
    longest = max(sum(row["input_mask"]) for row in made)
    return {n: np.stack([row[n][:longest] for row in made]) for n in INPUTS}


def assert_equal(got, want):
    assert {*got} == {*want}
    for name, value in want.items():
        assert tf.as_dtype(got[name].dtype) == tf.int32
        np.testing.assert_array_equal(got[name], value, name)


@pytest.fixture
def vocab_file(goldens):
    return str(goldens / "vocab.txt")


@pytest.mark.parametrize("length", [5, 16, 64])
def test_rows_are_those_of_fine_tuning(vocab_file, length):
    layer = modeling.TextEncoder(vocab_file, max_seq_length=length)
    none = [None] * len(TEXTS)
    assert_equal(layer(TEXTS), rows(TEXTS, none, vocab_file, length))
    assert_equal(layer(TEXTS, SECOND), rows(TEXTS, SECOND, vocab_file, length))
    assert_equal(layer(np.array(TEXTS)), layer(tf.constant(TEXTS)))


def test_a_folder_says_case_and_length(original, vocab_file):
    layer = modeling.TextEncoder(original)
    positions = modeling.load(original).config.max_position_embeddings
    assert layer.max_seq_length == positions
    assert layer.do_lower_case
    cut = modeling.TextEncoder(str(original), max_seq_length=16)
    assert_equal(cut(TEXTS, SECOND), rows(TEXTS, SECOND, vocab_file))
    with pytest.raises(ValueError, match=f"give at most {positions}"):
        modeling.TextEncoder(original, max_seq_length=positions + 1)


def test_pairs_need_two_segment_types(original):
    change_json(original / "bert_config.json", type_vocab_size=1)
    layer = modeling.TextEncoder(original)
    layer(TEXTS)
    with pytest.raises(ValueError, match="second texts: a pair of texts needs"):
        layer(TEXTS, SECOND)


THEIRS = "sentence_bert_config.json"


@pytest.mark.parametrize(
    ("files", "length"),
    [
        ({"sentence_vectors.json": {"max_seq_length": 20}}, 20),
        ({"modules.json": [], THEIRS: {"max_seq_length": 24}}, 24),
        # More than the model's positions.
        ({"sentence_vectors.json": {"max_seq_length": 9999}}, 9999),
    ],
)
def test_a_folder_of_vectors_says_the_length(original, files, length):
    for name, content in files.items():
        (original / name).write_text(json.dumps(content))
    loaded = modeling.load(original, kind="encoder")
    length = min(length, loaded.config.max_position_embeddings)
    assert loaded.max_seq_length == length
    assert modeling.TextEncoder(original).max_seq_length == length


def test_never_split_keeps_masks_whole(vocab_file):
    vocab = FullTokenizer(vocab_file).vocab
    layer = modeling.TextEncoder(vocab_file, never_split=["[MASK]"])
    again = modeling.TextEncoder.from_config(layer.get_config())
    for made in (layer, again):
        ids = made(["the [MASK]"])["input_ids"].numpy()[0]
        assert ids[2] == vocab["[MASK]"]


SCRIPT = """
import sys
import keras, numpy as np, tensorflow as tf, tensorflow_text
import modeling
folder, *texts = sys.argv[1:]
texts = tf.constant(texts)
print("import modeling is enough")
model = keras.models.load_model(f"{folder}/model.keras")
exported = tf.saved_model.load(f"{folder}/export")
np.savez(f"{folder}/got.npz", predicted=model.predict([texts, texts]),
         served=exported.serve([texts, texts]))
"""


@pytest.mark.all  # 17 s in a process of its own
def test_a_new_process_needs_no_vocabulary(original, tmp_path):
    first, second = (keras.Input([], dtype="string") for _ in range(2))
    rows = modeling.TextEncoder(original, max_seq_length=16)(first, second)
    # A table is as good as BERT here, and trained in no time.
    vectors = keras.layers.Embedding(1200, 2)(rows["input_ids"])
    scores = keras.layers.GlobalAveragePooling1D()(vectors)
    model = keras.Model([first, second], scores)
    model.compile("adam", "mse")
    texts = tf.constant(TEXTS)
    model.fit([texts, texts], np.zeros([len(TEXTS), 2]), verbose=0)
    want = model.predict([texts, texts], verbose=0)
    model.save(tmp_path / "model.keras")
    model.export(tmp_path / "export", verbose=False)
    shutil.rmtree(original)
    fork_server.python("-c", SCRIPT, str(tmp_path), *TEXTS)
    got = np.load(tmp_path / "got.npz")
    np.testing.assert_array_equal(got["predicted"], want)
    np.testing.assert_allclose(got["served"], want, atol=1e-6)


@pytest.mark.parametrize(
    ("call", "remedy"),
    [
        (lambda layer: layer("one text"), "into a list"),
        (lambda layer: layer(([1, 2], [3, 4])), "second argument"),
        (lambda layer: layer((tf.constant(["a"]),) * 2), "second argument"),
        (lambda layer: layer(keras.Input([1], dtype="string")), "keras.Input"),
        (lambda layer: layer(keras.Input([], dtype="int32")), "keras.Input"),
    ],
)
def test_what_is_no_batch_of_texts_is_refused(vocab_file, call, remedy):
    with pytest.raises(ValueError, match=remedy):
        call(modeling.TextEncoder(vocab_file))


def test_a_vocabulary_without_its_tokens_is_refused(vocab_file):
    with pytest.raises(ValueError, match=r"\[CLS\]"):
        modeling.TextEncoder(["[UNK]", "a"])
    with pytest.raises(ValueError, match="5 or more"):
        modeling.TextEncoder(vocab_file, max_seq_length=4)


def test_wordpieces_may_have_ids_with_gaps():
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    vocab = {token: i for i, token in enumerate(tokens)} | {"the": 7}
    found = modeling.TextEncoder(vocab)(["the"])
    assert found["input_ids"].numpy().tolist() == [[2, 7, 3]]
