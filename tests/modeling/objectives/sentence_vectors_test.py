import dataclasses
import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from modeling import SentenceEncoder, VectorForm
from tests.support import fork_server
from tests.support.small_model import SMALL
from tests.support.tiers import rare

ROWS = 4


def make_model(config=SMALL, **options):
    keras.utils.set_random_seed(1)
    return SentenceEncoder(config, **options)


def texts(number, length):
    """Rows with 2 to `length` real wordpieces; padding has ids, too."""
    rng = np.random.default_rng(number)
    sizes = rng.integers(2, length + 1, [ROWS, 1])
    ids = rng.integers(1, 30, [ROWS, length])
    mask = np.arange(length) < sizes
    rows = {"input_ids": ids, "input_mask": mask, "segment_ids": 0 * ids}
    return {name: tf.constant(x, tf.int32) for name, x in rows.items()}


def make_batch(**targets):
    parts = enumerate([texts(0, 7), texts(1, 5)])
    batch = {f"{n}_{i}": x for i, part in parts for n, x in part.items()}
    return batch | targets


def loss_and_gradients(model, batch, seed=None, graph=False):
    weights = [v.value for v in model.bert.trainable_variables]

    def compute():
        with tf.GradientTape() as tape:
            loss, _ = model.losses(batch, model.loss_weights(batch), seed)
        found = tape.gradient(loss, weights, unconnected_gradients="zero")
        return loss, [tf.convert_to_tensor(x) for x in found]

    loss, gradients = (tf.function(compute) if graph else compute)()
    return float(loss), np.concatenate([np.ravel(x) for x in gradients])


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_vectors_are_those_of_real_wordpieces(pooling, normalize):
    form = VectorForm(pooling=pooling, normalize=normalize)
    model, batch = make_model(form=form), texts(0, 7)
    words = model.encode(batch).get_sequence_output().numpy()
    found = model.vectors(batch).numpy()
    for i, size in enumerate(batch["input_mask"].numpy().sum(axis=1)):
        real = words[i, :size]
        expected = real.mean(axis=0) if pooling == "mean" else real[0]
        if normalize:
            expected = expected / np.sqrt((expected**2).sum())
        np.testing.assert_allclose(found[i], expected, rtol=1e-5, atol=1e-6)


def test_an_empty_row_has_a_vector_of_zeros():
    batch = texts(0, 7)
    batch["input_mask"] *= tf.constant([[1], [0], [1], [1]])
    assert not make_model().vectors(batch)[1].numpy().any()


@pytest.mark.parametrize(("num_parts", "frozen"), [rare(2, False), (4, True)])
def test_cached_gradients_are_those_of_the_whole_batch(num_parts, frozen):
    results = []
    for parts in (1, num_parts):
        model = make_model(loss="negatives", num_parts=parts)
        model.bert.encoder.trainable = not frozen
        results.append(loss_and_gradients(model, make_batch(), graph=parts > 1))
    (loss, gradients), (cached_loss, cached) = results
    assert cached_loss == pytest.approx(loss, rel=1e-6)
    np.testing.assert_allclose(cached, gradients, rtol=1e-3, atol=1e-5)
    assert np.abs(gradients).max() > 1e-3


@pytest.mark.all
def test_both_passes_of_cached_gradients_drop_the_same():
    # With another draw, the gradient would not be that of the loss.
    config = dataclasses.replace(SMALL, hidden_dropout_prob=0.3)
    model = make_model(config, loss="negatives", num_parts=2)
    batch, seed = make_batch(), tf.constant([3, 4])
    _, gradients = loss_and_gradients(model, batch, seed, graph=True)
    weight = model.bert.embeddings.layer_norm.gamma
    before, step = weight.numpy(), 1e-3
    direction = np.random.default_rng(0).normal(size=before.shape)
    losses = []
    for sign in (1, -1):
        weight.assign(before + sign * step * direction)
        losses.append(float(model.losses(batch, {}, seed)[0]))
    weight.assign(before)
    sizes = [np.prod(v.shape) for v in model.bert.trainable_variables]
    places = np.cumsum([0, *sizes])
    number = [v.path for v in model.bert.trainable_variables].index(weight.path)
    own = gradients[places[number] : places[number + 1]]
    slope = (losses[0] - losses[1]) / (2 * step)
    assert slope == pytest.approx(own @ direction, rel=2e-2)


def test_the_loss_is_the_mean_over_all_sizes():
    scores = tf.constant([[0.1], [0.9], [0.4], [0.2]])
    batch = make_batch(label_ids=scores)

    def loss(sizes):
        form = VectorForm(vector_sizes=sizes)
        return loss_and_gradients(make_model(form=form, loss="cosine"), batch)

    whole, gradients = loss((8, 4))
    model = make_model()
    vectors = [model.vectors(texts(*x)).numpy() for x in ((0, 7), (1, 5))]
    expected = []
    for size in (16, 8, 4):
        first, second = (x[:, :size] for x in vectors)
        cosines = (first * second).sum(axis=1)
        cosines /= np.linalg.norm(first, axis=1)
        cosines /= np.linalg.norm(second, axis=1)
        expected.append(((cosines - scores.numpy()[:, 0]) ** 2).mean())
    assert whole == pytest.approx(np.mean(expected), rel=1e-5)
    assert loss((16, 4, 8, 8))[0] == whole  # in any order, each once
    assert not np.allclose(loss(())[1], gradients)


# The loss and the summed gradients of a case, on one device and on two.
SCRIPT = """
import json, sys
import tensorflow as tf
from tests.modeling.objectives import sentence_vectors_support as support
devices = [d.name for d in tf.config.list_logical_devices("CPU")]
two = tf.distribute.MirroredStrategy(devices)
one = tf.distribute.get_strategy()
print(json.dumps([support.updates(x, sys.argv[1]) for x in (one, two)]))
"""


@pytest.mark.all
@pytest.mark.parametrize("name", ["negatives", "cosent"])
def test_two_devices_compare_the_texts_of_both(name):
    done = fork_server.python("-c", SCRIPT, name, devices=2)
    one, two = json.loads(done.stdout.splitlines()[-1])
    assert two["loss"] == pytest.approx(one["loss"], rel=1e-5)
    # Adam's update of each weight hardly depends on its gradient's size.
    np.testing.assert_allclose(
        two["gradient_norm"], one["gradient_norm"], rtol=1e-4
    )
    np.testing.assert_allclose(two["weights"], one["weights"], atol=2e-6)
