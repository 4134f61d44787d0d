import hypothesis
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies

from data.finetuning.feature_options import feature_specs
from data.records import input_pipeline, length_batches
from data.records.input_pipeline import WHOLE, Shard
from tests.support.classifier_support import write_records
from tests.support.tiers import rare

SEQ_LENGTH = 128


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """67 examples of 1 to 100 wordpieces; the first id is their number."""
    lengths = np.random.default_rng(3).integers(1, 101, 67)
    return write_records(tmp_path_factory.mktemp("records"), lengths)


def stream(files, count, **options):
    """Numbers of the next `count` batches' examples, and their lengths."""
    options = {"batch_size": 8, "seed": 5, "trim": {}} | options
    batches = length_batches.training_batches(files, **options).take(count)
    found = [
        (b["input_ids"][:, 0].numpy().tolist(), b["input_ids"].shape[1])
        for b in batches
    ]
    numbers, lengths = zip(*found, strict=True)
    return list(numbers), list(lengths)


def test_lengths_are_few_and_end_with_the_window():
    assert length_batches.trimmed_lengths(128) == [
        *(8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32),
        *(36, 40, 44, 48, 52, 56, 60, 64, 72, 80, 88, 96, 104, 112, 120, 128),
    ]
    assert length_batches.trimmed_lengths(512)[-4:] == [416, 448, 480, 512]
    assert length_batches.trimmed_lengths(100)[-2:] == [96, 100]
    assert length_batches.trimmed_lengths(8) == [8]
    assert length_batches.trimmed_lengths(5) == [5]


def batch_of(mask):
    """A batch whose ids are 1 where there is a wordpiece."""
    names = ("input_ids", "input_mask", "segment_ids")
    return dict.fromkeys(names, tf.constant(mask))


@pytest.mark.parametrize(
    ("longest", "length"), [(1, 8), (8, 8), (9, 10), (113, 120), (128, 128)]
)
def test_a_batch_is_cut_behind_its_longest_example(longest, length):
    mask = np.zeros((2, 128), np.int32)
    mask[0, :longest] = 1
    mask[1, 0] = 1
    ids = tf.constant(mask * np.arange(128, dtype=np.int32))
    labels = {"label_ids": tf.ones([2, 128], tf.int32)}
    batch = batch_of(mask) | {"input_ids": ids} | labels
    for exact, expected in (False, length), (True, longest):
        cut = length_batches.trim_batch(batch, exact=exact)
        for name in ("input_ids", "input_mask", "segment_ids"):
            np.testing.assert_array_equal(cut[name], batch[name][:, :expected])
        # 128 labels, but none of a wordpiece: they stay.
        assert cut["label_ids"].shape == (2, 128)
        tagged = batch | {"label_mask": ids}
        cut = length_batches.trim_batch(tagged, exact=exact)
        assert cut["label_ids"].shape == (2, expected)
        assert cut["label_mask"].shape == (2, expected)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize(
    ("longest", "length"), [(1, 8), (8, 8), (9, 16), (66, 72), (97, 100)]
)
def test_a_gpu_gets_multiples_of_eight_and_the_window(longest, exact, length):
    mask = np.zeros((2, 100), np.int32)
    mask[1, :longest] = 1
    cut = length_batches.trim_batch(batch_of(mask), exact=exact, multiple=8)
    assert cut["input_ids"].shape == (2, length)
    lengths = length_batches.trimmed_lengths(100, 8)
    assert lengths == [8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 100]


@pytest.mark.parametrize("exact", [False, True])
def test_a_hole_in_the_mask_is_not_the_end(exact):
    mask = np.zeros((1, 32), np.int32)
    mask[0, [0, 19]] = 1
    cut = length_batches.trim_batch(batch_of(mask), exact=exact)
    assert cut["input_ids"].shape == (1, 20)


@pytest.mark.parametrize(("exact", "length"), [(False, 10), (True, 9)])
def test_choices_are_cut_alike(exact, length):
    rows = np.zeros((2, 3, 32), np.int32)
    rows[1, 2, :9] = 1
    batch = batch_of(rows.reshape(2, 96))
    cut = length_batches.trim_batch(batch, num_choices=3, exact=exact)
    np.testing.assert_array_equal(
        cut["input_ids"], rows[:, :, :length].reshape(2, 3 * length)
    )


@pytest.mark.parametrize("group", [False, True])
@pytest.mark.parametrize("batch_size", [8, rare(100)])
def test_each_pass_holds_every_example_once(files, group, batch_size):
    options = {"batch_size": batch_size, "group_by_length": group}
    numbers, _ = stream(files, -(-3 * 67 // batch_size), **options)
    assert {len(batch) for batch in numbers} == {batch_size}
    passes = np.concatenate(numbers)[: 3 * 67].reshape(3, 67)
    for one in passes:
        assert sorted(one) == list(range(67))
    assert (passes[0] != passes[1]).any()
    assert (passes[1] != passes[2]).any()
    assert stream(files, len(numbers), seed=6, **options)[0] != numbers


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


def test_large_batches_are_grouped_within_fewer(files, monkeypatch):
    in_order = {"group_by_length": False, "shuffle_window": 1}
    plain, _ = stream(files, 8, **in_order)
    monkeypatch.setattr(length_batches, "_EXAMPLES_OF_WINDOW", 20)
    grouped, _ = stream(files, 8, **in_order | {"group_by_length": True})
    # Windows of 20 // 8 = 2 batches.
    for first in range(0, 8, 2):
        window = slice(first, first + 2)
        assert sorted(sum(grouped[window], [])) == sum(plain[window], [])
    assert grouped != plain


def test_exact_batches_are_the_same_without_padding(files):
    needed = example_lengths(files)
    exact, lengths = stream(files, 20, trim={"exact": True})
    assert exact == stream(files, 20)[0]
    assert lengths == [needed[batch].max() for batch in exact]


def example_lengths(files):
    """Wordpieces of each example, in file order."""
    (batch,) = input_pipeline.evaluation_batches(
        files, batch_size=files.count
    ).take(1)
    return batch["input_mask"].numpy().sum(axis=1)


@pytest.mark.parametrize("seen", [72, rare(400)])
def test_any_batch_can_be_resumed_at(files, seen):
    whole, _ = stream(files, seen // 8 + 20, group_by_length=True)
    resumed, _ = stream(files, 20, group_by_length=True, first_example=seen)
    assert resumed == whole[seen // 8 :]


@pytest.mark.parametrize(("shard", "rows"), [(WHOLE, 8), (Shard(1, 4), 2)])
def test_untrimmed_batches_have_one_static_shape(files, shard, rows):
    options = {"batch_size": 8, "shard": shard}
    batches = length_batches.training_batches(
        files, seed=1, group_by_length=True, **options
    )
    assert batches.element_spec["input_ids"].shape == (rows, SEQ_LENGTH)
    batches = length_batches.all_examples(files, trim=False, **options)
    assert batches.element_spec["input_ids"].shape == (rows, SEQ_LENGTH)
    trimmed = length_batches.training_batches(files, seed=1, trim={}, **options)
    assert trimmed.element_spec["input_ids"].shape[0] == rows


def test_the_originals_window_is_an_option(files):
    numbers, _ = stream(files, 8, shuffle_window=1)
    assert np.concatenate(numbers).tolist() == list(range(64))
    numbers, _ = stream(files, 8, shuffle_window=4)
    # An example comes at most 3 places early.
    assert (np.concatenate(numbers) - np.arange(64)).max() <= 3


def cut_one_by_one(lengths, batch_size):
    """Places of the examples in each batch of an evaluation."""
    rest = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    while rest:
        longest = lengths[rest[0]]
        batch = []
        while (
            rest
            and len(batch) < SEQ_LENGTH // longest * batch_size
            and (
                len(batch) % batch_size  # to be completed
                or 100 * lengths[rest[0]] >= 85 * longest
            )
        ):
            batch.append(rest.pop(0))
        yield batch


@hypothesis.given(
    strategies.lists(strategies.integers(1, SEQ_LENGTH), min_size=1),
    strategies.integers(1, 5),
)
@hypothesis.example([1] * 300, 2)
def test_the_first_of_a_batch_decides_how_many_follow(lengths, batch_size):
    cuts = length_batches._cuts(
        tf.constant(sorted(lengths, reverse=True)), batch_size, SEQ_LENGTH
    )
    batches = list(cut_one_by_one(lengths, batch_size))
    assert cuts[0] == 0
    assert np.diff(cuts).tolist() == [len(batch) for batch in batches]


@pytest.mark.parametrize(
    ("batch_size", "at_once"), [(1, 67), (3, 1000), (8, 30), (100, 67)]
)
def test_every_example_is_evaluated_once_without_padding(
    files, batch_size, at_once, monkeypatch
):
    monkeypatch.setattr(length_batches, "_SORTED_AT_ONCE", at_once)
    needed = example_lengths(files)
    expected = [
        [start + place for place in batch]
        for start in range(0, 67, at_once)
        for batch in cut_one_by_one(needed[start : start + at_once], batch_size)
    ]
    batches = list(length_batches.all_examples(files, batch_size=batch_size))
    for batch, real in zip(batches, expected, strict=True):
        # Copies of the first fill it up.
        missing = -len(real) % batch_size
        places = real + missing * real[:1]
        assert batch["example_index"][:, 0].numpy().tolist() == places
        np.testing.assert_array_equal(batch["input_ids"][:, 0], places)
        assert batch["is_real_example"][:, 0].numpy().tolist() == (
            [1] * len(real) + [0] * missing
        )
        # As long as the first; no more than B of the longest possible.
        assert batch["input_mask"].shape == (len(places), needed[real[0]])
        assert len(places) * needed[real[0]] <= batch_size * SEQ_LENGTH


def test_the_longest_choice_decides(tmp_path):
    sizes = {"seq_length": 32, "num_labels": 3}
    files = write_records(tmp_path, [12, 30] + [12] * 5, kind="choice", **sizes)
    options = {"batch_size": 2, "num_choices": 3}
    batches = list(length_batches.all_examples(files, **options))
    # Example 0 completes the batch of example 1, which alone is long.
    shapes = [batch["input_ids"].shape for batch in batches]
    assert shapes == [(2, 3 * 30), (4, 3 * 12), (2, 3 * 12)]
    assert batches[0]["example_index"][:, 0].numpy().tolist() == [1, 0]


def test_examples_of_no_wordpiece_are_kept(tmp_path):
    # The original fills prediction records for a TPU up with such.
    files = write_records(tmp_path, [0, 0, 0, 7, 0, 0])
    batches = list(length_batches.all_examples(files, batch_size=2))
    assert [batch["input_ids"].shape for batch in batches] == [(2, 7), (4, 1)]
    places = np.concatenate([b["example_index"][:, 0] for b in batches])
    assert places.tolist() == [3, 0, 1, 2, 4, 5]


def test_untrimmed_evaluation_is_in_file_order(files):
    batches = list(length_batches.all_examples(files, batch_size=8, trim=False))
    real = np.concatenate([b["is_real_example"][:, 0] for b in batches])
    assert real.tolist() == [1] * 67 + [0] * 5
    places = np.concatenate([b["example_index"][:, 0] for b in batches])
    assert places[:67].tolist() == list(range(67))


def test_workers_train_on_the_rows_of_one(files):
    options = {"group_by_length": True, "first_example": 40}
    whole, _ = stream(files, 20, **options)
    first, second = (
        stream(files, 20, shard=Shard(i, 2), **options)[0] for i in (0, 1)
    )
    assert [a + b for a, b in zip(first, second, strict=True)] == whole


def test_a_worker_groups_the_examples_of_its_own_files(tmp_path):
    paths = []
    for i, count in enumerate((30, 37)):
        folder = tmp_path / str(i)
        folder.mkdir()
        lengths = np.random.default_rng(i).integers(1, 101, count)
        paths += write_records(folder, lengths).paths
    specs = feature_specs("classification", SEQ_LENGTH, 2)
    files = input_pipeline.open_records(paths, specs, limits={})
    options = {"shard": Shard(1, 2), "batch_size": 2, "group_by_length": True}
    numbers, _ = stream(files, 2 * 37, **options)
    for one in np.reshape(numbers, (2, 37)):
        assert sorted(one) == [*range(37)]
    resumed, _ = stream(files, 30, first_example=2 * 44, **options)
    assert resumed == numbers[44:]


@pytest.mark.parametrize("trim", [False, True])
def test_workers_evaluate_the_rows_of_one(files, trim):
    def batches(shard):
        options = {"batch_size": 8, "trim": trim, "shard": shard}
        return list(length_batches.all_examples(files, **options))

    parts = [batches(Shard(i, 4)) for i in range(4)]
    for whole, *rows in zip(batches(WHOLE), *parts, strict=True):
        for name, expected in whole.items():
            # Joined as they are: of one length, and cut in order.
            joined = np.concatenate([row[name] for row in rows])
            np.testing.assert_array_equal(joined, expected)
