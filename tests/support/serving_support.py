"""A finished output_dir of each kind of task, without training."""

import dataclasses
import json

import keras
import numpy as np
import tensorflow as tf

from data.finetuning import features
from data.finetuning.feature_options import feature_specs
from data.records.feature_spec import encode_examples
from data.tasks import ChoiceExample, InputExample, TaggingExample
from data.text.packing import INPUTS
from data.text.tokenization import FullTokenizer
from data.text.vocabulary import load_vocab
from modeling import BertConfig, SpanModel, TaskModel
from tests.support import fork_server, rounding
from tests.support.model_folder_support import write_weights
from tests.support.model_folders import description_of, span_description
from training.config.run_options import ExportOptions
from training.export import saved_model
from training.export.span_signatures import SpanServing

# A server's loader: a plain Session, no Python of the model.
SERVER = """
import json, sys
import numpy as np
import tensorflow as tf
{imports}
folder, requests, answers = sys.argv[1:]
with tf.compat.v1.Session(graph=tf.Graph()) as session:
    loaded = tf.compat.v1.saved_model.load(session, ["serve"], folder)
    found = {}
    for key, (name, inputs) in json.load(open(requests)).items():
        signature = loaded.signature_def[name]
        feed = {}
        for field, value in inputs.items():
            if field == "examples":
                value = [bytes.fromhex(x) for x in value]
            feed[signature.inputs[field].name] = value
        outputs = {k: v.name for k, v in signature.outputs.items()}
        for output, value in session.run(outputs, feed).items():
            if value.dtype == object:
                shape = value.shape
                value = np.array([x.decode() for x in value.ravel()], "U")
                value = value.reshape(shape)
            found[f"{key} {output}"] = value
np.savez(answers, **found)
ours = {"data", "modeling", "training"} & set(sys.modules)
assert not ours, ours
"""

LENGTH = 32
LABELS = {
    "classification": ("no", "yes"),
    "regression": (),
    "multilabel": ("toxic", "r\u00fcde", "spam"),
    "choice": ("A", "B", "C"),
    "tagging": ("O", "B-PER", "I-PER"),
}
# Long and empty ones, and others than English.
TEXTS = [
    "The man went to the store.",
    "",
    "to be or not to be " * 20,
    "Caf\u00e9 \u4e2d\u6587 unaffable!",
    "\u200b",
    "a",
]


def config_of(goldens, **changes):
    """A layer of the golden sizes; its weights tell texts apart."""
    config = BertConfig.from_json_file(str(goldens / "first_layer.json"))
    return dataclasses.replace(config, **{"initializer_range": 0.3} | changes)


def span_serving(goldens, **description):
    """A model of questions with all of its signatures."""
    keras.utils.set_random_seed(1)
    lengths = {"doc_stride": 8, "max_query_length": 8, "max_answer_length": 8}
    return SpanServing(
        SpanModel(config_of(goldens)),
        span_description(max_seq_length=LENGTH, **lengths, **description),
        load_vocab(str(goldens / "vocab.txt")),
    )


def finished_run(goldens, folder, kind, is_pair=False, **changes):
    """Writes what run_classifier.py leaves behind; returns the model."""
    config = config_of(goldens, **changes)
    keras.utils.set_random_seed(1)
    labels = LABELS[kind]
    arguments = {"kind": kind, "num_labels": max(1, len(labels))}
    model = TaskModel(config, **arguments)
    model.head.output_weights.assign(model.head.output_weights * 10)
    prefix = folder / "model.ckpt-60"
    write_weights(prefix, model)
    (folder / "bert_config.json").write_text(config.to_json_string())
    description_of(
        kind,
        labels=labels,
        is_pair=is_pair,
        label_separator="; ",
        document_context=kind == "tagging",
        max_seq_length=LENGTH,
        model=arguments,
        weights=prefix.name,
    ).write(str(folder), str(goldens / "vocab.txt"))
    return model


def export(folder, place=None, **options):
    """Exports a run to `export` in its folder, or in another place.

    Returns the folder of the version.
    """
    return saved_model.run(
        ExportOptions(
            output_dir=str(folder),
            export_dir=f"{place or folder}/export",
            **options,
        )
    )


def answer_of_card(version):
    """The model card, and the answer that the example in it prints."""
    with open(f"{version}/README.md", encoding="utf-8") as file:
        card = file.read()
    code = card.split("```python")[2].split("```")[0]
    printed = []
    exec(
        code.replace('"EXPORT_DIR/1"', repr(version)), {"print": printed.append}
    )
    return card, printed[0]


def examples_of(kind, is_pair, count):
    """Examples as a client would ask them, TEXTS again and again."""
    texts = [TEXTS[i % len(TEXTS)] for i in range(count)]
    others = [TEXTS[(i * 5 + 2) % len(TEXTS)] for i in range(count)]
    if kind == "choice":
        return [
            ChoiceExample("", [a] * 3, [b, a, TEXTS[0]])
            for a, b in zip(texts, others, strict=True)
        ]
    if kind == "tagging":
        # A sentence of no word is none to `features`.
        return [TaggingExample("", text.split() or ["x"]) for text in texts]
    if not is_pair:
        others = [None] * count
    return [InputExample("", a, b) for a, b in zip(texts, others, strict=True)]


def inputs_of(kind, examples):
    """The same as the inputs of serve_text, of tagging of serve_words."""
    if kind == "choice":
        return {
            "context": [example.contexts[0] for example in examples],
            "choices": [example.choices for example in examples],
        }
    if kind == "tagging":
        most = max(len(example.words) for example in examples)
        return {
            "words": [e.words + [""] * (most - len(e.words)) for e in examples]
        }
    if examples[0].text_b is None:
        return {"text": [example.text_a for example in examples]}
    return {
        "text_a": [example.text_a for example in examples],
        "text_b": [example.text_b for example in examples],
    }


def rows_of(goldens, kind, examples):
    """The rows of `data.finetuning.features`, name -> [N, length]."""
    converter = features.Converter(
        FullTokenizer(str(goldens / "vocab.txt")),
        features.FeatureOptions(kind, LABELS[kind], LENGTH),
    )
    rows = list(converter.rows(examples))
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}


def requests_of(kind, rows):
    """`rows_of` as the inputs of serving_default, and as records."""
    shape = (-1, 3, LENGTH) if kind == "choice" else (-1, LENGTH)
    ids = {n: rows[n].reshape(shape).astype(np.int32) for n in INPUTS}
    specs = feature_specs(kind, LENGTH, max(1, len(LABELS[kind])))
    return ids, encode_examples(specs, rows)


def batch_of(ids):
    """The inputs of rows of one segment without padding, all of one length."""
    ids = np.array(ids, np.int32)
    inputs = ids, np.ones_like(ids), np.zeros_like(ids)
    return dict(zip(INPUTS, inputs, strict=True))


def predictions_of(model, rows):
    """What the model itself says of whole rows, padding and all."""
    return model.predict(
        {name: rows[name].astype(np.int32) for name in INPUTS}
    ).numpy()


def served(folder, asked, tmp_path, has_text=True):
    """What a fresh process answers: (request, output) -> array.

    `asked` is request -> signature, and its inputs by name. Without `has_text`
    the process has not the operations of TensorFlow Text.
    """
    imports = "import tensorflow_text" if has_text else ""

    def as_json(value):
        return value.hex() if isinstance(value, bytes) else value.tolist()

    (tmp_path / "asked.json").write_text(json.dumps(asked, default=as_json))
    fork_server.cold_python(
        "-I",  # neither this folder nor PYTHONPATH
        "-c",
        SERVER.replace("{imports}", imports),
        *(folder, "asked.json", "answers.npz"),
        cwd=tmp_path,
    )
    answers = np.load(tmp_path / "answers.npz")
    return {tuple(name.split()): answers[name] for name in answers.files}


def assert_served_alike(version, signatures, asked, tmp_path):
    """Asserts that a fresh process answers as the functions of the model."""
    found = served(version, asked, tmp_path)
    for key, (name, inputs) in asked.items():
        tensors = {field: tf.constant(x) for field, x in inputs.items()}
        for output, value in signatures[name](**tensors).items():
            if value.dtype == tf.string:
                texts = np.char.decode(value.numpy().astype("S"), "utf-8")
                np.testing.assert_array_equal(found[key, output], texts)
            else:
                rounding.assert_equal(found[key, output], value)
