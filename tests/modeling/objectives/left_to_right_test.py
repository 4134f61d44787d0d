"""The left-to-right objective, against a model written in NumPy."""

import math

import numpy as np
import pytest
import tensorflow as tf
from scipy.special import softmax

from modeling.kernels import vocabulary
from modeling.objectives.left_to_right import LeftToRightModel
from tests.modeling.objectives.conformance_support import (
    make_batch,
    make_model,
    trained,
)
from tests.modeling.objectives.numpy_model import (
    NumpyModel,
    gelu,
    sentences,
    with_weights,
)
from tests.support import rounding
from tests.support.small_model import SMALL

BATCH = make_batch(LeftToRightModel)


class LeftToRight(NumpyModel):
    """The objective, in NumPy."""

    def __init__(self, weights):
        super().__init__(weights, SMALL, looks_back=True)

    def losses(self, ids):
        """The loss of each wordpiece after the first, and whether it is top."""
        head = "cls/predictions/transform"
        rows = gelu(self.dense(self.encode(ids)[:-1], f"{head}/dense"))
        logits = (
            self.layer_norm(rows, head)
            @ self.weights["bert/embeddings/word_embeddings"].T
            + self.weights["cls/predictions/output_bias"]
        )
        found = softmax(logits, axis=-1)[np.arange(len(ids) - 1), ids[1:]]
        return -np.log(found), logits.argmax(-1) == ids[1:]


def test_a_document_does_not_predict_the_next_one():
    model = make_model("left_to_right", {})
    theirs = LeftToRight(with_weights(model))
    ids = np.array([[2, 7, 9, 3, 8, 6, 3, 0], [2, 9, 3, 5, 7, 8, 4, 3]])
    documents = np.array([[0, 0, 0, 0, 1, 1, 1, 2], [0, 0, 0, 1, 1, 1, 1, 1]])
    batch = {
        "input_ids": tf.constant(ids, tf.int32),
        "input_mask": tf.constant(ids > 0, tf.int32),
        "segment_ids": tf.zeros(ids.shape, tf.int32),
        "document_ids": tf.constant(documents, tf.int32),
    }
    _, metrics = model.losses(batch, model.loss_weights(batch))
    total, count = metrics["next_token_loss"].numpy()
    # Of 7 and 8 wordpieces, the first of each of two documents is not asked.
    assert count == 5 + 6
    # What is left of the sum without the first documents, scored as texts of
    # their own, does not depend on them.
    changed = np.where(documents == 0, 2, ids)
    batch["input_ids"] = tf.constant(changed, tf.int32)
    _, metrics = model.losses(batch, model.loss_weights(batch))
    other_total = metrics["next_token_loss"][0]

    def first_documents(rows):
        texts = rows[0, :4], rows[1, :3]
        return sum(theirs.losses(text)[0].sum() for text in texts)

    np.testing.assert_allclose(
        total - first_documents(ids),
        other_total - first_documents(changed),
        rtol=rounding.EQUAL,
    )


def test_loss_and_accuracy_are_those_of_numpy():
    model = make_model("left_to_right", {})
    theirs = LeftToRight(with_weights(model))
    losses, hits = zip(*map(theirs.losses, sentences(BATCH)), strict=True)
    losses, hits = np.concatenate(losses), np.concatenate(hits)
    loss, metrics = model.losses(BATCH, model.loss_weights(BATCH))
    # Logits of a dozen units each: float32 rounds them to 1e-6.
    np.testing.assert_allclose(loss, losses.mean(), rtol=rounding.EQUAL)
    np.testing.assert_allclose(
        metrics["next_token_loss"],
        [losses.sum(), len(losses)],
        rtol=rounding.EQUAL,
    )
    assert metrics["next_token_accuracy"].numpy().tolist() == [
        hits.sum(),
        len(hits),
    ]
    assert model.further_results({"next_token_loss": losses.mean()}) == {
        "perplexity": pytest.approx(math.exp(losses.mean()))
    }


@pytest.mark.all
def test_a_drawn_position_has_the_loss_that_it_has_among_all():
    number = 3
    model = make_model("left_to_right", {"num_predicted_positions": number})
    theirs = LeftToRight(with_weights(model))
    known = [theirs.losses(ids)[0] for ids in sentences(BATCH)]
    weights = model.loss_weights(BATCH)
    assert weights["drawn"] == number * len(known)
    draws = []
    for seed in range(40):
        seed = tf.constant([7, seed])
        loss, metrics = model.losses(BATCH, weights, seed)
        again, _ = model.losses(BATCH, weights, seed)
        assert loss == again  # the seed alone decides
        total, count = metrics["next_token_loss"].numpy()
        assert count == number * len(known)
        np.testing.assert_allclose(loss, total / count, rtol=rounding.EQUAL)
        draws.append(total)
    assert len(set(draws)) > 30
    # By chance each position of a row is equally often among the drawn ones.
    means = number * sum(losses.mean() for losses in known)
    spread = math.sqrt(number * sum(losses.var() for losses in known))
    # Drawn without replacement the sum varies less. Of the mean of 40 draws,
    # five deviations.
    assert abs(np.mean(draws) - means) < 5 * spread / math.sqrt(40)
    # An evaluation predicts all positions.
    _, metrics = model.losses(BATCH, weights)
    assert metrics["next_token_loss"][1] == sum(map(len, known))


def test_more_positions_to_draw_than_there_are_are_all():
    drawn = make_model("left_to_right", {"num_predicted_positions": 50})
    weights = drawn.loss_weights(BATCH)
    assert weights["drawn"] == weights["all"]
    got, _ = drawn.losses(BATCH, weights, tf.constant([1, 2]))
    want, _ = drawn.losses(BATCH, weights)
    np.testing.assert_allclose(got, want, rtol=rounding.EQUAL)


def test_a_text_is_read_from_its_last_real_wordpiece():
    model = make_model("left_to_right", {})
    theirs = NumpyModel(with_weights(model), SMALL, looks_back=True)
    want = np.tanh(
        [
            theirs.dense(theirs.encode(ids)[-1], "bert/pooler/dense")
            for ids in sentences(BATCH)
        ]
    )
    for positions in (None, BATCH["input_ids"][:, :0]):
        output = model.encode(BATCH, positions=positions)
        rounding.assert_equal(output.pooled_output, want)
    # A mask may have holes, and be of bool.
    mask = np.zeros((1, 6), bool)
    mask[0, [0, 3]] = True
    ids = np.array([[3, 4, 5, 6, 7, 8]])
    changed = np.array([[3, 4, 5, 6, 9, 9]])
    pooled = [model.bert(x, mask).pooled_output for x in (ids, changed)]
    np.testing.assert_array_equal(*pooled)


@pytest.mark.all
@pytest.mark.parametrize("xla", [False, True])
def test_a_step_in_parts_is_that_of_the_whole(monkeypatch, tmp_path, xla):
    changes = {"xla": xla, "gradient_accumulation_steps": 2}
    found = []
    # All rows at once, and two of them.
    for logits in (vocabulary.LOGITS_AT_ONCE, 2 * SMALL.vocab_size):
        monkeypatch.setattr(vocabulary, "LOGITS_AT_ONCE", logits)
        folder = tmp_path / str(logits)
        found.append(trained("left_to_right", {}, folder, **changes))
    for name, value in found[0].items():
        # Adam divides a gradient that is 0 except for rounding by its size.
        bound = 1e-3 if "/key/bias" in name else rounding.EQUAL
        np.testing.assert_allclose(
            found[1][name], value, atol=bound, rtol=0, err_msg=name
        )
