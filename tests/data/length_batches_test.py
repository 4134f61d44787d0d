"""Trimmed and grouped batches: nothing lost, nothing twice, resumable."""

import numpy as np
import pytest
import tensorflow as tf

from data import input_pipeline, length_batches
from data.input_pipeline import WHOLE, Shard
from tests.classifier_support import specs_of, write_records

SEQ_LENGTH = 128


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """67 examples of 1 to 100 wordpieces; the first id is their number."""
    rng = np.random.default_rng(3)
    lengths = rng.integers(1, 101, 67)
    return write_records(tmp_path_factory.mktemp("records"), lengths)


def stream(files, count, **options):
    """Numbers of the next `count` batches' examples, and their lengths."""
    options = {"batch_size": 8, "seed": 5} | options
    batches = length_batches.training_batches(files, **options).take(count)
    found = [
        (b["input_ids"][:, 0].numpy().tolist(), b["input_ids"].shape[1])
        for b in batches
    ]
    numbers, lengths = zip(*found, strict=True)
    return list(numbers), list(lengths)


def test_lengths_are_few_and_end_with_the_window():
    assert length_batches.trimmed_lengths(128) == [
        *(8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128)
    ]
    assert length_batches.trimmed_lengths(512)[-4:] == [320, 384, 448, 512]
    assert length_batches.trimmed_lengths(100)[-2:] == [96, 100]
    assert length_batches.trimmed_lengths(8) == [8]
    assert length_batches.trimmed_lengths(5) == [5]


@pytest.mark.parametrize(
    ("longest", "length"), [(1, 8), (8, 8), (9, 12), (113, 128), (128, 128)]
)
def test_a_batch_is_cut_behind_its_longest_example(longest, length):
    mask = np.zeros((2, 128), np.int32)
    mask[0, :longest] = 1
    mask[1, 0] = 1
    ids = tf.constant(mask * np.arange(128, dtype=np.int32))
    batch = {
        "input_ids": ids,
        "input_mask": tf.constant(mask),
        "segment_ids": tf.zeros_like(ids),
        "label_ids": tf.ones([2, 128], tf.int32),
    }
    cut = length_batches.trim_batch(batch)
    for name in ("input_ids", "input_mask", "segment_ids"):
        np.testing.assert_array_equal(cut[name], batch[name][:, :length])
    # 128 labels, but none of a wordpiece: they stay.
    assert cut["label_ids"].shape == (2, 128)
    tagged = length_batches.trim_batch(batch | {"label_mask": ids})
    assert tagged["label_ids"].shape == (2, length)
    assert tagged["label_mask"].shape == (2, length)


def test_a_hole_in_the_mask_is_not_the_end():
    mask = np.zeros((1, 32), np.int32)
    mask[0, [0, 19]] = 1
    batch = dict.fromkeys(
        ("input_ids", "input_mask", "segment_ids"), tf.constant(mask)
    )
    assert length_batches.trim_batch(batch)["input_ids"].shape == (1, 20)


def test_choices_are_cut_alike():
    rows = np.zeros((2, 3, 32), np.int32)
    rows[1, 2, :9] = 7
    batch = dict.fromkeys(
        ("input_ids", "segment_ids"), tf.constant(rows.reshape(2, 96))
    )
    batch["input_mask"] = tf.constant(np.sign(rows).reshape(2, 96))
    cut = length_batches.trim_batch(batch, num_choices=3)
    np.testing.assert_array_equal(
        cut["input_ids"], rows[:, :, :12].reshape(2, 36)
    )


@pytest.mark.parametrize("group", [False, True])
@pytest.mark.parametrize("batch_size", [8, 100])
def test_each_pass_holds_every_example_once(files, group, batch_size):
    numbers, _ = stream(
        files,
        -(-3 * 67 // batch_size),
        batch_size=batch_size,
        group_by_length=group,
    )
    assert {len(batch) for batch in numbers} == {batch_size}
    passes = np.concatenate(numbers)[: 3 * 67].reshape(3, 67)
    for one in passes:
        assert sorted(one) == list(range(67))
    assert (passes[0] != passes[1]).any()
    assert (passes[1] != passes[2]).any()


def test_grouped_batches_are_shorter_and_in_no_order(files):
    _, plain = stream(files, 40)
    _, grouped = stream(files, 40, group_by_length=True)
    assert sum(grouped) < 0.75 * sum(plain)
    assert grouped[:8] != sorted(grouped[:8])
    assert grouped[:8] != sorted(grouped[:8], reverse=True)


def test_a_batch_over_the_end_of_a_pass_breaks_no_other(files):
    # 67 = 8 * 8 + 3: batch 8 holds 3 of the first pass and 5 of the second;
    # those before and behind it are alike in length.
    needed = example_lengths(files)
    numbers, _ = stream(files, 17, group_by_length=True)
    spread = [np.ptp(needed[batch]) for batch in numbers]
    assert max(spread[:8] + spread[9:16]) <= 25 < spread[8]


def example_lengths(files):
    """Wordpieces of each example, in file order."""
    (batch,) = input_pipeline.evaluation_batches(
        files, batch_size=files.count
    ).take(1)
    return batch["input_mask"].numpy().sum(axis=1)


@pytest.mark.parametrize("group", [False, True])
@pytest.mark.parametrize("seen", [0, 72, 400])
def test_any_batch_can_be_resumed_at(files, group, seen):
    whole, _ = stream(files, seen // 8 + 20, group_by_length=group)
    resumed, _ = stream(files, 20, group_by_length=group, first_example=seen)
    assert resumed == whole[seen // 8 :]


def test_the_order_depends_on_the_seed_alone(files):
    first, same, other = (
        stream(files, 20, group_by_length=True, seed=seed)[0]
        for seed in (1, 1, 2)
    )
    assert first == same != other


def test_untrimmed_batches_have_one_static_shape(files):
    for batches in (
        length_batches.training_batches(
            files, batch_size=8, seed=1, trim=False, group_by_length=True
        ),
        length_batches.all_examples(files, batch_size=8, trim=False),
    ):
        shape = batches.element_spec["input_ids"].shape
        assert shape == (8, SEQ_LENGTH)


def test_the_originals_window_is_an_option(files):
    numbers, _ = stream(files, 8, shuffle_window=1)
    assert np.concatenate(numbers).tolist() == list(range(64))
    numbers, _ = stream(files, 8, shuffle_window=4)
    # An example comes at most 3 places early.
    assert (np.concatenate(numbers) - np.arange(64)).max() <= 3


def test_every_example_is_evaluated_once_about_the_longest_first(files):
    batches = list(length_batches.all_examples(files, batch_size=3))
    assert len(batches) == length_batches.num_batches(files, batch_size=3)
    rows, lengths = zip(*(b["input_ids"].shape for b in batches), strict=True)
    # As many as make no more wordpieces than 3 of the longest.
    for count, length in zip(rows, lengths, strict=True):
        assert count % 3 == 0
        assert count * length <= 3 * SEQ_LENGTH
    assert max(rows) > 3
    assert lengths[0] > np.median(lengths)
    joined = {
        name: np.concatenate([b[name][:, 0] for b in batches])
        for name in ("example_index", "is_real_example", "input_ids")
    }
    real = joined["is_real_example"] == 1
    assert sorted(joined["example_index"][real]) == list(range(67))
    np.testing.assert_array_equal(joined["input_ids"], joined["example_index"])
    # Fillers are fewer than 3 in a batch, and are its first example again.
    for batch in batches:
        places = batch["example_index"].numpy()
        fillers = batch["is_real_example"].numpy() == 0
        assert np.count_nonzero(fillers) < 3
        assert set(places[fillers]) <= {places[0, 0]}


def test_untrimmed_evaluation_is_in_file_order(files):
    batches = list(length_batches.all_examples(files, batch_size=8, trim=False))
    assert length_batches.num_batches(files, batch_size=8, trim=False) == 9
    real = np.concatenate([b["is_real_example"][:, 0] for b in batches])
    assert real.tolist() == [1] * 67 + [0] * 5
    places = np.concatenate([b["example_index"][:, 0] for b in batches])
    assert places[:67].tolist() == list(range(67))


@pytest.mark.parametrize("group", [False, True])
def test_workers_train_on_the_rows_of_one(files, group):
    whole, _ = stream(files, 20, group_by_length=group, first_example=40)
    parts = [
        stream(files, 20, group_by_length=group, first_example=40, shard=shard)[
            0
        ]
        for shard in (Shard(0, 2), Shard(1, 2))
    ]
    assert [a + b for a, b in zip(*parts, strict=True)] == whole


def test_a_worker_groups_the_examples_of_its_own_files(tmp_path):
    paths = []
    for i, count in enumerate((30, 37)):
        folder = tmp_path / str(i)
        folder.mkdir()
        lengths = np.random.default_rng(i).integers(1, 101, count)
        paths += write_records(folder, lengths).paths
    files = input_pipeline.open_records(
        paths, specs_of("classification", 128, 2), limits={}
    )
    numbers, lengths = stream(
        files, 2 * 37, batch_size=2, shard=Shard(1, 2), group_by_length=True
    )
    for one in np.reshape(numbers, (2, 37)):
        assert sorted(one) == [*range(37)]
    resumed, _ = stream(
        files,
        30,
        batch_size=2,
        shard=Shard(1, 2),
        group_by_length=True,
        first_example=2 * 44,
    )
    assert resumed == numbers[44:]


@pytest.mark.parametrize("trim", [False, True])
def test_workers_evaluate_the_rows_of_one(files, trim):
    def batches(shard):
        return list(
            length_batches.all_examples(
                files, batch_size=8, trim=trim, shard=shard
            )
        )

    parts = [batches(Shard(i, 4)) for i in range(4)]
    for whole, *rows in zip(batches(WHOLE), *parts, strict=True):
        for name, expected in whole.items():
            # Joined as they are: of one length, and cut in order.
            joined = np.concatenate([row[name] for row in rows])
            np.testing.assert_array_equal(joined, expected)


def test_a_worker_has_static_rows(files):
    shard = Shard(1, 4)
    for batches in (
        length_batches.training_batches(
            files, batch_size=8, seed=1, shard=shard
        ),
        length_batches.all_examples(
            files, batch_size=8, trim=False, shard=shard
        ),
    ):
        assert batches.element_spec["input_ids"].shape[0] == 2
