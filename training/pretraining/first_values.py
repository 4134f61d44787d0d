"""--first_weights: initial weights with frequencies and attention to neighbors.

From random weights a small model learns little more than the frequencies of the
wordpieces in its first thousands of updates: its masked-LM loss stays near the
unigram entropy. Two initializations avoid that. They only set initial values of
the original's variables, which are then trained like all others.

- `frequencies`: the bias of the output layer is the logarithm of the frequency
  of each wordpiece.
- `neighbors`: also, the position vectors are sines of many wavelengths, and a
  head of the first layer turns them by one position, so that it attends to the
  wordpiece before; another head to the one after, and so on. At least half of
  the heads stay random, where there are four or more: next sentences are
  learned from words that are farther away.

Source of the second: Trockman and Kolter, "Mimetic Initialization of
Self-Attention Layers" (arXiv:2305.09828) start attention from values that
trained models have; the sines are those of Vaswani et al. (arXiv:1706.03762).
"""

from collections.abc import Iterable

import numpy as np
from absl import logging

from data.records.damage import naming_damage
from modeling.checkpoints.assign import Variables
from modeling.config import BertConfig
from modeling.objectives.base import Batch
from training.config.pretraining_options import PretrainingOptions
from training.pretraining.batches import Records

_NUM_EXAMPLES = 20_000  # enough for the frequencies: 200,000 masked wordpieces

_BOTH_SIDES = (-1, 1, -2, 2)  # what head 0, 1, .. attends to
_LEFT_SIDE = (-1, -2, -3, -4)
_POSITION_SHARE = 4  # one of four coordinates belongs to the positions
_AMPLITUDE = 2.0  # the sines', in standard deviations of a word's vector
_WORD_FACTOR = 0.1  # scales a word's vector in these coordinates
_SLOWEST, _FASTEST = 0.02, 2.8  # radians per position
_PEAK = 8.0  # score of the wordpiece that a head attends to, which gets 70 %
_UNSEEN = 1.0  # is added to each count

# BERT's, and ELECTRA's, whose generator has the output layer.
_BIASES = ("cls/predictions/output_bias", "generator_predictions/output_bias")
_ATTENTION = "encoder/layer_0/attention/"


def count_targets(batches: Iterable[Batch], vocab_size: int) -> np.ndarray:
    """Counts the wordpieces that a model has to predict, float64 [vocab_size].

    The batches, int32 [B, S] or [B, P], are masked if the model predicts masked
    wordpieces.
    """
    counts = np.zeros(vocab_size)
    for batch in batches:
        if "masked_lm_ids" in batch:
            ids, is_real = batch["masked_lm_ids"], batch["masked_lm_weights"]
        else:
            ids, is_real = batch["input_ids"], batch["input_mask"]
        real = ids.numpy()[is_real.numpy() > 0]
        counts += np.bincount(real, minlength=vocab_size)
    return counts


def assign_frequencies(weights: Variables, counts: np.ndarray) -> None:
    """Sets the bias of the output layer; average frequency gets 0."""
    smoothed = counts + _UNSEEN
    bias = next(name for name in _BIASES if name in weights)
    weights[bias].assign(np.log(smoothed / smoothed.mean()))


def assign_neighbors(weights: Variables, config: BertConfig, seed: int) -> None:
    """Lets the heads of the first layer attend to the wordpieces beside.

    The weights have the original's random values; the seed draws the orthogonal
    matrices that carry what the heads find. Raises ValueError if embeddings are
    narrower than the layers, as in some ELECTRAs.
    """
    hidden = config.hidden_size
    if config.embedding_width != hidden:
        raise ValueError(
            "--first_weights=neighbors needs embeddings as wide as the layers, "
            f"but embedding_size is {config.embedding_width} and hidden_size "
            f"{hidden}; give --first_weights=frequencies."
        )
    scope = f"{config.encoder_name}/"
    encoder = {n.removeprefix(scope): v for n, v in weights.items()}
    num_waves = max(1, hidden // (2 * _POSITION_SHARE))
    waves = np.geomspace(_SLOWEST, _FASTEST, num_waves)
    amplitude = _AMPLITUDE * config.initializer_range
    variance = _assign_positions(encoder, waves, amplitude)
    # Layer norm divides the vectors by their standard deviation.
    _assign_scores(encoder, config, waves, amplitude / np.sqrt(variance))
    random = np.random.default_rng(seed)
    for name in ("self/value", "output/dense"):
        matrix, _ = np.linalg.qr(random.standard_normal((hidden, hidden)))
        encoder[f"{_ATTENTION}{name}/kernel"].assign(matrix)


def _assign_positions(encoder, waves, amplitude):
    """Sets the position vectors; returns the variance of an input vector.

    The last coordinates of a vector are theirs: cosine and sine of each wave.
    """
    positions = encoder["embeddings/position_embeddings"]
    number, hidden = positions.shape
    first = hidden - 2 * len(waves)
    angles = np.arange(number)[:, None] * waves
    sines = np.zeros((number, hidden))
    sines[:, first::2] = amplitude * np.cos(angles)
    sines[:, first + 1 :: 2] = amplitude * np.sin(angles)
    positions.assign(sines)
    variance = np.square(sines).mean()
    for name in ("word_embeddings", "token_type_embeddings"):
        table = encoder[f"embeddings/{name}"]
        values = table.numpy()
        values[:, first:] *= _WORD_FACTOR
        table.assign(values)
        variance += np.square(values).mean()
    return variance


def _assign_scores(encoder, config, waves, amplitude):
    """Sets queries and keys: the query of position p is the key of p + offset.

    The product of the two is then the sum of cos(wave * (p + offset - q)) over
    the waves, which is largest for q = p + offset.
    """
    heads = config.num_attention_heads
    size = config.hidden_size // heads
    number = min(len(waves), size // 2)  # a wave takes two coordinates
    chosen = np.linspace(0, len(waves) - 1, number).astype(int)
    cosines = config.hidden_size - 2 * len(waves) + 2 * chosen
    # The scores are divided by the root of the size.
    gain = np.sqrt(_PEAK * np.sqrt(size) / number) / amplitude
    names = ("self/query", "self/key")
    query, key = (encoder[f"{_ATTENTION}{name}/kernel"] for name in names)
    queries, keys = query.numpy(), key.numpy()
    offsets = _LEFT_SIDE if config.left_to_right else _BOTH_SIDES
    # Two at least: one to each side, or both to the left.
    local_heads = min(heads, max(2, heads // 2))
    for head, offset in enumerate(offsets[:local_heads]):
        of_head = slice(head * size, (head + 1) * size)
        queries[:, of_head], keys[:, of_head] = 0.0, 0.0
        columns = head * size + 2 * np.arange(number)
        keys[cosines, columns] = keys[cosines + 1, columns + 1] = gain
        turn = waves[chosen] * offset
        queries[cosines, columns] = gain * np.cos(turn)
        queries[cosines + 1, columns] = -gain * np.sin(turn)
        queries[cosines + 1, columns + 1] = gain * np.cos(turn)
        queries[cosines, columns + 1] = gain * np.sin(turn)
    query.assign(queries)
    key.assign(keys)


def assign(
    weights: Variables,
    options: PretrainingOptions,
    config: BertConfig,
    records: Records,
) -> None:
    """Gives a new model, whose values are random, those of --first_weights."""
    train, kind = records.train, options.first_weights
    # At most one pass: repeated, rare wordpieces would look rarer.
    number = min(_NUM_EXAMPLES, train.count)
    num_batches = -(-number // options.train.train_batch_size)
    with naming_damage(train):
        batches = records.training_batches().take(num_batches)
        counts = count_targets(batches, config.vocab_size)
    assign_frequencies(weights, counts)
    if kind == "neighbors":
        assign_neighbors(weights, config, options.train.seed)
    logging.info(
        "--first_weights=%s: frequencies of %d wordpieces.", kind, counts.sum()
    )
