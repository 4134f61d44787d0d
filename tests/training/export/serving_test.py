"""--export_signatures and the original's own clients.

The requests are those of clients of the usual `serving_input_receiver_fn` for
the original's run_classifier.py and run_squad.py: a placeholder of serialized
`tf.Example` named `examples`, or placeholders `input_ids`, `input_mask`,
`segment_ids` and `label_ids` (`unique_ids`). The responses are the
`predictions` of the original's `model_fn_builder`, under their names.
"""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from data.finetuning.feature_options import feature_specs
from data.records import tfrecord
from data.records.feature_spec import FeatureSpec, encode_examples
from data.text.vocabulary import load_vocab
from modeling import BertConfig
from modeling.objectives.spans import SpanModel
from tests.support.model_folders import span_description
from tests.support.serving_support import (
    INPUTS,
    LENGTH,
    close,
    examples_of,
    finished_run,
    predictions_of,
    rows_of,
    served,
)
from training.config.run_options import ExportOptions, ServingOptions
from training.export import saved_model
from training.export.predictor import Predictor
from training.export.serving import choose
from training.export.span_signatures import SpanServing

PREDICT = "tensorflow/serving/predict"


@pytest.fixture(scope="module")
def finished(goldens, tmp_path_factory):
    """Folder of a classifier of pairs, and its model."""
    folder = tmp_path_factory.mktemp("classifier")
    return str(folder), finished_run(goldens, folder, "classification", True)


@pytest.fixture(scope="module")
def asked(finished, goldens):
    """Rows of 33 pairs, and the model's probabilities."""
    rows = rows_of(
        goldens, "classification", examples_of("classification", True, 33)
    )
    return rows, predictions_of(finished[1], rows)


def export(folder, place, **options):
    return saved_model.run(
        ExportOptions(
            output_dir=folder,
            export_dir=str(place / "export"),
            serving=ServingOptions(**options),
        )
    )


def graph_of(version):
    """The MetaGraph, as a server reads it."""
    with open(f"{version}/saved_model.pb", "rb") as file:
        (graph,) = saved_model_pb2.SavedModel.FromString(
            file.read()
        ).meta_graphs
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


def operations_of(graph):
    nodes = list(graph.graph_def.node)
    for function in graph.graph_def.library.function:
        nodes += function.node_def
    return {node.op for node in nodes}


def is_of_text(operation):
    """Whether TensorFlow itself lacks an operation."""
    return any(
        part in operation
        for part in ("Wordpiece", "Normalize", "CaseFold", "Whitespace")
    )


def warm_ups(version):
    path = f"{version}/assets.extra/tf_serving_warmup_requests"
    return sum(1 for _ in tfrecord.read_records(path))


def test_raw_ids_with_labels_are_answered_as_by_the_original(
    finished, asked, tmp_path
):
    rows, wanted = asked
    version = export(
        finished[0], tmp_path, signatures=("ids",), like_original=True
    )
    graph = graph_of(version)
    assert not list(filter(is_of_text, operations_of(graph)))
    signature = graph.signature_def["serving_default"]
    assert signature.method_name == PREDICT
    ids = ("int32", [None, None])
    assert tensors_of(signature) == [
        dict.fromkeys(INPUTS, ids) | {"label_ids": ("int32", None)},
        # The only output: by REST an answer is a list of numbers.
        {"probabilities": ("float32", [None, 2])},
    ]
    request = {name: rows[name].tolist() for name in INPUTS}
    labels = np.arange(len(wanted))
    requests = {
        "flat": request | {"label_ids": labels.tolist()},
        "column": request | {"label_ids": labels[:, np.newaxis].tolist()},
    }
    answers = served(
        version,
        {key: ("serving_default", x) for key, x in requests.items()},
        tmp_path,
        has_text=False,
    )
    for key in requests:
        close(answers[key, "probabilities"], wanted)
    assert len(answers) == 2
    assert warm_ups(version) == 2
    # What a client makes ids with; nothing of it says where the model was.
    for name in "vocab.txt", "task.json":
        with open(f"{version}/assets/{name}", "rb") as file:
            with open(f"{finished[0]}/{name}", "rb") as theirs:
                wanted = theirs.read().replace(b"model.ckpt-60", b"")
                assert file.read() == wanted


@pytest.mark.all
def test_examples_are_answered_as_by_the_original(finished, asked, tmp_path):
    rows, wanted = asked
    version = export(
        finished[0],
        tmp_path,
        signatures=("examples",),
        like_original=True,
    )
    graph = graph_of(version)
    assert sorted(graph.signature_def.keys() - {"__saved_model_init_op"}) == [
        "serve_examples",
        "serving_default",
    ]
    assert tensors_of(graph.signature_def["serving_default"]) == [
        {"examples": ("string", [None])},
        {"probabilities": ("float32", [None, 2])},
    ]
    # With label_ids and is_real_example, as the original writes them.
    specs = feature_specs("classification", LENGTH, 2)
    assert "label_ids" in [spec.name for spec in specs]
    records = [record.hex() for record in encode_examples(specs, rows)]
    answers = served(
        version,
        {"a": ("serving_default", {"examples": records})},
        tmp_path,
        has_text=False,
    )
    assert list(answers) == [("a", "probabilities")]
    close(answers["a", "probabilities"], wanted)


def test_the_default_takes_texts(finished):
    serving = saved_model.load(finished[0])
    signatures = ("text", "ids", "examples")
    chosen = choose(serving, ServingOptions(signatures=signatures))
    assert sorted(chosen) == [
        "serve_examples",
        "serve_ids",
        "serve_rows",
        "serve_text",
        "serving_default",
    ]
    assert chosen["serving_default"] is chosen["serve_text"]
    rows = serving.signatures["serving_default"]
    assert chosen["serve_rows"][0] is rows


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
def test_an_export_of_texts_and_examples_is_loaded(finished, asked, tmp_path):
    version = export(finished[0], tmp_path, signatures=("text", "examples"))
    graph = graph_of(version)
    assert list(filter(is_of_text, operations_of(graph)))
    signatures = tf.saved_model.load(version).signatures
    assert sorted(signatures) == [
        "serve_examples",
        "serve_text",
        "serving_default",
    ]
    texts = {"text_a": tf.constant(["a man"]), "text_b": tf.constant(["a"])}
    np.testing.assert_array_equal(
        signatures["serving_default"](**texts)["probabilities"],
        signatures["serve_text"](**texts)["probabilities"],
    )
    (answer,) = Predictor.load(version).predict([("a man", "a")])
    assert answer["labels"] == ["no", "yes"]


def test_the_card_of_an_export_without_texts(finished, tmp_path):
    version = export(
        finished[0], tmp_path, signatures=("ids",), like_original=True
    )
    with open(f"{version}/README.md", encoding="utf-8") as file:
        card = file.read()
    assert "tensorflow_text" not in card
    assert "operations of TensorFlow alone" in card
    assert "`label_ids` int32 [...]" in card
    code = card.split("```python")[2].split("```")[0]
    printed = []
    exec(
        code.replace('"EXPORT_DIR/1"', repr(version)),
        {"print": printed.append},
    )
    assert printed[0]["probabilities"].shape == (1, 2)
    message = (
        "has no signature of texts, only .*serve_ids.* Load the output_dir of "
        "the run, or export it with text in --export_signatures."
    )
    with pytest.raises(ValueError, match=message):
        Predictor.load(version)


@pytest.fixture(scope="module")
def questions(goldens):
    """A model of questions with all of its signatures."""
    config = BertConfig.from_json_file(str(goldens / "bert_config.json"))
    return SpanServing(
        SpanModel(config),
        span_description(
            max_seq_length=LENGTH,
            doc_stride=8,
            max_query_length=8,
            n_best_size=5,
            max_answer_length=8,
        ),
        load_vocab(str(goldens / "vocab.txt")),
    )


@pytest.mark.parametrize("form", ["ids", "examples"])
def test_questions_come_back_with_their_ids(questions, form):
    options = ServingOptions(signatures=(form,), like_original=True)
    chosen = choose(questions, options)
    default = chosen["serving_default"][0].get_concrete_function()
    ids = questions.random_ids(np.random.default_rng(1), 3)
    mask = np.ones_like(ids)
    mask[1, 9:] = 0
    rows = dict(zip(INPUTS, (ids, mask, np.zeros_like(ids)), strict=True))
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
        (
            {"signatures": ("text", "ids"), "like_original": True},
            "send ids or examples; name one of them first in --export_sig",
        ),
    ],
)
def test_contradictions_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        ServingOptions(**options)
