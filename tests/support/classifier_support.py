"""Small record files and models for the tests of fine-tuning."""

import numpy as np

from data.finetuning.feature_options import feature_specs
from data.records import input_pipeline
from tests.support.records_support import write_examples
from tests.support.run_files import write_json_lines


def columns_of(kind, lengths, *, seq_length, num_labels):
    """Random examples of some lengths, name -> array [N, length].

    The first id of an example is its number.
    """
    rng = np.random.default_rng(len(lengths))
    count = len(lengths)
    choices = num_labels if kind == "choice" else 1
    # The first choice is as long as the example, the others not longer.
    needed = np.stack(
        [lengths, *rng.integers(1, np.add(lengths, 1), (choices - 1, count))],
        axis=1,
    )
    places = np.arange(seq_length)
    mask = (places < needed[..., None]).astype(np.int64)
    ids = rng.integers(5, 1200, mask.shape) * mask
    ids[:, 0, 0] = np.arange(count)
    segments = (places >= needed[..., None] // 2) * mask
    inputs = {"input_ids": ids, "input_mask": mask, "segment_ids": segments}
    columns = {name: x.reshape(count, -1) for name, x in inputs.items()}
    if kind == "regression":
        columns["label_ids"] = rng.uniform(0, 5, (count, 1))
    elif kind == "multilabel":
        columns["label_ids"] = rng.integers(0, 2, (count, num_labels))
    elif kind == "tagging":
        columns["label_ids"] = rng.integers(0, num_labels, (count, seq_length))
        drawn = rng.integers(0, 2, (count, seq_length))
        columns["label_mask"] = drawn * columns["input_mask"]
    else:
        columns["label_ids"] = rng.integers(0, num_labels, (count, 1))
    return columns | {"is_real_example": np.ones((count, 1), np.int64)}


def write_records(
    folder, lengths, *, kind="classification", seq_length=128, num_labels=2
):
    """Writes random examples of some lengths to a file of `folder`."""
    specs = feature_specs(kind, seq_length, num_labels)
    columns = columns_of(
        kind, lengths, seq_length=seq_length, num_labels=num_labels
    )
    path = write_examples(folder / f"{kind}.tf_record", specs, columns)
    return input_pipeline.open_records([path], specs, limits={})


def open_golden(goldens, task, split):
    """The original's records of a task: CoLA, MRPC or MNLI."""
    return input_pipeline.open_records(
        [str(goldens / f"classifier/{task}/expected/{split}.tf_record")],
        feature_specs("classification", 64, 3 if task == "MNLI" else 2),
        limits={},
    )


WORDS = ["old", "the", "mill", "river", "snow", "town"]


def rows_of(kind, count):
    """A table of a kind, as JSON lines; what is right depends on the text."""
    rng = np.random.default_rng(count)
    for _ in range(count):
        words = rng.choice(WORDS, 6).tolist()
        number = words.count("mill")
        yield {
            "single": {"text": " ".join(words), "label": f"l{number % 2}"},
            "pair": {
                "text_a": " ".join(words[:3]),
                "text_b": " ".join(words[3:]),
                "label": "x" if number else "y",
            },
            "regression": {"text": " ".join(words), "label": number / 2},
            "multilabel": {
                "text": " ".join(words),
                "label": ",".join(sorted({*words} & {"mill", "snow"})),
            },
            "choice": {
                "text": words[0],
                "endings": words[1:4],
                "label": number % 3,
            },
            "tagging": {
                "words": words,
                "label": ["B-M" if w == "mill" else "O" for w in words],
            },
        }[kind]


def _write_set(folder, name, rows):
    """Writes a set as JSON lines; the test set has no labels."""
    if name == "test":
        rows = [{k: v for k, v in x.items() if k != "label"} for x in rows]
    write_json_lines(folder / f"{name}.jsonl", rows)


def write_table(folder, kind):
    """Three sets of `rows_of` a kind."""
    folder.mkdir()
    for name, count in (("train", 24), ("dev", 9), ("test", 7)):
        _write_set(folder, name, rows_of(kind, count))


def write_texts(folder, texts):
    """The same texts as three sets, with two labels in turn."""
    folder.mkdir()
    rows = [{"text": x, "label": f"l{i % 2}"} for i, x in enumerate(texts)]
    for name in "train", "dev", "test":
        _write_set(folder, name, rows)
