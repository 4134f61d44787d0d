"""Pretraining on records of --next_sentence_prediction=false."""

import numpy as np
import pytest
import tensorflow as tf

from data.pretraining.exact.in_memory import write_pretraining_data
from data.records import feature_spec, reading, tfrecord
from modeling import checkpoints
from tests.data.pretraining.support import recipe_of
from tests.support.pretraining_support import RECORDS, read_all, refused
from tests.support.records_support import write_examples
from tests.support.run_files import points_in, results_in
from tests.support.tiers import rare
from training.runs import pretraining

UNREAD = ("bert/pooler/", "cls/seq_relationship/")
SPECS = feature_spec.pretraining_features(64, 10)


@pytest.fixture(scope="module")
def no_pairs(goldens, tmp_path_factory):
    """Records of the golden corpus without pairs."""
    path = tmp_path_factory.mktemp("no_pairs") / "no_pairs.tf_record"
    options = {"dupe_factor": 5, "next_sentence_prediction": False}
    write_pretraining_data(
        [str(goldens / "pretraining_data/corpus.txt")],
        [str(path)],
        recipe_of(goldens / "vocab.txt", **options),
    )
    return path


def relabelled(path, source, labels):
    """Writes the records of `source` again, with other labels in turn."""
    rows = list(tfrecord.read_records(str(source)))
    columns = reading.parse_batch(SPECS, rows)
    columns = {name: values.numpy() for name, values in columns.items()}
    columns["next_sentence_labels"] = np.resize(labels, (len(rows), 1))
    return write_examples(path, SPECS, columns)


def run(options, output_dir, input_file, num_steps=4, **changes):
    """Trains on records; the last checkpoint."""
    changes |= {"output_dir": str(output_dir), "num_train_steps": num_steps}
    pretraining.run(options.replace(input_file=str(input_file), **changes))
    return read_all(output_dir / f"model.ckpt-{num_steps}")


def test_the_original_reads_the_records_and_its_pair_loss_is_0(no_pairs):
    # name_to_features and get_next_sentence_output of run_pretraining.py.
    ints = {"input_ids": 64, "input_mask": 64, "segment_ids": 64}
    ints |= {"masked_lm_positions": 10, "masked_lm_ids": 10}
    features = {
        name: tf.io.FixedLenFeature([length], tf.int64)
        for name, length in {**ints, "next_sentence_labels": 1}.items()
    }
    features["masked_lm_weights"] = tf.io.FixedLenFeature([10], tf.float32)
    for record in tf.data.TFRecordDataset(str(no_pairs)):
        example = tf.io.parse_single_example(record, features)
        label = tf.cast(example["next_sentence_labels"], tf.int32)
        one_hot = tf.one_hot(label, depth=2, dtype=tf.float32)
        assert label.numpy() == [-1]
        assert tf.reduce_sum(one_hot * [[-0.3, -1.4]]) == 0.0


def assert_only_pairs_stay(saved, init):
    """Asserts that a checkpoint of one layer is whole, and what has moved."""
    further = ("bert/encoder/layer_1", "bert/encoder/layer_2")
    names = {
        name
        for name in init
        if checkpoints.tf1.is_weight(name) and not name.startswith(further)
    }
    # All variables and slots are there, for the original to resume with.
    assert set(saved) == {"global_step"} | {
        name + slot for name in names for slot in ("", "/adam_m", "/adam_v")
    }
    for name in names:
        same = np.array_equal(saved[name], init[name])
        assert same == name.startswith(UNREAD), name
        if name.startswith(UNREAD):
            assert not saved[f"{name}/adam_m"].any()
            assert not saved[f"{name}/adam_v"].any()


@pytest.mark.parametrize(
    ("optimizer", "accumulation"), [("adamw", 1), rare("lamb", 2)]
)
def test_masked_lm_alone_is_trained_and_measured(
    goldens, tmp_path, options, no_pairs, accumulation, optimizer
):
    out = tmp_path / "out"
    saved = run(
        options,
        out,
        no_pairs,
        gradient_accumulation_steps=accumulation,
        optimizer=optimizer,
        eval_every_steps=2,
        log_steps=1,
        learning_rate=1e-2,  # large enough for decay to show
        do_eval=True,
        eval_file=str(no_pairs),
        max_eval_steps=2,
        eval_batch_size=8,
        strip_checkpoint=True,
    )
    assert_only_pairs_stay(saved, read_all(goldens / "model/init"))
    stripped = checkpoints.Checkpoint(str(out / "bert_model.ckpt"))
    weights = set(filter(checkpoints.tf1.is_weight, saved))
    assert stripped.shapes.keys() == weights
    measured = {"loss", "masked_lm_accuracy", "masked_lm_loss"}
    assert set(results_in(out)) == {"global_step", *measured}
    assert results_in(out)["global_step"] == 4
    points = {(step, tag) for step in (2, 4) for tag in measured}
    assert points_in(out / "eval") == points
    tags = {tag for _, tag in points_in(out)}
    assert measured <= tags
    assert not [tag for tag in tags if "next_sentence" in tag]


@pytest.mark.all
def test_a_run_may_change_from_pairs_to_none_and_back(
    goldens, tmp_path, options, no_pairs
):
    out = tmp_path / "out"
    pairs = goldens / RECORDS
    num_records = sum(1 for _ in tfrecord.read_records(str(pairs)))
    few = tmp_path / "few.tf_record"
    with tf.io.TFRecordWriter(str(few)) as writer:
        rows = list(tfrecord.read_records(str(no_pairs)))
        for i in range(num_records):  # as many, or the run is refused
            writer.write(rows[i % len(rows)])
    first = run(options, out, pairs, 2)
    second = run(options, out, few, 4)
    third = run(options, out, pairs, 6)
    for name, value in first.items():
        if name.startswith(UNREAD):
            np.testing.assert_array_equal(second[name], value, err_msg=name)
            assert not np.array_equal(third[name], value), name


def test_files_that_disagree_are_refused(goldens, tmp_path, options, no_pairs):
    pairs = goldens / RECORDS
    message = f"^{pairs} holds records that are sentence pairs, {no_pairs} .*"
    message += "the same --next_sentence_prediction"
    refused(options, message, input_file=f"{pairs},{no_pairs}")
    mixed = relabelled(tmp_path / "mixed.tf_record", pairs, [-1, -1, 0, 1])
    refused(options, f"{mixed} holds records that are", input_file=mixed)
    refused(
        options,
        rf"^the records of --eval_file \({pairs}\) are sentence pairs, "
        rf"but those of --input_file \({no_pairs}\) are none",
        input_file=str(no_pairs),
        eval_file=str(pairs),
        do_eval=True,
    )


@pytest.mark.all
def test_an_untrained_head_is_not_asked_about_pairs(
    goldens, tmp_path, options, no_pairs, capsys
):
    queries = tmp_path / "queries.txt"
    queries.write_text("the [MASK] was old .\na sailor . ||| the mill .\n")
    options = options.replace(
        init_checkpoint=None,
        input_file=str(no_pairs),
        vocab_file=str(goldens / "vocab.txt"),
    )
    asked = options.replace(do_predict=True, predict_file=str(queries))
    message = (
        r"^--predict_file asks about a pair .'a sailor . \|\|\| the mill .'.,"
        " .* untrained .*Remove the pairs, or give a checkpoint trained on"
    )
    refused(asked, message)  # before training
    pretraining.run(options)
    refused(asked, message, num_train_steps=6)  # before going on
    refused(asked, message, do_train=False)
    queries.write_text("the [MASK] was old .\n")
    pretraining.run(asked.replace(do_train=False))
    assert "masks" in capsys.readouterr().out
