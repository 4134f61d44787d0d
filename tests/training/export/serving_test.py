"""--export_signatures and the original's own clients.

The requests are those of clients of the usual `serving_input_receiver_fn` for
the original's run_classifier.py and run_squad.py: a placeholder of serialized
`tf.Example` named `examples`, or placeholders `input_ids`, `input_mask`,
`segment_ids` and `label_ids` (`unique_ids`). The responses are the
`predictions` of the original's `model_fn_builder`, under their names.
"""

import pathlib

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from data.records import tfrecord
from data.records.feature_spec import FeatureSpec, encode_examples
from tests.support import rounding, serving_support
from tests.support.serving_support import (
    INPUTS,
    answer_of_card,
    batch_of,
    examples_of,
    finished_run,
    predictions_of,
    requests_of,
    rows_of,
    served,
    span_serving,
)
from training.config.run_options import ServingOptions
from training.export import saved_model
from training.export.predictor import Predictor
from training.export.serving import choose


@pytest.fixture(scope="module")
def finished(goldens, tmp_path_factory):
    """Folder of a classifier of pairs, and its model."""
    folder = tmp_path_factory.mktemp("classifier")
    return str(folder), finished_run(goldens, folder, "classification", True)


@pytest.fixture(scope="module")
def asked(finished, goldens):
    """Rows of 33 pairs, and the model's probabilities."""
    examples = examples_of("classification", True, 33)
    rows = rows_of(goldens, "classification", examples)
    return rows, predictions_of(finished[1], rows)


def export(folder, place, **options):
    serving = ServingOptions(**options)
    return serving_support.export(folder, place, serving=serving)


@pytest.fixture(scope="module")
def of_ids(finished, tmp_path_factory):
    """A version for the original's clients that send ids."""
    options = {"signatures": ("ids",), "like_original": True}
    return export(finished[0], tmp_path_factory.mktemp("ids"), **options)


def graph_of(version):
    """The MetaGraph, as a server reads it."""
    with open(f"{version}/saved_model.pb", "rb") as file:
        saved = saved_model_pb2.SavedModel.FromString(file.read())
    (graph,) = saved.meta_graphs
    return graph


def tensors_of(signature):
    """Name -> (type, shape) of inputs and of outputs."""
    return [
        {
            name: (
                tf.as_dtype(info.dtype).name,
                tf.TensorShape(info.tensor_shape).rank
                and tf.TensorShape(info.tensor_shape).as_list(),
            )
            for name, info in infos.items()
        }
        for infos in (signature.inputs, signature.outputs)
    ]


def test_raw_ids_with_labels_are_answered_as_by_the_original(
    finished, of_ids, asked, tmp_path
):
    rows, wanted = asked
    signature = graph_of(of_ids).signature_def["serving_default"]
    assert signature.method_name == "tensorflow/serving/predict"
    ids = ("int32", [None, None])
    assert tensors_of(signature) == [
        dict.fromkeys(INPUTS, ids) | {"label_ids": ("int32", None)},
        # The only output: by REST an answer is a list of numbers.
        {"probabilities": ("float32", [None, 2])},
    ]
    request = {name: rows[name] for name in INPUTS}
    labels = np.arange(len(wanted))
    column = labels[:, np.newaxis]
    requests = {
        "flat": ("serving_default", request | {"label_ids": labels}),
        "column": ("serving_default", request | {"label_ids": column}),
    }
    answers = served(of_ids, requests, tmp_path, has_text=False)
    for key in requests:
        rounding.assert_equal(answers[key, "probabilities"], wanted)
    assert len(answers) == 2
    path = f"{of_ids}/assets.extra/tf_serving_warmup_requests"
    assert len(list(tfrecord.read_records(path))) == 2
    # What a client makes ids with; nothing of it says where the model was.
    for name in "vocab.txt", "task.json":
        kept = pathlib.Path(of_ids, "assets", name).read_text("utf-8")
        was = pathlib.Path(finished[0], name).read_text("utf-8")
        assert kept == was.replace("model.ckpt-60", "")


@pytest.mark.all
def test_examples_are_answered_as_by_the_original(finished, asked, tmp_path):
    rows, wanted = asked
    version = export(
        finished[0], tmp_path, signatures=("examples",), like_original=True
    )
    graph = graph_of(version)
    names = {"serve_examples", "serving_default"}
    assert graph.signature_def.keys() - {"__saved_model_init_op"} == names
    assert tensors_of(graph.signature_def["serving_default"]) == [
        {"examples": ("string", [None])},
        {"probabilities": ("float32", [None, 2])},
    ]
    # With label_ids and is_real_example, as the original writes them.
    _, records = requests_of("classification", rows)
    assert b"label_ids" in records[0] and b"is_real_example" in records[0]
    request = {"a": ("serving_default", {"examples": records})}
    answers = served(version, request, tmp_path, has_text=False)
    assert list(answers) == [("a", "probabilities")]
    rounding.assert_equal(answers["a", "probabilities"], wanted)


def test_the_default_takes_texts(finished):
    serving = saved_model.load(finished[0])
    signatures = ("text", "ids", "examples")
    chosen = choose(serving, ServingOptions(signatures=signatures))
    names = {"serve_examples", "serve_ids", "serve_rows", "serve_text"}
    assert chosen.keys() == names | {"serving_default"}
    assert chosen["serving_default"] is chosen["serve_text"]
    assert chosen["serve_rows"][0] is serving.signatures["serving_default"]


def test_nothing_changes_by_default(finished):
    serving = saved_model.load(finished[0])
    chosen = choose(serving, ServingOptions())
    functions = {name: function for name, (function, _) in chosen.items()}
    assert functions == serving.signatures
    assert list(chosen)[0] == "serving_default"
    rows = functions["serving_default"].get_concrete_function()
    specs = {
        spec.name: (spec.shape.as_list(), spec.dtype)
        for spec in tf.nest.flatten(rows.structured_input_signature)
    }
    assert specs == dict.fromkeys(INPUTS, ([None, None], tf.int32))


@pytest.mark.all
def test_an_export_of_texts_and_examples_is_loaded(finished, tmp_path):
    version = export(finished[0], tmp_path, signatures=("text", "examples"))
    signatures = tf.saved_model.load(version).signatures
    names = {"serve_examples", "serve_text", "serving_default"}
    assert set(signatures) == names
    texts = {"text_a": tf.constant(["a man"]), "text_b": tf.constant(["a"])}
    np.testing.assert_array_equal(
        signatures["serving_default"](**texts)["probabilities"],
        signatures["serve_text"](**texts)["probabilities"],
    )
    (answer,) = Predictor.load(version).predict([("a man", "a")])
    assert answer["labels"] == ["no", "yes"]


def test_the_card_of_an_export_without_texts(of_ids):
    card, answer = answer_of_card(of_ids)
    assert answer["probabilities"].shape == (1, 2)
    assert "tensorflow_text" not in card
    assert "operations of TensorFlow alone" in card
    assert "`label_ids` int32 [...]" in card
    with pytest.raises(ValueError, match="of texts, .* in --export_signatures"):
        Predictor.load(of_ids)


@pytest.fixture(scope="module")
def questions(goldens):
    return span_serving(goldens)


@pytest.mark.parametrize("form", ["ids", "examples"])
def test_questions_come_back_with_their_ids(questions, form):
    options = ServingOptions(signatures=(form,), like_original=True)
    chosen = choose(questions, options)
    default = chosen["serving_default"][0].get_concrete_function()
    rows = batch_of(questions.random_ids(np.random.default_rng(1), 3))
    rows["input_mask"][1, 9:] = 0
    wanted = questions.signatures["serving_default"](**rows)
    unique = np.array([1000000000, 1000000001, 7])
    if form == "ids":
        answer = default(
            **{name: tf.constant(x) for name, x in rows.items()},
            unique_ids=tf.constant(unique, tf.int32),
        )
    else:
        columns = rows | {"unique_ids": unique[:, np.newaxis]}
        specs = [FeatureSpec(n, x.shape[1]) for n, x in columns.items()]
        records = tf.constant(encode_examples(specs, columns))
        answer = default(examples=records)
    assert set(answer) == {"unique_ids", "start_logits", "end_logits"}
    np.testing.assert_array_equal(answer["unique_ids"], unique)
    for name in "start_logits", "end_logits":
        np.testing.assert_array_equal(answer[name], wanted[name])
    sample = chosen["serving_default"][1]
    outputs = default(**{n: tf.constant(x) for n, x in sample.items()})
    assert outputs["unique_ids"].numpy().tolist() == [0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"signatures": ("ids", "texts")}, "=ids,texts; it must be some of"),
        ({"signatures": ("ids", "ids")}, "ids,examples,text, each once."),
        ({"signatures": ()}, "--export_signatures=; it must be some of"),
        ({"signatures": ("text", "ids"), "like_original": True}, "send ids"),
    ],
)
def test_contradictions_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        ServingOptions(**options)
