import numpy as np
import pytest

from data.finetuning.feature_options import TextFeatures
from data.finetuning.records import make_records
from data.records import input_pipeline
from data.records.distinct_batches import DistinctBatches, distinct_order
from data.records.shard import WHOLE, Shard
from data.tasks.examples import TextExample

LENGTH = 8
VOCAB = [*"[PAD] [UNK] [CLS] [SEP] ? .".split(), *map(str, range(40))]


class Questions:
    """40 questions about 9 texts."""

    def examples(self, set_name):
        for i in range(40):
            yield TextExample((f"{i} ?", f"{i % 9} ."))


@pytest.fixture(scope="module")
def files(tmp_path_factory, tokenizer):
    path = str(tmp_path_factory.mktemp("records") / "train.tf_record")
    features = TextFeatures(labels=("a", "b"), max_seq_length=LENGTH)
    make_records(Questions(), "train", path, tokenizer, features)
    return input_pipeline.open_records([path], features.specs, limits={})


def opened(files, batch_size=6, seed=3):
    return DistinctBatches(files, num_texts=2, batch_size=batch_size, seed=seed)


def ids_of(batches, first_example, count, shard=WHOLE):
    stream = batches.dataset(first_example, shard).take(count)
    return [batch["input_ids"].numpy() for batch in stream]


@pytest.mark.parametrize("batch_size", [2, 7, 9])
def test_no_key_is_twice_in_a_batch_and_no_example_twice_in_a_pass(batch_size):
    rng = np.random.default_rng(0)
    keys = np.stack([np.arange(500), 1000 + rng.integers(0, 30, 500)], axis=1)
    order = distinct_order(keys, batch_size, rng)
    assert len(set(order.ravel().tolist())) == order.size > 450
    for batch in order:
        assert len(np.unique(keys[batch])) == 2 * batch_size


def test_a_key_in_another_column_counts_too():
    keys = np.array([[0, 1], [1, 2], [3, 4], [5, 6]])
    for seed in range(20):
        order = distinct_order(keys, 2, np.random.default_rng(seed))
        assert {0, 1} not in [{*batch} for batch in order.tolist()]


def test_equal_texts_are_found_in_records(files):
    for ids in ids_of(opened(files), 0, 20):
        texts = ids.reshape(-1, LENGTH)
        assert len(np.unique(texts, axis=0)) == len(texts) == 12


def test_a_resumed_stream_goes_on_and_passes_differ(files):
    whole = ids_of(opened(files), 0, 20)
    np.testing.assert_array_equal(ids_of(opened(files), 11 * 6, 9), whole[11:])
    assert not np.array_equal(whole[0], whole[len(opened(files)._pass(0))])
    assert not np.array_equal(ids_of(opened(files, seed=4), 0, 1)[0], whole[0])


def test_workers_share_each_batch(files):
    whole = ids_of(opened(files), 0, 4)
    parts = [ids_of(opened(files), 0, 4, Shard(i, 2)) for i in (0, 1)]
    joined = [np.concatenate(pair) for pair in zip(*parts, strict=True)]
    np.testing.assert_array_equal(joined, whole)


def test_a_batch_larger_than_the_distinct_texts_is_refused(files):
    with pytest.raises(ValueError, match=r"--train_batch_size=10.* 49 dist"):
        opened(files, batch_size=10)
