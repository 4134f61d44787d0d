"""ELECTRA: which wordpieces has a small generator replaced?

Axis letters: see `layers`; here P is the number of positions of a sequence that
the generator predicts.

Source: Clark et al., arXiv:2003.10555; google-research/electra,
`run_pretraining.PretrainingModel` and `pretrain_helpers`.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from modeling import heads, losses
from modeling.bert import BertModel, encoder_of
from modeling.config import BertConfig
from modeling.kernels.seeds import split_seed, uniform
from modeling.objectives.base import Batch, PretrainingObjective

# Added to the divisors of both losses, as in ELECTRA.
_EPSILON = 1e-6
# The random numbers of an evaluation: how many, and their seed.
_NUM_NUMBERS = 1 << 16
_SEED = (0, 0)


class Masked(NamedTuple):
    """What the generator reads and predicts.

    Attributes:
      input_ids: int32 [B, S], with [MASK].
      positions: int32 [B, P], predicted ones; 0 = filler.
      weights: float32 [B, P]; 1 = predicted, 0 = filler.
      numbers: float32 [B, P] in [0, 1), which draw the replacements.
    """

    input_ids: tf.Tensor
    positions: tf.Tensor
    weights: tf.Tensor
    numbers: tf.Tensor


class ReplacedTokensModel(PretrainingObjective):
    """ELECTRA: a generator fills masks, a discriminator detects replacements.

    A batch holds int32 `input_ids`, `input_mask` (1 = real) and `segment_ids`,
    [B, S] each. Masks are drawn in each step. In evaluations they depend on the
    text alone, so that all evaluations have the same ones.

    Args:
      config: the discriminator's. Its `electra` is taken as true.
      token_ids: ids of [MASK], [CLS] and [SEP], which are never predicted.
      discriminator_weight: weight of the discriminator's loss; the generator's
        is 1.
      generator_size: hidden size of the generator as a share of the
        discriminator's, above 0 and at most 1.
      predicted_share: share of a text's wordpieces that are predicted.
      mask_token_share: share of these that the generator sees as [MASK]; it
        sees the others as they are.
      **options: see `bert.encoder_of`, and `BertModel`.

    Raises:
      ValueError: the generator is larger than the discriminator, or its hidden
        size is not divisible by its heads.
    """

    head_variables = {
        "generator": ("generator",),
        "discriminator": ("discriminator_predictions/",),
    }

    draws_inputs = True

    def __init__(
        self,
        config: BertConfig,
        *,
        token_ids: Sequence[int],
        discriminator_weight: float = 50.0,
        generator_size: float = 0.25,
        predicted_share: float = 0.15,
        mask_token_share: float = 0.85,
        **options: Any,
    ):
        config = self.configure(config)
        small = generator_config(config, generator_size)
        super().__init__(encoder_of(config, **options))
        options |= {"embeddings": self.bert.embeddings, "name": "generator"}
        self.generator = self.add(BertModel, small, **options)
        self.generator_predictions = self.add(heads.GeneratorPredictions, small)
        self.discriminator_predictions = self.add(
            heads.DiscriminatorPredictions, config
        )
        self._token_ids = tuple(token_ids)
        self._discriminator_weight = discriminator_weight
        self._predicted_share = predicted_share
        self._mask_token_share = mask_token_share

    @classmethod
    def configure(cls, config):
        """Returns the configuration of an ELECTRA with these sizes."""
        return dataclasses.replace(config, electra=True)

    def loss_weights(self, batch):
        """Counts predicted and real wordpieces."""
        return {
            "generator": tf.reduce_sum(self._num_predicted(batch)),
            "discriminator": tf.reduce_sum(_is_real(batch)),
        }

    def losses(self, batch, loss_weights, dropout_seed=None):
        """Adds the generator's loss and the weighted discriminator's.

        Without a `dropout_seed`, masks depend on the text alone.

        Returns:
          The loss; metrics by ELECTRA's names. `masked_lm_loss` and
          `masked_lm_accuracy` are the generator's, `sampled_masked_lm_accuracy`
          is the share of replacements that are the original word. `disc_loss`
          and `disc_accuracy` are means over all real wordpieces,
          `disc_precision` over those called replaced, `disc_recall` over those
          that were.
        """
        seeds = split_seed(dropout_seed, 3)
        masked = self.mask(batch, seeds[0])
        logits = self.generator_logits(batch, masked, seeds[1])
        sampled = sample(logits, tf.reshape(masked.numbers, [-1]))
        places = tf.shape(masked.positions)
        replaced = replace(batch, masked, tf.reshape(sampled, places))
        scores = self.discriminator_logits(batch, replaced, seeds[2])
        metrics = _generator_metrics(batch, masked, logits, sampled)
        metrics |= _discriminator_metrics(batch, replaced, scores)
        generator = metrics["masked_lm_loss"][0]
        generator /= loss_weights["generator"] + _EPSILON
        discriminator = metrics["disc_loss"][0]
        discriminator /= loss_weights["discriminator"] + _EPSILON
        return generator + self._discriminator_weight * discriminator, metrics

    def mask(self, batch: Batch, seed: tf.Tensor | None) -> Masked:
        """Draws the predicted positions, with replacement, and their masks.

        `seed` is int32 [2]; None = the text decides.
        """
        ids = batch["input_ids"]
        is_candidate = self._is_candidate(batch)
        # Differs from ELECTRA: it predicts int((share + 0.005) * S) positions
        # at most, which depends on the padding.
        most = self._rounded(tf.cast(tf.shape(ids)[1], tf.float32))
        numbers = _numbers(batch, tf.cast(most, tf.int32), seed)
        # The position of the number-th candidate, counted from 0.
        counts = tf.cumsum(is_candidate, axis=1)
        rank = tf.floor(numbers[..., 0] * counts[:, -1:])
        positions = tf.searchsorted(counts, rank, side="right")
        number = self._num_predicted(batch)
        is_predicted = tf.sequence_mask(number, tf.shape(positions)[1])
        weights = tf.cast(is_predicted, tf.float32)
        positions = tf.where(is_predicted, positions, 0)
        sees_mask = numbers[..., 1] < self._mask_token_share
        hidden = weights * tf.cast(sees_mask, tf.float32)
        is_hidden, _ = _drawn(positions, hidden, ids)
        return Masked(
            input_ids=tf.where(is_hidden, self._token_ids[0], ids),
            positions=positions,
            weights=weights,
            numbers=numbers[..., 2],
        )

    def generator_logits(
        self, batch: Batch, masked: Masked, dropout_seed: tf.Tensor | None
    ) -> tf.Tensor:
        """Scores the vocabulary at the positions: float32 [B * P, V]."""
        batch = batch | {"input_ids": masked.input_ids}
        output = self.encode(
            batch, dropout_seed, masked.positions, self.generator
        )
        vectors = output.get_sequence_output()[:, 1:]
        vectors = tf.reshape(vectors, [-1, vectors.shape[-1]])
        table = tf.convert_to_tensor(self.bert.get_embedding_table())
        logits = self.generator_predictions(vectors, table)
        return tf.cast(logits, tf.float32)

    def discriminator_logits(
        self, batch: Batch, input_ids: tf.Tensor, dropout_seed: tf.Tensor | None
    ) -> tf.Tensor:
        """Scores each wordpiece; above 0 = replaced: float32 [B, S]."""
        output = self.encode(batch | {"input_ids": input_ids}, dropout_seed)
        return self.discriminator_predictions(output.get_sequence_output())

    def _is_candidate(self, batch):
        """Returns 1.0 for each wordpiece that may be predicted: [B, S]."""
        is_special = tf.zeros_like(batch["input_ids"], tf.bool)
        for token_id in self._token_ids:
            is_special |= tf.equal(batch["input_ids"], token_id)
        return tf.where(is_special, 0.0, _is_real(batch))

    def _num_predicted(self, batch):
        """Returns the number of predictions of each row: float32 [B]."""
        number = self._rounded(tf.reduce_sum(_is_real(batch), axis=1))
        # A text of [CLS] and [SEP] has none.
        return number * tf.reduce_max(self._is_candidate(batch), axis=1)

    def _rounded(self, lengths):
        return tf.maximum(1.0, tf.round(lengths * self._predicted_share))


def generator_config(config: BertConfig, share: float) -> BertConfig:
    """Returns the sizes of the generator from the discriminator's.

    `share` is that part of its hidden size. Raises ValueError for a generator
    that cannot be made.

    Source: `run_pretraining.get_generator_config`.
    """
    if not 0 < share <= 1:
        raise ValueError(
            f"generator_size is {share}; it must be above 0 and at most 1."
        )
    size = max(1, round(config.hidden_size * share))
    num_heads = max(1, size // 64)
    if size % num_heads:
        raise ValueError(
            f"a generator of {share} times hidden_size {config.hidden_size} "
            f"has hidden size {size}, which is not divisible by its "
            f"{num_heads} heads (size / 64); give another generator_size."
        )
    return dataclasses.replace(
        config,
        hidden_size=size,
        num_attention_heads=num_heads,
        intermediate_size=4 * size,
        embedding_size=config.embedding_width,
    )


def sample(logits: tf.Tensor, numbers: tf.Tensor) -> tf.Tensor:
    """Draws a class from each row's distribution, without gradient: int32 [M].

    The logits are float32 [M, V]; `numbers`, float32 [M], are random in [0, 1).
    """
    # Differs from ELECTRA: it adds Gumbel noise to all logits. The first class
    # at which the sum of probabilities exceeds one random number has the same
    # distribution, and needs M random numbers instead of M * V.
    sums = tf.cumsum(tf.nn.softmax(tf.stop_gradient(logits)), axis=1)
    wanted = numbers[:, tf.newaxis] * sums[:, -1:]
    found = tf.searchsorted(sums, wanted, side="right")[:, 0]
    return tf.minimum(found, tf.shape(logits)[1] - 1)


def replace(batch: Batch, masked: Masked, sampled: tf.Tensor) -> tf.Tensor:
    """Puts sampled wordpieces, int32 [B, P], into a text: int32 [B, S]."""
    ids = batch["input_ids"]
    # Differs from ELECTRA: a position that was drawn twice gets the first
    # sample, not the mean of both ids.
    is_drawn, first = _drawn(masked.positions, masked.weights, ids)
    return tf.where(is_drawn, tf.gather(sampled, first, batch_dims=1), ids)


def _drawn(positions, weights, ids):
    """Returns bool [B, S], whether drawn, and int32 [B, S], the first draw."""
    # No scatter: a GPU's adds in no fixed order.
    places = tf.one_hot(positions, tf.shape(ids)[1]) * weights[..., tf.newaxis]
    first = tf.argmax(places, axis=1, output_type=tf.int32)
    return tf.reduce_max(places, axis=1) > 0, first


def _numbers(batch, count, seed):
    """Returns three random numbers for each prediction: [B, count, 3]."""
    shape = [tf.shape(batch["input_ids"])[0], count, 3]
    if seed is not None:
        return uniform(shape, seed)
    numbers = uniform([_NUM_NUMBERS], _SEED)
    odd = 2 * tf.range(tf.shape(batch["input_ids"])[1]) + 1
    real_ids = batch["input_ids"] * batch["input_mask"]
    start = tf.reduce_sum(real_ids * odd, axis=1, keepdims=True)
    places = (start + tf.range(3 * count)) % _NUM_NUMBERS
    return tf.reshape(tf.gather(numbers, places), shape)


def _generator_metrics(batch, masked, logits, sampled):
    """Metrics of logits [B * P, V] and samples [B * P]."""
    original = tf.gather(batch["input_ids"], masked.positions, batch_dims=1)
    original = tf.reshape(original, [-1])
    weights = tf.reshape(masked.weights, [-1])
    is_right = tf.cast(tf.equal(sampled, original), tf.float32)
    item_losses = losses.cross_entropy(logits, original)
    hits = losses.hits(logits, original)
    return {
        **losses.metrics("masked_lm", item_losses, hits, weights),
        "sampled_masked_lm_accuracy": losses.weighted(is_right, weights),
    }


def _discriminator_metrics(batch, replaced, scores):
    """Metrics of scores [B, S] of a text with replacements, int32 [B, S]."""
    is_real = _is_real(batch)
    is_replaced = tf.not_equal(replaced, batch["input_ids"])
    is_replaced = tf.cast(is_replaced, tf.float32)
    found = tf.cast(scores > 0, tf.float32)
    hits = tf.cast(tf.equal(found, is_replaced), tf.float32)
    item_losses = tf.nn.sigmoid_cross_entropy_with_logits(is_replaced, scores)
    return {
        **losses.metrics("disc", item_losses, hits, is_real),
        "disc_precision": losses.weighted(hits, found * is_real),
        "disc_recall": losses.weighted(hits, is_replaced * is_real),
    }


def _is_real(batch):
    return tf.cast(batch["input_mask"], tf.float32)


MODEL = ReplacedTokensModel
