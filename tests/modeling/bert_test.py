"""The encoder against the original's numbers, and its invariances."""

import dataclasses
import threading

import keras
import numpy as np
import pytest
import tensorflow as tf

import modeling
from modeling import kernels, layers
from modeling.attention import attention_bias, within_documents
from tests.modeling.objectives import numpy_model
from tests.support import huggingface_support, rounding
from tests.support.model_folder_support import load_weights


@pytest.fixture(scope="module")
def trajectory(goldens):
    with np.load(goldens / "model/pretraining_trajectory.npz") as arrays:
        return dict(arrays)


@pytest.fixture(scope="module")
def batch(trajectory):
    """The first golden batch: 16 x 64 with padding, int32."""
    return {
        name.removeprefix("batch0/"): tf.constant(value)
        for name, value in trajectory.items()
        if name.startswith("batch0/")
    }


def load_model(config, goldens, **options):
    model = modeling.PretrainingModel(config, **options)
    load_weights(goldens / "model/init", model)
    return model


@pytest.fixture(scope="module")
def model(config, goldens):
    return load_model(config, goldens)


@pytest.mark.parametrize("compiled", [False, True])
def test_every_layer_equals_the_original(model, batch, trajectory, compiled):
    assert (batch["input_mask"].numpy() == 0).any()  # padding takes part
    encode = tf.function(model.encode) if compiled else model.encode
    output = encode(batch)
    got = {
        "embedding_output": output.get_embedding_output(),
        "pooled_output": output.get_pooled_output(),
    } | {f"layer_{i}": x for i, x in enumerate(output.all_encoder_layers)}
    assert len(output.all_encoder_layers) == 3
    for name, value in got.items():
        rounding.assert_equal(value, trajectory[f"step0/{name}"])


def test_both_heads_equal_the_original(model, batch, trajectory):
    masked_lm, next_sentence = model.logits(batch)
    for name, logits in (("mlm", masked_lm), ("nsp", next_sentence)):
        found = tf.nn.log_softmax(logits)
        rounding.assert_equal(found, trajectory[f"step0/{name}_log_probs"])


def test_losses_equal_the_original(model, batch, trajectory):
    loss, metrics = model.losses(batch, model.loss_weights(batch))
    got = [loss] + [
        modeling.losses.mean(metrics[name].numpy())
        for name in ("masked_lm_loss", "next_sentence_loss")
    ]
    rounding.assert_equal(got, trajectory["losses"][0][:3])


def test_one_hot_lookup_gives_the_same(model, config, goldens, batch):
    one_hot = load_model(config, goldens, use_one_hot_embeddings=True)
    np.testing.assert_allclose(
        one_hot.encode(batch).get_sequence_output(),
        model.encode(batch).get_sequence_output(),
        atol=rounding.ONE_SUM,
    )


def test_other_threads_read_words_while_one_gives_vectors(model, batch):
    ids, found = batch["input_ids"], []
    embeddings = model.bert.embeddings
    expected = embeddings(ids)
    thread = threading.Thread(target=lambda: found.append(embeddings(ids)))
    with embeddings.given(tf.zeros_like(expected)):
        thread.start()
        thread.join()
        assert not np.array_equal(embeddings(ids), expected)
    for x in found[0], embeddings(ids):
        np.testing.assert_array_equal(x, expected)


def random_batch(config, batch_size, seq_length, seed):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, seq_length + 1, batch_size)
    mask = (np.arange(seq_length) < lengths[:, None]).astype(np.int32)
    ids = rng.integers(0, config.vocab_size, mask.shape).astype(np.int32)
    return ids, mask, rng.integers(0, 2, mask.shape).astype(np.int32)


# The longest have all positions of the model when they are padded.
@pytest.mark.parametrize("seq_length", [1, 64, 105])
def test_padding_does_not_matter(model, config, seq_length):
    real = random_batch(config, 5, seq_length, seed=seq_length)
    mask = real[1] == 1
    longer = [np.pad(x, ((0, 0), (0, 23))) for x in real]
    # What stands there does not, either.
    longer[0] += 17 * (1 - longer[1])
    longer[0] %= config.vocab_size
    want, got = (
        model.bert(*x).get_sequence_output().numpy()[:, :seq_length][mask]
        for x in (real, longer)
    )
    # Sums of up to 128 terms in both.
    bound = rounding.most(1, "float32", 2 * 128)
    np.testing.assert_allclose(got, want, atol=bound)


def test_attention_probabilities_add_up_and_avoid_padding(model, config):
    ids, mask, segments = random_batch(config, 4, 12, seed=5)
    probs = model.bert(ids, mask, segments).attention_probs
    assert len(probs) == config.num_hidden_layers
    for layer in probs:
        assert layer.shape == (4, config.num_attention_heads, 12, 12)
        np.testing.assert_allclose(
            tf.reduce_sum(layer, -1), np.ones((4, 4, 12)), atol=rounding.ONE_SUM
        )
        hidden = np.broadcast_to((mask == 0)[:, None, None], layer.shape)
        assert np.all(layer.numpy()[hidden] == 0.0)  # exp(-10000) is 0


@pytest.mark.parametrize("whole", [False, True])
def test_an_empty_batch_has_empty_outputs(config, whole):
    config = dataclasses.replace(config, left_to_right=whole)
    bert = modeling.BertModel(config, whole_last_layer=whole)
    layers, heads = config.num_hidden_layers, config.num_attention_heads
    ids = tf.zeros([0, 8], tf.int32)
    for form in kernels.Form:
        with kernels.form(form):
            output = bert(ids)
            some = bert(ids, positions=tf.zeros([0, 3], tf.int32))
        assert output.pooled_output.shape == (0, config.hidden_size)
        assert [x.shape for x in output.all_encoder_layers] == (
            [(0, 8, config.hidden_size)] * layers
        )
        assert [x.shape for x in output.attention_probs] == (
            [(0, heads, 8, 8)] * layers
        )
        assert some.all_encoder_layers[-1].shape == (0, 4, config.hidden_size)


def joined_batch(config, seed):
    """Rows of 24 wordpieces: two documents, [0, 9) and [9, n)."""
    ids, mask, segments = random_batch(config, 4, 24, seed)
    mask[:, :12] = 1
    documents = np.repeat([[0] * 9 + [1] * 15], 4, axis=0)
    documents += mask == 0  # padding
    return {
        "input_ids": tf.constant(ids),
        "input_mask": tf.constant(mask),
        "segment_ids": tf.constant(segments),
        "document_ids": tf.constant(documents, tf.int32),
    }


@pytest.mark.parametrize("left_to_right", [False, True])
def test_documents_of_a_row_do_not_see_each_other(config, left_to_right):
    keras.utils.set_random_seed(1)
    config = dataclasses.replace(config, left_to_right=left_to_right)
    model = modeling.PretrainingModel(config)
    batch = joined_batch(config, seed=8)
    ids = batch["input_ids"].numpy()
    real = batch["input_mask"].numpy() == 1
    whole = model.encode(batch).get_sequence_output().numpy()
    for some in np.s_[:, :9], np.s_[:, 9:]:
        changed = ids.copy()
        changed[some] = (changed[some] + 5) % config.vocab_size
        batch["input_ids"] = tf.constant(changed)
        got = model.encode(batch).get_sequence_output().numpy()
        same = np.ones_like(real)
        same[some] = False
        np.testing.assert_allclose(
            got[same & real], whole[same & real], atol=rounding.ONE_SUM
        )
        assert np.abs(got[some] - whole[some]).max() > 1e-3


@pytest.mark.parametrize("left_to_right", [False, True])
def test_a_mask_for_each_query_equals_that_for_all(config, left_to_right):
    keras.utils.set_random_seed(1)
    config = dataclasses.replace(config, left_to_right=left_to_right)
    bert = modeling.BertModel(config)
    ids, mask, segments = random_batch(config, 4, 20, seed=10)
    wide = np.repeat(mask[:, np.newaxis], 20, axis=1)
    positions = tf.constant([[0, 3, 7]] * 4)
    for key in ("sequence_output", "pooled_output"):
        for where in (None, positions):
            got, expected = (
                bert(ids, x, segments, positions=where, output_key=key)
                for x in (wide, mask)
            )
            np.testing.assert_array_equal(got, expected)


def test_a_mask_of_unknown_rank_is_one_for_all_queries(config):
    keras.utils.set_random_seed(1)
    bert = modeling.BertModel(config)
    # As many rows as heads: a wrong axis would be broadcast without an error.
    ids, mask, segments = random_batch(config, config.num_attention_heads, 9, 3)
    unknown = tf.function(
        lambda mask: bert(ids, mask, segments).get_sequence_output(),
        input_signature=[tf.TensorSpec(None, tf.int32)],
    )
    np.testing.assert_allclose(
        unknown(mask),
        bert(ids, mask, segments).get_sequence_output(),
        atol=rounding.ONE_SUM,
    )


def test_attention_within_documents_by_hand():
    mask = within_documents(
        tf.constant([[1, 1, 1, 0]]), tf.constant([[0, 1, 1, 2]])
    )
    np.testing.assert_array_equal(
        mask[0], [[1, 0, 0, 0], [0, 1, 1, 0], [0, 1, 1, 0], [0, 0, 0, 0]]
    )


def test_attention_bias_of_a_random_mask_by_hand():
    bias = attention_bias(tf.constant([[1, 0, 1]]), left_to_right=True)
    hidden = -10000.0
    np.testing.assert_array_equal(
        bias[0, 0], [[0, hidden, hidden], [0, hidden, hidden], [0, hidden, 0]]
    )


def test_bfloat16_stays_near_float32(model, config, goldens, batch):
    half = load_model(config, goldens, dtype="mixed_bfloat16")
    got, want = half.encode(batch), model.encode(batch)
    assert got.get_sequence_output().dtype == tf.bfloat16
    for i, layer in enumerate(got.all_encoder_layers):
        rounding.assert_near(
            layer,
            want.all_encoder_layers[i],
            "bfloat16",
            rounding.EMBEDDINGS + rounding.BLOCK * (i + 1),
        )
    assert half.logits(batch)[0].dtype == tf.float32


def test_dropout_is_a_function_of_its_seed():
    x = tf.ones([400, 300])
    first, same, other = (
        layers.dropout(x, 0.1, tf.constant(seed))
        for seed in ([1, 2], [1, 2], [1, 3])
    )
    np.testing.assert_array_equal(first, same)
    assert (first.numpy() != other.numpy()).any()
    # 120,000 draws: five standard deviations of the share are 0.0043.
    assert abs((first.numpy() == 0).mean() - 0.1) < 0.0043
    # With 16 bits a rate of 0.1 is 6554 / 65536; the mean is kept for it.
    scale = 65536 / (65536 - 6554)
    assert scale == pytest.approx(1 / 0.9, rel=2**-16)
    np.testing.assert_allclose(first.numpy()[first.numpy() > 0], scale)


@pytest.mark.parametrize("shape", [[1], [3, 5], [2, 3, 4], [0, 4]])
def test_dropout_of_any_shape_and_type(shape):
    for dtype in (tf.float32, tf.bfloat16):
        x = tf.ones(shape, dtype)
        y = layers.dropout(x, 0.5, tf.constant([1, 2]))
        assert y.shape == x.shape
        assert y.dtype == dtype
        assert set(np.unique(tf.cast(y, tf.float32))) <= {0.0, 2.0}


def test_dense_layers_become_one_fused_kernel(model):
    # Matrix product, bias and gelu in the form that the CPU fuses: rank 2,
    # BiasAdd, Gelu, with nothing in between.
    graph = (
        tf.function(model.bert.encoder.blocks[0].intermediate.dense)
        .get_concrete_function(tf.TensorSpec([None, 32], tf.float32))
        .graph
    )
    kinds = [op.type for op in graph.get_operations()]
    assert kinds.count("MatMul") == 1
    assert kinds.count("BiasAdd") == 1
    assert "Reshape" not in kinds
    assert "Tensordot" not in kinds


def test_gelu_exact_is_the_erf_form_and_gelu_the_tanh_form():
    x = np.linspace(-4, 4, 33)
    wanted = {"gelu_exact": huggingface_support.gelu, "gelu": numpy_model.gelu}
    for name, formula in wanted.items():
        found = layers.activate(x.astype(np.float32), name)
        np.testing.assert_allclose(found, formula(x), atol=rounding.ONE_SUM)


def test_initial_weights_are_a_truncated_normal(config):
    keras.utils.set_random_seed(5)
    bert = modeling.BertModel(config)
    table = bert.get_embedding_table().numpy()
    assert np.abs(table).max() <= 2 * config.initializer_range
    # Cut at two deviations, a normal of 0.02 has a deviation of 0.0176.
    assert abs(table.std() - 0.0176) < 0.0003
    other = bert.embeddings.position_embeddings.numpy()
    assert (table[: len(other)] != other).all(axis=1).any()


@pytest.mark.parametrize(
    ("name", "expected"),
    [(None, [-1, 2]), ("", [-1, 2]), ("linear", [-1, 2]), ("ReLU", [0, 2])],
)
def test_activations_have_the_originals_names(name, expected):
    # As in the original's get_activation, which also ignores case.
    found = layers.activate(tf.constant([-1.0, 2.0]), name)
    np.testing.assert_array_equal(found, expected)
