"""SavedModels in a process that has never seen this project."""

import json
import os

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from tensorflow.core.framework import tensor_pb2  # noqa: F401, for the pool

import modeling
from data.finetuning.feature_options import feature_specs
from data.finetuning.tagging import words_of_rows
from data.records import tfrecord
from data.records.feature_spec import encode_examples
from tests.support.serving_support import (
    INPUTS,
    LABELS,
    LENGTH,
    close,
    examples_of,
    finished_run,
    inputs_of,
    predictions_of,
    rows_of,
    served,
)
from training.config.run_options import ServingOptions
from training.export import (
    litert_model,
    loaded_model,
    requests,
    saved_model,
)
from training.export.serving import Serving
from training.start.description import Description, read


@pytest.fixture(
    scope="module",
    params=[
        ("classification", True),
        pytest.param(("tagging", False), marks=pytest.mark.all),
        pytest.param(("choice", False), marks=pytest.mark.all),
        pytest.param(("multilabel", False), marks=pytest.mark.all),
        pytest.param(("regression", True), marks=pytest.mark.all),
    ],
    ids=lambda k: k[0],
)
def exported(request, goldens, tmp_path_factory):
    """Kind, the model and a version's folder."""
    kind, is_pair = request.param
    folder = tmp_path_factory.mktemp(kind)
    model = finished_run(goldens, folder, kind, is_pair)
    options = saved_model.ExportOptions(
        output_dir=str(folder), export_dir=str(folder / "export")
    )
    version = saved_model.run(options)
    assert version == str(folder / "export" / "1")
    assert litert_model.newest_version(options.export_dir) == 1
    return kind, is_pair, model, version


@pytest.fixture(scope="module")
def signatures(exported):
    """Those of the export, loaded in this process."""
    loaded = tf.saved_model.load(exported[-1])
    yield loaded.signatures  # while what was loaded lives


def test_every_kind_of_model_has_one_class_of_signatures():
    kinds = [kind for cls in Serving.__subclasses__() for kind in cls.kinds]
    assert sorted(kinds) == sorted(Description.classes)


def predictions_of_words(predictions, rows, examples):
    """Predictions [N, words, labels] of the words, zero for no word."""
    lengths = [len(example.words) for example in examples]
    sentences = words_of_rows(predictions, rows["label_mask"], lengths)
    padded = np.zeros((len(lengths), max(lengths), predictions.shape[-1]))
    for row, sentence in zip(padded, sentences, strict=True):
        row[: len(sentence)] = sentence
    return padded


def test_a_plain_session_gives_the_predictions(exported, goldens, tmp_path):
    kind, is_pair, model, folder = exported
    asked, wanted = {}, {}
    for count in 1, 33:
        examples = examples_of(kind, is_pair, count)
        rows = rows_of(goldens, kind, examples)
        predictions = predictions_of(model, rows)
        specs = feature_specs(kind, LENGTH, model.num_labels)
        records = [r.hex() for r in encode_examples(specs, rows)]
        shape = (-1, 3, LENGTH) if kind == "choice" else (-1, LENGTH)
        ids = {name: rows[name].reshape(shape).tolist() for name in INPUTS}
        asked[f"ids{count}"] = "serving_default", ids
        asked[f"only{count}"] = "serve_ids", {"input_ids": ids["input_ids"]}
        asked[f"records{count}"] = "serve_examples", {"examples": records}
        masked = predictions
        if kind == "tagging":
            masked = predictions * rows["input_mask"][:, :, np.newaxis]
            predictions = predictions_of_words(predictions, rows, examples)
        for name in "ids", "only", "records":
            wanted[f"{name}{count}"] = masked
        texts = "serve_words" if kind == "tagging" else "serve_text"
        asked[f"texts{count}"] = texts, inputs_of(kind, examples)
        wanted[f"texts{count}"] = predictions
    if kind == "tagging":  # the text of one sentence, and an empty one
        asked["running"] = "serve_text", {"text": ["the man", ""]}
    answers = served(folder, asked, tmp_path)
    output = "score" if kind == "regression" else "probabilities"
    for name, predictions in wanted.items():
        if kind == "regression":
            predictions = predictions[:, 0]
        close(answers[name, output], predictions)
    if kind == "tagging":
        words = answers["running", "words"].tolist()
        assert words == [["the", "man"], ["", ""]]
        assert answers["running", "num_words"].tolist() == [2, 0]
    elif kind == "classification":
        labels = np.array(["no", "yes"])[wanted["texts33"].argmax(1)]
        np.testing.assert_array_equal(answers["texts33", "label"], labels)


def messages():
    """Classes of TF Serving's messages by name, as its API declares them."""
    pool = descriptor_pool.Default()
    pool.Add(serving_proto())
    return {
        name: message_factory.GetMessageClass(
            pool.FindMessageTypeByName(f"tests_serving.{name}")
        )
        for name in ("PredictRequest", "PredictionLog")
    }


def serving_proto():
    """The messages that a request needs, as declared in
    tensorflow_serving/apis/{model,predict,prediction_log}.proto."""
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="tests/serving.proto",
        package="tests_serving",
        syntax="proto3",
        dependency=["tensorflow/core/framework/tensor.proto"],
    )

    def message(name, *fields, parent=file.message_type):
        made = parent.add(name=name)
        for label, (field_name, number, kind) in fields:
            added = made.field.add(
                name=field_name, number=number, label=label, type=kind[0]
            )
            if kind[1:]:
                added.type_name = kind[1]
        return made

    text = (field.TYPE_STRING,)
    one, many = field.LABEL_OPTIONAL, field.LABEL_REPEATED

    def of(name):
        return field.TYPE_MESSAGE, name

    names = (one, ("name", 1, text)), (one, ("signature_name", 3, text))
    message("ModelSpec", *names)
    request = message(
        "PredictRequest",
        (one, ("model_spec", 1, of(".tests_serving.ModelSpec"))),
        (many, ("inputs", 2, of(".tests_serving.PredictRequest.InputsEntry"))),
    )
    entry = message(
        "InputsEntry",
        (one, ("key", 1, text)),
        (one, ("value", 2, of(".tensorflow.TensorProto"))),
        parent=request.nested_type,
    )
    entry.options.map_entry = True
    sent = (one, ("request", 1, of(".tests_serving.PredictRequest")))
    message("PredictLog", sent)
    logged = (one, ("predict_log", 6, of(".tests_serving.PredictLog")))
    message("PredictionLog", logged)
    return file


MESSAGES = messages()


def call(signatures, request):
    """What a server does with a request."""
    inputs = {
        name: tf.constant(tf.make_ndarray(value))
        for name, value in request.inputs.items()
    }
    return signatures[request.model_spec.signature_name](**inputs)


def test_every_signature_is_warmed_up(exported, signatures):
    folder = exported[3]
    logs = [
        MESSAGES["PredictionLog"].FromString(record)
        for record in tfrecord.read_records(
            f"{folder}/assets.extra/tf_serving_warmup_requests"
        )
    ]
    asked = [log.predict_log.request for log in logs]
    names = [request.model_spec.signature_name for request in asked]
    assert sorted(names) == sorted(signatures)
    for request in asked:
        outputs = call(signatures, request)
        assert all(len(output) == 1 for output in outputs.values())


def test_requests_are_what_servers_take(exported, signatures):
    kind, is_pair, _, _ = exported
    inputs = inputs_of(kind, examples_of(kind, is_pair, 5))
    name = "serve_words" if kind == "tagging" else "serve_text"
    wanted = signatures[name](**{k: tf.constant(v) for k, v in inputs.items()})
    request = MESSAGES["PredictRequest"].FromString(
        requests.predict_request(name, inputs)
    )
    answers = [call(signatures, request)]
    body = json.loads(requests.rest_body(name, inputs))
    assert body["signature_name"] == name
    # As a server reads rows: each named input is stacked.
    columns = {
        key: tf.constant([row[key] for row in body["instances"]])
        for key in body["instances"][0]
    }
    answers.append(signatures[name](**columns))
    for answer in answers:
        for key, value in wanted.items():
            np.testing.assert_array_equal(answer[key], value)


def test_bytes_and_numbers_in_rest_bodies():
    inputs = {"examples": [b"\xff\x00"], "input_ids": np.array([[1, 2]])}
    assert json.loads(requests.rest_body("serve_examples", inputs)) == {
        "signature_name": "serve_examples",
        "instances": [{"examples": {"b64": "/wA="}, "input_ids": [1, 2]}],
    }


def test_the_card_says_what_the_model_is_and_how_to_call_it(exported):
    kind, _, _, folder = exported
    with open(f"{folder}/README.md", encoding="utf-8") as file:
        card = file.read()
    assert card.startswith("# made\n\nBERT, fine-tuned for the task made: it ")
    assert ", ".join(f"`{x}`" for x in LABELS.get(kind, ("no", "yes"))) in card
    for part in (
        "docker run -p 8500:8500 -p 8501:8501",
        "curl http://localhost:8501/v1/models/bert:predict -d '{",
        "service.Predict(request",
        "tf.saved_model.load(",
        "| `serve_ids` | `input_ids` int32 [?, ",
        "- arithmetic: float32",
    ):
        assert part in card
    # The example in it is one.
    code = card.split("```python")[2].split("```")[0]
    printed = []
    exec(
        code.replace('"EXPORT_DIR/1"', repr(folder)),
        {"print": printed.append},
    )
    assert {"probabilities", "score"} & set(printed[0])


@pytest.fixture
def finished(goldens, tmp_path):
    finished_run(goldens, tmp_path, "classification")
    return tmp_path


@pytest.fixture
def options(finished):
    return saved_model.ExportOptions(
        output_dir=str(finished),
        export_dir=str(finished / "export"),
        serving=ServingOptions(signatures=("ids",)),
    )


@pytest.fixture
def made(monkeypatch):
    """In place of exports: empty folders; their names."""
    made = []

    def save(folder, *_):
        made.append(folder)
        tf.io.gfile.makedirs(folder)

    monkeypatch.setattr(saved_model, "save", save)
    return made


def test_versions_count_up_and_appear_whole(
    finished, options, made, monkeypatch
):
    (finished / "export" / "7").mkdir(parents=True)
    (finished / "export" / "notes").mkdir()
    (finished / "metrics.json").write_text(
        '{"dev": {"accuracy": 0.25}, "details": {"dev": {"roc_auc": 0.5}}}'
    )
    (finished / "train.tf_record.manifest.json").write_text(
        '{"made_from": {"kind": "x", "examples_sha256": "ab"}, '
        '"report": {"num_examples": 7}}'
    )
    folder = saved_model.run(options)
    assert folder == str(finished / "export" / "8")
    assert made[0] != folder
    names = sorted(os.listdir(finished / "export"))
    assert names == ["7", "8", "notes"]
    with open(f"{folder}/README.md", encoding="utf-8") as file:
        card = file.read()
    assert 'model = tf.saved_model.load("EXPORT_DIR/8")' in card
    assert "- dev:\n  - accuracy: 0.25\n" in card and "roc_auc" not in card
    assert "- train:\n  - examples: 7\n  - examples sha256: ab\n" in card

    def fail(folder, *_):
        tf.io.gfile.makedirs(folder)
        raise tf.errors.ResourceExhaustedError(None, None, "disk full")

    monkeypatch.setattr(saved_model, "save", fail)
    # The metrics of earlier weights, or of another length, are not its own.
    for name in ("global_step", "max_seq_length"):
        (finished / "metrics.json").write_text(f'{{"{name}": 1000}}')
        assert saved_model._metrics(str(finished)) == {}
    with pytest.raises(OSError, match="export/9: disk full. Nothing was chang"):
        saved_model.run(options)
    assert sorted(os.listdir(finished / "export")) == names


def test_a_version_of_another_model_is_told(finished, options, made, caplog):
    saved_model.run(options)
    saved_model.run(options)
    assert "another model" not in caplog.text
    path = finished / "export/2/assets/task.json"
    facts = json.loads(path.read_text()) | {"labels": ["x", "y"]}
    path.write_text(json.dumps(facts))
    saved_model.run(options)
    assert "version 2 is another model's (labels x,y -> " in caplog.text


def test_a_description_of_another_version_is_named(finished):
    path = finished / "task.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"newer": 1}))
    message = f"^{path} has another version .*'newer'"
    with pytest.raises(ValueError, match=message):
        loaded_model.describe(modeling.load(str(finished)))


def test_trials_export_the_chosen_one(goldens, tmp_path, made, caplog):
    (tmp_path / "trial-2").mkdir()
    finished_run(goldens, tmp_path / "trial-2", "regression")
    (tmp_path / "trials.json").write_text('{"chosen": "trial-2"}')
    assert saved_model.load(str(tmp_path)).description.kind == "regression"
    # Metrics of another length are not the model's; its folder says which.
    for folder in (tmp_path, tmp_path / "trial-2"):
        (folder / "metrics.json").write_text('{"max_seq_length": 1000}')
    given = {"output_dir": str(tmp_path), "export_dir": str(tmp_path / "x")}
    ids = ServingOptions(signatures=("ids",))
    saved_model.run(saved_model.ExportOptions(**given, serving=ids))
    assert "is about max_seq_length 1000" in caplog.text
    assert "1000" not in (tmp_path / "x/1/README.md").read_text()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "has no task.json, so it does not say what its model is for"),
        ("{", "task.json is "),
        ('{"labels": []}', "task.json is "),
    ],
)
def test_a_folder_of_no_finished_run_is_refused(tmp_path, text, message):
    if text is not None:
        (tmp_path / "task.json").write_text(text)
    with pytest.raises(ValueError, match=message):
        read(str(tmp_path))


def test_weights_of_another_model_are_refused(finished):
    path = finished / "task.json"
    facts = json.loads(path.read_text())
    facts["model"]["head"] = "bilstm"
    path.write_text(json.dumps(facts))
    with pytest.raises(
        ValueError, match=r"output_weights: \(2, 32\) in the ch"
    ):
        saved_model.load(str(finished))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"export_dir": ""}, "--do_export: give --export_dir, a folder."),
        ({"precision": "int8"}, "--export_precision=int8; it must be one of"),
        # Versions within a run's folder would answer in place of its model.
        ({"export_dir": "x/"}, "--export_dir, a folder of its"),
        ({"export_dir": "{tmp}/./x"}, "--export_dir, a folder of its"),
    ],
)
def test_bad_options_are_refused(tmp_path, monkeypatch, changed, message):
    monkeypatch.chdir(tmp_path)
    changed = {n: x.replace("{tmp}", str(tmp_path)) for n, x in changed.items()}
    given = {"output_dir": "x", "export_dir": str(tmp_path)} | changed
    with pytest.raises(ValueError, match=message):
        saved_model.ExportOptions(**given)


def test_a_folder_that_tensorflow_reads_as_a_glob_is_refused(tmp_path):
    folder = tmp_path / "export[1]"
    options = saved_model.ExportOptions(
        output_dir=str(tmp_path), export_dir=str(folder)
    )
    with pytest.raises(ValueError, match="TensorFlow reads no checkpoint whos"):
        saved_model.run(options)
    assert not list(folder.iterdir())
