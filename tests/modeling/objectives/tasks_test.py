"""Every kind of task: shapes, losses by NumPy, and padding that counts not."""

import dataclasses
import functools

import numpy as np
import pytest
import tensorflow as tf
from scipy.special import log_softmax

from data.records import length_batches
from modeling import SpanModel, TaskModel
from tests.modeling.objectives import tasks_support
from tests.modeling.objectives.tasks_support import LABELS
from tests.support import rounding
from tests.support.model_folder_support import variables_of
from tests.support.tiers import rare

LENGTHS = [5, 3, 7, 1, 6]
SEQ_LENGTH = 12


@pytest.fixture(scope="module")
def config(config):
    return dataclasses.replace(config, num_hidden_layers=2)


@pytest.fixture(scope="module")
def task_model(config):
    """`make_model`, each made once: no test may change it."""
    return functools.cache(functools.partial(make_model, config))


def make_model(config, kind, **options):
    return tasks_support.with_random_head(
        TaskModel, config, kind, LABELS[kind], **options
    )


def make_batch(kind):
    """The last example is a filler."""
    real = np.array([[1], [1], [1], [1], [0]])
    return tasks_support.make_batch(
        kind, LENGTHS, SEQ_LENGTH, LABELS[kind], is_real_example=real
    )


def texts_of(batch):
    """The encoder's inputs; each choice is a text."""
    inputs = [batch[n] for n in ("input_ids", "input_mask", "segment_ids")]
    return [tf.reshape(x, [-1, SEQ_LENGTH]) for x in inputs]


def reference(kind, logits, batch):
    """Loss, score and weight of each item, in float64."""
    labels = batch["label_ids"].numpy()
    weights = batch["is_real_example"].numpy().astype(float)
    if kind == "regression":
        difference = logits - labels
        return difference**2, abs(difference), weights
    if kind == "multilabel":
        # -log sigmoid(x) = log(1 + exp(-x)), of the sign that is right.
        signed = np.where(labels == 1, logits, -logits)
        losses = np.log1p(np.exp(-signed)).mean(axis=1, keepdims=True)
        return losses, (signed > 0).mean(axis=1, keepdims=True), weights
    if kind == "tagging":
        weights = weights * batch["label_mask"].numpy()
    else:
        logits = logits[:, None]  # one item an example
    told = log_softmax(logits, axis=-1)
    losses = -np.take_along_axis(told, labels[..., None], axis=-1)[..., 0]
    return losses, logits.argmax(axis=-1) == labels, weights


@pytest.mark.parametrize("kind", LABELS)
def test_losses_scores_and_predictions_equal_numpy(task_model, kind):
    model, batch = task_model(kind), make_batch(kind)
    logits = model.logits(batch).numpy().astype(np.float64)
    shape = {"tagging": (5, SEQ_LENGTH, 7)}.get(kind, (5, LABELS[kind]))
    assert logits.shape == shape
    losses, scores, weights = reference(kind, logits, batch)
    loss_weights = model.loss_weights(batch)
    assert float(loss_weights["loss"]) == weights.sum() > 3
    loss, metrics = model.losses(batch, loss_weights)
    total = weights.sum()
    assert float(loss) == pytest.approx((losses * weights).sum() / total)
    (metric,) = metrics.values()
    np.testing.assert_allclose(
        metric, [(scores * weights).sum(), total], rtol=rounding.EQUAL
    )
    by_example = model.score_examples(batch)
    for name, values in (("loss", losses), ("score", scores), ("weight", 1)):
        want = (values * weights).sum(axis=1)
        np.testing.assert_allclose(
            by_example[name], want, rtol=rounding.EQUAL, err_msg=name
        )
    assert by_example["weight"][4] == 0
    expected = {
        "regression": logits,
        "multilabel": 1 / (1 + np.exp(-logits)),
    }.get(kind, np.exp(log_softmax(logits, axis=-1)))
    for predictions in (by_example["predictions"], model.predict(batch)):
        np.testing.assert_allclose(predictions, expected, rtol=rounding.EQUAL)


@pytest.mark.parametrize(
    ("kind", "head", "mix"),
    [
        ("classification", "linear", ""),
        ("choice", "linear", ""),
        rare("choice", "bilstm", ""),
        ("choice", "mean", ""),
        ("tagging", "linear", ""),
        ("tagging", "linear", "weighted_all"),
        ("tagging", "bilstm", "second_to_last"),
    ],
)
def test_trimmed_batches_give_the_same(task_model, kind, head, mix):
    model = task_model(kind, head=head, feature_based=mix)
    batch = make_batch(kind)
    choices = LABELS[kind] if kind == "choice" else 1
    trimmed = length_batches.trim_batch(batch, choices)
    assert trimmed["input_ids"].shape == (5, 8 * choices)
    whole, cut = model.predict(batch), model.predict(trimmed)
    if kind == "tagging":
        whole = whole[:, :8]
        # Beyond an example's own length nothing is asked.
        real = batch["input_mask"].numpy()[:, :8, None] == 1
        whole, cut = whole * real, cut * real
    rounding.assert_equal(cut, whole)
    losses = [
        model.losses(some, model.loss_weights(some))[0]
        for some in (trimmed, batch)
    ]
    np.testing.assert_allclose(*losses, rtol=rounding.EQUAL)


@pytest.mark.parametrize("kind", ["classification", "tagging"])
def test_class_weights_weigh_the_training_loss_alone(task_model, kind):
    table = np.arange(1.0, 1 + LABELS[kind])
    batch = make_batch(kind)
    plain = task_model(kind)
    weighted = task_model(kind, class_weights=tuple(table))
    logits = plain.logits(batch).numpy().astype(np.float64)
    losses, _, weights = reference(kind, logits, batch)
    weights = weights * table[batch["label_ids"].numpy()]
    loss, metrics = weighted.losses(batch, weighted.loss_weights(batch))
    expected = (losses * weights).sum() / weights.sum()
    assert float(loss) == pytest.approx(expected, rel=rounding.EQUAL)
    _, same = plain.losses(batch, plain.loss_weights(batch))
    np.testing.assert_array_equal(metrics["accuracy"], same["accuracy"])
    np.testing.assert_array_equal(
        weighted.score_examples(batch)["loss"],
        plain.score_examples(batch)["loss"],
    )


def test_a_batch_without_a_label_has_loss_0(task_model):
    model, batch = task_model("tagging"), make_batch("tagging")
    batch["label_mask"] = tf.zeros_like(batch["label_mask"])
    loss, metrics = model.losses(batch, model.loss_weights(batch))
    assert float(loss) == 0
    np.testing.assert_array_equal(metrics["accuracy"], [0, 0])


@pytest.mark.parametrize("kind", [rare("choice"), "tagging"])
def test_a_bilstm_stands_before_the_linear_layer(task_model, kind):
    model, batch = task_model(kind, head="bilstm"), make_batch(kind)
    ids, mask, segments = texts_of(batch)
    sequence = model.bert(ids, mask, segments).get_sequence_output()
    words, last = model.bilstm(sequence, mask)
    vectors = tf.reshape(words, [-1, 64]) if kind == "tagging" else last
    logits = model.logits(batch)
    rounding.assert_equal(tf.reshape(model.head(vectors), logits.shape), logits)
    # All of it learns: the first block's and the first LSTM's weights.
    weights = [
        model.bert.encoder.blocks[0].attention.self_attention.value.kernel,
        model.bilstm.stack[0].backward.kernel,
    ]
    with tf.GradientTape() as tape:
        loss, _ = model.losses(batch, model.loss_weights(batch))
    for gradient in tape.gradient(loss, [w.value for w in weights]):
        assert abs(gradient.numpy()).max() > 0


def test_the_mean_of_the_real_tokens_stands_before_the_linear_layer(task_model):
    model, batch = task_model("choice", head="mean"), make_batch("choice")
    ids, mask, segments = texts_of(batch)
    words = model.bert(ids, mask, segments).get_sequence_output().numpy()
    real = mask.numpy()[..., None]
    means = (words * real).sum(axis=1) / real.sum(axis=1)
    weights, bias = (v.numpy() for v in model.head.weights)
    logits = model.logits(batch)
    np.testing.assert_allclose(
        logits,
        (means @ weights.T + bias).reshape(logits.shape),
        atol=rounding.EQUAL * abs(logits.numpy()).max(),
    )


def test_a_frozen_encoder_is_read_without_gradient_or_dropout(config):
    dropping = dataclasses.replace(
        config, hidden_dropout_prob=0.5, attention_probs_dropout_prob=0.5
    )
    model = make_model(
        dropping, "tagging", feature_based="weighted_all", head="bilstm"
    )
    batch = make_batch("tagging")
    seen = []
    call = model.mix.call
    model.mix.call = lambda *layers: seen.append(layers) or call(*layers)
    seed = tf.constant([3, 1], tf.int32)
    with tf.GradientTape() as tape:
        loss, _ = model.losses(batch, model.loss_weights(batch), seed)
    model.logits(batch)
    np.testing.assert_array_equal(seen[0][0], seen[1][0])
    np.testing.assert_array_equal(seen[0][1][-1], seen[1][1][-1])
    names = variables_of(model)
    gradients = tape.gradient(loss, list(names.values()))
    for name, gradient in zip(names, gradients, strict=True):
        assert (gradient is None) == name.startswith("bert/"), name
    assert not model.bert.trainable_variables
    frozen = make_model(config, "tagging", trainable=False)
    assert not frozen.bert.trainable_variables


def test_a_tenth_of_the_heads_input_is_dropped_in_training(config):
    # The golden model has no dropout of its own. One example, 1000 times.
    model = make_model(config, "regression")
    batch = {
        name: tf.repeat(x[:1], 1000, axis=0)
        for name, x in make_batch("regression").items()
    }
    model.head.output_weights.assign(np.ones((1, 32)))
    seed = tf.constant([3, 1], tf.int32)
    drawn = model.logits(batch, seed).numpy()
    few = {name: x[:1] for name, x in batch.items()}
    pooled = model.bert(*texts_of(few)).pooled_output.numpy()
    bias = float(model.head.output_bias.numpy()[0])
    # Sum of x b / 0.9 with b = 1 in 0.9: variance x^2 (0.1 / 0.9).
    deviation = np.sqrt((pooled**2).sum() / 9)
    assert drawn.std() == pytest.approx(deviation, rel=0.1)
    assert drawn.mean() == pytest.approx(
        pooled.sum() + bias, abs=4 * deviation / np.sqrt(1000)
    )
    whole = make_model(config, "regression", head_dropout=0.0)
    np.testing.assert_array_equal(whole.logits(few, seed), whole.logits(few))


@pytest.mark.parametrize(
    ("kind", "head"),
    [*(("choice", "linear"), ("tagging", "linear")), rare("tagging", "bilstm")],
)
def test_sixteen_bits_follow_float32(config, task_model, kind, head):
    batch = make_batch(kind)
    whole, bfloat16, float16 = (
        task_model(kind, dtype=dtype, head=head).logits(batch)
        for dtype in ("float32", "mixed_bfloat16", "mixed_float16")
    )
    assert bfloat16.dtype == float16.dtype == tf.float32
    num_roundings = rounding.EMBEDDINGS + rounding.DENSE
    num_roundings += rounding.BLOCK * config.num_hidden_layers
    if head == "bilstm":
        # For each of two layers: the gates of the input and of the state
        # before, their sum, and the state. The forget gates, 0.7 at first,
        # let two steps count.
        num_roundings += 2 * 2 * (rounding.DENSE + 3)
    elif kind != "tagging":
        num_roundings += rounding.POOLER
    for got, dtype in ((bfloat16, "bfloat16"), (float16, "float16")):
        rounding.assert_near(got, whole, dtype, num_roundings)


@pytest.mark.parametrize(
    ("make", "bound"),
    [
        (SpanModel, 0.05),
        (lambda config: TaskModel(config, "classification", 50), 0.03),
    ],
)
def test_a_heads_initial_values_do_not_follow_the_configuration(
    config, make, bound
):
    wide = dataclasses.replace(
        config, initializer_range=0.5, hidden_size=2048, num_hidden_layers=1
    )
    *_, weights, bias = variables_of(make(wide)).values()
    # Truncated at two deviations: 0.88 of 0.02 is left.
    assert weights.numpy().std() == pytest.approx(0.88 * 0.02, rel=bound)
    assert abs(weights.numpy()).max() <= 0.04
    assert not bias.numpy().any()


@pytest.mark.parametrize(
    ("kind", "num_labels", "options", "message"),
    [
        ("span", 2, {}, "kind of task 'span'; it must be one of classificatio"),
        ("classification", 1, {}, "with 1 labels; it must have 2 or more"),
        ("regression", 2, {}, "regression task with 2 labels; it must have 1"),
        ("multilabel", 0, {}, "with 0 labels; it must have 1 or more"),
        ("choice", 2, {"head": "lstm"}, "'lstm'; .* one of linear, bilstm, me"),
        ("tagging", 2, {"head": "mean"}, "head 'mean'; .* linear, bilstm[.]"),
        ("choice", 2, {"feature_based": "last"}, "of a choice task reads one"),
        ("tagging", 2, {"feature_based": "first"}, "^mix of layers 'first"),
        ("choice", 2, {"class_weights": (1.0, 2.0)}, "choice task; .*for clas"),
        ("classification", 3, {"class_weights": (1.0, 2.0)}, "give 3 above 0"),
        ("tagging", 2, {"class_weights": (1.0, 0.0)}, "give 2 above 0"),
    ],
)
def test_what_fits_no_task_is_refused(
    config, kind, num_labels, options, message
):
    with pytest.raises(ValueError, match=message):
        TaskModel(config, kind, num_labels, **options)
