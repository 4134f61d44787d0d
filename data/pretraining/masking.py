"""Masks many rows at once with NumPy.

The masks have the distribution of the original's create_masked_lm_predictions,
and making them is twenty times as fast; `data.pretraining.exact.examples` has
that function itself with the same random decisions. The streaming writer and
masking while reading (`--masking=dynamic`) use this one.
"""

from typing import NamedTuple

import numpy as np

from data.pretraining.data_options import PretrainingDataOptions, Wordpieces


class MaskedRows(NamedTuple):
    """N masked rows of S tokens, with P places for predictions.

    `input_ids` are int32 [N, S]. The others are int32 [N, P], positions
    ascending and ids the original tokens, then 0; and float32 [N, P], 1 = a
    prediction, 0 = padding.
    """

    input_ids: np.ndarray
    masked_lm_positions: np.ndarray
    masked_lm_ids: np.ndarray
    masked_lm_weights: np.ndarray


class Masker:
    """Masks rows; `num_predictions` is P, the most masked tokens of a row."""

    def __init__(self, wordpieces: Wordpieces, options: PretrainingDataOptions):
        self._options = options
        self.num_predictions = options.max_predictions_per_seq
        self._mask_id = wordpieces.mask_id
        self._ids = np.array(wordpieces.ids, np.int32)
        self._num_ids = wordpieces.num_ids
        self._is_special = np.zeros(len(wordpieces.starts_word), bool)
        self._is_special[[wordpieces.cls_id, wordpieces.sep_id]] = True
        self._starts_unit = np.ones_like(self._is_special)
        if options.do_whole_word_mask:
            self._starts_unit[:] = wordpieces.starts_word
        inverse = 1 / np.arange(1, options.max_ngram_size + 1)
        self._ngram_bounds = np.cumsum(inverse / inverse.sum())[:-1]

    def mask(
        self,
        input_ids: np.ndarray,
        lengths: np.ndarray,
        rng: np.random.Generator,
    ) -> MaskedRows:
        """Masks 15 % (`masked_lm_prob`) of each row.

        `input_ids` are integers [N, S]; [CLS] and [SEP] are never masked. The
        ids may say which tokens continue a word, see `Wordpieces`; the result's
        do not. `lengths` [N] are tokens without padding. Each row uses only its
        own row of the arrays drawn from `rng`.

        Source: paper, section 3.1 and appendix A.1; spans: ALBERT, 4.2.
        """
        input_ids = np.asarray(input_ids, np.int32)
        chosen = self._choose(input_ids, lengths, rng)
        if self._num_ids:  # the words are not needed any more
            input_ids = input_ids % self._num_ids
        labels = input_ids[chosen]  # row by row, positions ascending
        shape = len(input_ids), self.num_predictions
        is_prediction = np.arange(shape[1]) < chosen.sum(axis=1)[:, None]
        # A draw for each place, so that rows do not depend on others.
        draw = rng.random(shape)[is_prediction]
        place = rng.integers(len(self._ids), size=shape)[is_prediction]
        share = self._options.mask_token_prob
        is_mask = draw < share  # 80 %
        is_other = draw < share + self._options.random_token_prob  # 10 % more
        masked_ids = input_ids.copy()
        becomes = [self._mask_id, self._ids[place]]
        masked_ids[chosen] = np.select([is_mask, is_other], becomes, labels)
        positions = np.zeros(shape, np.int32)
        label_ids = np.zeros(shape, np.int32)
        positions[is_prediction] = np.nonzero(chosen)[1]
        label_ids[is_prediction] = labels
        weights = is_prediction.astype(np.float32)
        return MaskedRows(masked_ids, positions, label_ids, weights)

    def _choose(
        self,
        input_ids: np.ndarray,
        lengths: np.ndarray,
        rng: np.random.Generator,
    ) -> np.ndarray:
        """Returns whether each token is masked: bool [N, S]."""
        maskable = ~self._is_special[input_ids]
        maskable &= np.arange(input_ids.shape[1]) < lengths[:, None]
        unit = self._units(input_ids, maskable, rng)
        num_units = int(unit.max(initial=-1)) + 1
        if not num_units:
            return maskable
        # Number of tokens of each unit: [N, U].
        places = np.arange(len(unit))[:, None] * num_units + unit
        sizes = np.bincount(places[maskable], minlength=len(unit) * num_units)
        sizes = sizes.reshape(len(unit), num_units)
        # round() is to even, and the count includes the special tokens.
        wanted = np.rint(lengths * self._options.masked_lm_prob).astype(int)
        wanted = wanted.clip(1, self.num_predictions)
        is_chosen = _choose_units(sizes, wanted, rng)
        return maskable & np.take_along_axis(is_chosen, unit.clip(0), axis=1)

    def _units(
        self,
        input_ids: np.ndarray,
        maskable: np.ndarray,
        rng: np.random.Generator,
    ) -> np.ndarray:
        """Numbers the units of each row; a unit is masked as a whole.

        A unit is a wordpiece, a word, or an n-gram of these, without [SEP].
        Returns [N, S]: 0, 1, ... where `maskable`; undefined elsewhere.
        """
        # Differs from the original: the first wordpieces of b are not joined to
        # the last word of a, because a [SEP] is between them.
        follows = np.zeros_like(maskable)
        follows[:, 1:] = maskable[:, :-1]
        starts = maskable & (self._starts_unit[input_ids] | ~follows)
        unit = np.cumsum(starts, axis=1) - 1
        if self._options.max_ngram_size == 1:
            return unit
        # As in ALBERT, runs of 1, 2, ... n words become units, with
        # probabilities in the ratio 1 : 1/2 : ... 1/n.
        num_words = int(unit.max(initial=0)) + 1
        draws = rng.random((len(unit), num_words))
        sizes = 1 + np.searchsorted(self._ngram_bounds, draws, "right")
        ends = np.cumsum(sizes, axis=1)
        width = num_words + ends.max(initial=0) + 1
        is_first = np.zeros((len(unit), width), bool)
        np.put_along_axis(is_first, ends, True, axis=1)
        is_first[:, 0] = True
        is_first = np.take_along_axis(is_first, unit.clip(0), axis=1)
        starts &= ~follows | is_first
        return np.cumsum(starts, axis=1) - 1


def _choose_units(
    sizes: np.ndarray, wanted: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Chooses units in random order and skips those that do not fit.

    `sizes` [N, U] are tokens of each unit, 0 = there is none; `wanted` [N] the
    most tokens of all chosen units. Returns bool [N, U].
    """
    # The keys have the number of the unit in their lowest bits, so that no two
    # are equal: the order of equal keys depends on the processor.
    num_bits = sizes.shape[1].bit_length()
    keys = rng.integers(1 << 40, size=sizes.shape)
    keys[sizes == 0] = 1 << 40  # after all others
    keys = keys << num_bits | np.arange(sizes.shape[1])
    keys.sort(axis=1)
    order = keys & ((1 << num_bits) - 1)
    # One rank at a time for all rows; [U, N] makes a rank's rows contiguous.
    sizes_by_rank = np.take_along_axis(sizes, order, axis=1).T.copy()
    taken_by_rank = np.zeros(sizes_by_rank.shape, bool)
    room = wanted.copy()
    for size, taken in zip(sizes_by_rank, taken_by_rank, strict=True):
        np.logical_and(size > 0, size <= room, out=taken)
        room -= size * taken
        if not room.any():
            break
    taken = np.zeros_like(taken_by_rank.T, order="C")
    np.put_along_axis(taken, order, taken_by_rank.T, axis=1)
    return taken
