"""Files of runs and of records, without the code of runs."""

import json

import tensorflow as tf


def write_messages(path, examples):
    """Writes messages to a file of records."""
    with tf.io.TFRecordWriter(str(path)) as writer:
        for example in examples:
            writer.write(example.SerializeToString())


def examples_in(path):
    """The records of a file as messages."""
    records = tf.data.TFRecordDataset(str(path)).as_numpy_iterator()
    return [tf.train.Example.FromString(record) for record in records]


def rows_in(path):
    """Of each record of a file: the values by feature, as lists."""
    return [
        {
            name: list(values.int64_list.value or values.float_list.value)
            for name, values in example.features.feature.items()
        }
        for example in examples_in(path)
    ]


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


def contents_of(folder):
    """Name -> bytes of each file of a folder."""
    files = (path for path in folder.iterdir() if path.is_file())
    return {path.name: path.read_bytes() for path in files}


def json_lines_in(path):
    """The values of a file of JSON lines."""
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def write_json_lines(path, rows):
    """Writes a value on each line."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


def cells_in(path):
    """The lines of a table whose cells are divided by tabs."""
    return [line.split("\t") for line in path.read_text("utf-8").splitlines()]
