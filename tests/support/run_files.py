"""Files that runs read and write, without the code of runs."""

import tensorflow as tf

from data.records import feature_spec


def write_columns(path, specs, columns):
    """Writes a file of records; returns the path."""
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in feature_spec.encode_examples(specs, columns):
            writer.write(record)
    return str(path)


def write_examples(path, examples):
    """Writes messages to a file of records."""
    with tf.io.TFRecordWriter(str(path)) as writer:
        for example in examples:
            writer.write(example.SerializeToString())


def examples_in(path):
    """The records of a file as messages."""
    records = tf.data.TFRecordDataset(str(path)).as_numpy_iterator()
    return [tf.train.Example.FromString(record) for record in records]


def results_in(folder):
    """Name -> number of eval_results.txt."""
    lines = (folder / "eval_results.txt").read_text("utf-8").splitlines()
    return {name: float(x) for name, x in (v.split(" = ") for v in lines)}


def points_in(folder):
    """(step, tag) of everything that TensorBoard shows of a folder."""
    return {
        (event.step, value.tag)
        for path in folder.glob("events*")
        for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator()
        for event in [tf.compat.v1.Event.FromString(record)]
        for value in event.summary.value
    }
