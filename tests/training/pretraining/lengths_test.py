"""--group_by_length of run_pretraining.py: the same training, no padding."""

import numpy as np
import pytest

from data.pretraining.data_options import PretrainingDataOptions
from data.records import length_batches
from tests.data.pretraining.support import recipe_of, shard_names, write
from tests.support.pretraining_support import assert_same_checkpoint, train
from tests.training.support import assert_near_weights

_STEPS = 6


@pytest.fixture
def grouped(options):
    """Options of a run without dropout, whose order is by length."""
    return options.replace(
        dropout_prob=0.0,
        group_by_length=True,
        num_train_steps=_STEPS,
        num_warmup_steps=1,
        train_batch_size=4,
        save_checkpoints_steps=_STEPS,
    )


def _record_lengths(monkeypatch):
    """Returns a list to which each trimmed batch adds its length."""
    lengths, trimmed = [], length_batches.trimmed

    def recorded(batches, **options):
        found = trimmed(batches, **options)
        lengths.extend(
            batch["input_ids"].shape[1] for batch in found.take(_STEPS)
        )
        return found

    monkeypatch.setattr(length_batches, "trimmed", recorded)
    return lengths


@pytest.mark.all
@pytest.mark.parametrize("micro_batches", [1, 2])
def test_cut_batches_train_the_weights_of_whole_ones(
    grouped, tmp_path, monkeypatch, micro_batches
):
    grouped = grouped.replace(gradient_accumulation_steps=micro_batches)
    with monkeypatch.context() as patch:
        lengths = _record_lengths(patch)
        cut = train(grouped, tmp_path / "cut")
    assert min(lengths) < max(lengths) <= 64
    with monkeypatch.context() as patch:
        patch.setattr(length_batches, "trimmed", lambda batches, **_: batches)
        whole = train(grouped, tmp_path / "whole")
    # Sums over other numbers of zeros round differently.
    assert_near_weights(cut, whole)
    plain = train(grouped, tmp_path / "plain", group_by_length=False)
    table = "bert/embeddings/word_embeddings"
    assert not np.array_equal(cut[table], plain[table])  # another order


@pytest.mark.all
def test_a_stopped_run_ends_as_an_uninterrupted_one(grouped, goldens, tmp_path):
    # With masks that depend on an example's place in the stream.
    vocab_file = goldens / "vocab.txt"
    corpus = goldens / "pretraining_data/corpus.txt"
    write([corpus], tmp_path, recipe_of(vocab_file, masking="dynamic"), 1)
    (unmasked,) = shard_names(tmp_path, 1)
    grouped = grouped.replace(
        input_file=unmasked,
        vocab_file=str(vocab_file),
        masking=PretrainingDataOptions(
            max_seq_length=64, max_predictions_per_seq=10
        ),
        save_checkpoints_steps=2,
    )
    train(grouped, tmp_path / "whole")
    train(grouped, tmp_path / "stopped", stop_at_step=2)
    train(grouped, tmp_path / "stopped")
    assert_same_checkpoint(tmp_path / "stopped", tmp_path / "whole")


@pytest.mark.parametrize(
    "device", [{"use_tpu": True}, {"distribution_strategy": "tpu"}]
)
def test_a_tpu_needs_one_length(options, device):
    message = "^--group_by_length cuts batches to different lengths, but a TPU"
    with pytest.raises(ValueError, match=message):
        options.replace(group_by_length=True, **device)
