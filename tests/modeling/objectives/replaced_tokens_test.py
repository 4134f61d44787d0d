"""ELECTRA's objective, against a model written in NumPy."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from scipy.special import softmax

from modeling.objectives import replaced_tokens
from modeling.objectives.replaced_tokens import Masked, ReplacedTokensModel
from tests.modeling.objectives.conformance_support import make_batch, make_model
from tests.modeling.objectives.numpy_model import (
    NumpyModel,
    gelu,
    sentences,
    with_weights,
)
from tests.support import rounding
from tests.support.small_model import SMALL
from training.config.objective_options import ReplacedTokensOptions

SIZES = dataclasses.replace(SMALL, embedding_size=6, electra=True)
OPTIONS = {"generator_size": 0.5, "predicted_share": 0.4}
MASK, CLS, SEP = 27, 28, 29


def make(**options):
    return make_model(
        "replaced_tokens",
        OPTIONS | {"token_ids": (MASK, CLS, SEP)} | options,
        SIZES,
    )


@pytest.fixture(scope="module")
def batch():
    """Rows of [CLS], 3 to 10 wordpieces, [SEP] and padding."""
    batch = make_batch(ReplacedTokensModel)
    ids = batch["input_ids"].numpy()
    ids[:, 1:] = np.where(ids[:, 1:] >= MASK, 5, ids[:, 1:])
    ids[:, 0] = CLS
    ids[np.arange(len(ids)), batch["input_mask"].numpy().sum(1) - 1] = SEP
    zeros = tf.zeros_like(batch["segment_ids"])
    return batch | {"input_ids": tf.constant(ids), "segment_ids": zeros}


class Electra:
    """The objective in NumPy, one sentence at a time."""

    def __init__(self, weights):
        small = replaced_tokens.generator_config(SIZES, 0.5)
        self.generator, self.discriminator = (
            NumpyModel(weights, config, scope=scope, embeddings="electra")
            for config, scope in ((small, "generator"), (SIZES, "electra"))
        )
        self.weights = weights

    def shares(self, seen, positions):
        """The generator's probabilities [P, V]."""
        head, model = "generator_predictions", self.generator
        x = model.encode(seen)[positions]
        x = model.layer_norm(gelu(model.dense(x, f"{head}/dense")), head)
        return softmax(
            x @ self.weights["electra/embeddings/word_embeddings"].T
            + self.weights[f"{head}/output_bias"],
            axis=-1,
        )

    def scores(self, fake):
        """The discriminator's scores [S]."""
        head, model = "discriminator_predictions", self.discriminator
        x = gelu(model.dense(model.encode(fake), f"{head}/dense"))
        return model.dense(x, f"{head}/dense_1")[:, 0]

    def facts(self, ids, seen, positions, counts, numbers):
        """Loss, hit and lucky draw of P; score and truth of S wordpieces."""
        positions = positions[counts == 1]
        words = ids[positions]
        shares = self.shares(seen[: len(ids)], positions)
        drawn = [
            np.searchsorted(np.cumsum(share), number, side="right")
            for share, number in zip(shares, numbers, strict=False)
        ]
        fake = ids.copy()
        fake[positions[::-1]] = drawn[::-1]  # the first draw of a position
        of_words = -np.log(shares[np.arange(len(words)), words])
        hits = shares.argmax(-1) == words
        return (of_words, hits, drawn == words), (
            self.scores(fake),
            fake != ids,
        )


def test_losses_are_those_of_numpy(batch):
    model = make()
    theirs = Electra(with_weights(model))
    masked = [x.numpy() for x in model.mask(batch, None)]
    facts = [
        theirs.facts(*row)
        for row in zip(sentences(batch), *masked, strict=True)
    ]
    generator, discriminator = (
        [np.concatenate(x) for x in zip(*side, strict=True)]
        for side in zip(*facts, strict=True)
    )
    scores, true = discriminator
    # -log of the probability of what is true.
    costs, calls = np.log1p(np.exp(np.where(true, -scores, scores))), scores > 0
    assert calls.any() and true.any() and not true.all()

    loss, metrics = model.losses(batch, model.loss_weights(batch))
    expected = {
        "masked_lm_loss": (sum(generator[0]), len(generator[0])),
        "masked_lm_accuracy": (sum(generator[1]), len(generator[0])),
        "sampled_masked_lm_accuracy": (sum(generator[2]), len(generator[0])),
        "disc_loss": (sum(costs), len(costs)),
        "disc_accuracy": (sum(calls == true), len(costs)),
        "disc_precision": (sum(calls & true), sum(calls)),
        "disc_recall": (sum(calls & true), sum(true)),
    }
    assert metrics.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(
            metrics[name], value, rtol=rounding.EQUAL, err_msg=name
        )
    np.testing.assert_allclose(
        loss, generator[0].mean() + 50 * costs.mean(), rtol=rounding.EQUAL
    )


def test_masks_follow_the_rules_of_electra(batch):
    model = make()
    ids = batch["input_ids"].numpy()
    lengths = batch["input_mask"].numpy().sum(axis=1)
    wanted = np.maximum(1, np.round(0.4 * lengths))
    counts, seen_as_mask, total, twice = np.zeros(ids.shape), 0, 0, 0
    num_seeds = 200
    for seed in range(num_seeds):
        masked = model.mask(batch, tf.constant([3, seed]))
        changed = masked.input_ids.numpy() != ids
        assert (masked.input_ids.numpy()[changed] == MASK).all()
        assert (masked.weights.numpy().sum(axis=1) == wanted).all()
        for row, (places, weights) in enumerate(
            zip(masked.positions.numpy(), masked.weights.numpy(), strict=True)
        ):
            places = places[weights == 1]
            np.add.at(counts[row], places, 1)
            assert {*np.flatnonzero(changed[row])} <= {*places}
            alone, times = np.unique(places, return_counts=True)
            twice += (times > 1).sum()
            total += (times == 1).sum()
            seen_as_mask += changed[row][alone[times == 1]].sum()
    assert twice > 0  # positions are drawn with replacement
    # Of a share p in n draws: five standard deviations.
    assert abs(seen_as_mask / total - 0.85) < 5 * np.sqrt(0.85 * 0.15 / total)
    for row, n in enumerate(lengths):
        share = 1 / (n - 2)  # all but [CLS] and [SEP]
        draws = num_seeds * wanted[row]
        expected = np.zeros(ids.shape[1])
        expected[1 : n - 1] = share
        bound = 5 * np.sqrt(share * (1 - share) / draws)
        np.testing.assert_allclose(counts[row] / draws, expected, atol=bound)


def test_a_text_without_words_counts_nowhere(batch):
    ids = np.zeros((1, 12), int)
    ids[0, :2] = CLS, SEP
    empty = {"input_ids": ids, "input_mask": ids > 0, "segment_ids": 0 * ids}
    empty = {name: tf.cast(x, tf.int32) for name, x in empty.items()}
    both = {
        name: tf.concat([batch[name], x], axis=0) for name, x in empty.items()
    }
    model = make()
    _, alone = model.losses(batch, model.loss_weights(batch))
    loss, metrics = model.losses(both, model.loss_weights(both))
    assert np.isfinite(loss)
    np.testing.assert_allclose(
        metrics["masked_lm_loss"], alone["masked_lm_loss"], rtol=rounding.EQUAL
    )
    assert metrics["disc_loss"][1] == alone["disc_loss"][1] + 2


def test_samples_have_the_distribution_of_the_logits():
    logits = np.array([0.0, -50.0, 1.0, 0.5, -1.0])
    number = 4000
    numbers = (np.arange(number) + 0.5) / number
    found = replaced_tokens.sample(
        tf.constant(np.tile(logits, (number, 1)), tf.float32),
        tf.constant(numbers, tf.float32),
    )
    shares = np.bincount(found, minlength=5) / number
    # Evenly spaced numbers: one may fall to either side of a class's bound.
    np.testing.assert_allclose(shares, softmax(logits), atol=1.5 / number)
    assert shares[1] == 0
    edges = tf.constant([0.0, 1 - 2.0**-24])
    found = replaced_tokens.sample(
        tf.constant(np.tile(logits, (2, 1)), tf.float32), edges
    )
    assert found.numpy().tolist() == [0, 4]


def test_the_first_sample_of_a_position_is_taken():
    ids = tf.constant([[CLS, 5, 6, 7, SEP]])
    masked = Masked(
        input_ids=ids,
        positions=tf.constant([[2, 2, 3, 0]]),
        weights=tf.constant([[1.0, 1.0, 1.0, 0.0]]),
        numbers=tf.zeros([1, 4]),
    )
    replaced = replaced_tokens.replace(
        {"input_ids": ids}, masked, tf.constant([[11, 12, 7, 13]])
    )
    assert replaced.numpy().tolist() == [[CLS, 5, 11, 7, SEP]]


def test_the_discriminator_s_loss_does_not_train_the_generator(batch):
    model = make()
    with_weights(model)
    masked = model.mask(batch, None)
    with tf.GradientTape() as tape:
        logits = model.generator_logits(batch, masked, None)
        sampled = replaced_tokens.sample(
            logits, tf.reshape(masked.numbers, [-1])
        )
        sampled = tf.reshape(sampled, tf.shape(masked.positions))
        replaced = replaced_tokens.replace(batch, masked, sampled)
        scores = model.discriminator_logits(batch, replaced, None)
    variables = [x.value for x in model.generator_predictions.weights]
    assert tape.gradient(scores, variables) == [None] * 5


@pytest.mark.parametrize("share", [1.5, 0.0])
def test_a_generator_larger_than_its_discriminator(share):
    message = f"generator_size is {share}; it must be above 0 and at most 1"
    with pytest.raises(ValueError, match=message):
        make(generator_size=share)
    message = f"--generator_size={share}; it must be above 0.*1"
    with pytest.raises(ValueError, match=message):
        ReplacedTokensOptions(generator_size=share)


def test_a_generator_whose_heads_do_not_fit():
    odd = dataclasses.replace(SIZES, hidden_size=388)
    message = "388 has hidden size 194, .* its 3 heads .*another generator_size"
    with pytest.raises(ValueError, match=message):
        replaced_tokens.generator_config(odd, 0.5)
    small = replaced_tokens.generator_config(odd, 0.25)
    assert (small.hidden_size, small.num_attention_heads) == (97, 1)
    assert (small.intermediate_size, small.embedding_width) == (388, 6)
