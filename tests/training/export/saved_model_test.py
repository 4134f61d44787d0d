"""SavedModels in a process that has never seen this project."""

import json
import os

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    message_factory,
    text_format,
)
from tensorflow.core.framework import tensor_pb2  # noqa: F401, for the pool

import bert
from data.records import tfrecord
from tests.support.model_folder_support import change_description
from tests.support.serving_support import (
    LABELS,
    answer_of_card,
    assert_served_alike,
    examples_of,
    export,
    finished_run,
    inputs_of,
    requests_of,
    rows_of,
)
from tests.support.tiers import rare
from training.config.run_options import ExportOptions, ServingOptions
from training.export import litert_model, requests, saved_model
from training.export.serving import Serving
from training.start.description import Description, read


@pytest.fixture(
    scope="module",
    params=[
        ("classification", True),
        rare(("tagging", False)),
        rare(("choice", False)),
        rare(("multilabel", False)),
        rare(("regression", True)),
    ],
    ids=lambda k: k[0],
)
def exported(request, goldens, tmp_path_factory):
    """Kind, whether of pairs, folders of the run and of a version."""
    kind, is_pair = request.param
    folder = tmp_path_factory.mktemp(kind)
    finished_run(goldens, folder, kind, is_pair)
    version = export(folder)
    assert version == f"{folder}/export/1"
    assert litert_model.newest_version(f"{folder}/export") == 1
    return kind, is_pair, folder, version


@pytest.fixture(scope="module")
def signatures(exported):
    """Those of the export, loaded in this process."""
    loaded = tf.saved_model.load(exported[-1])
    yield loaded.signatures  # while what was loaded lives


def test_every_kind_of_model_has_one_class_of_signatures():
    kinds = [kind for cls in Serving.__subclasses__() for kind in cls.kinds]
    assert sorted(kinds) == sorted(Description.classes)


@pytest.mark.all
def test_a_plain_session_answers_alike(exported, goldens, tmp_path):
    kind, is_pair, folder, version = exported
    asked = {}
    for count in 1, 33:
        examples = examples_of(kind, is_pair, count)
        ids, records = requests_of(kind, rows_of(goldens, kind, examples))
        texts = "serve_words" if kind == "tagging" else "serve_text"
        asked |= {
            f"ids{count}": ("serving_default", ids),
            f"only{count}": ("serve_ids", {"input_ids": ids["input_ids"]}),
            f"records{count}": ("serve_examples", {"examples": records}),
            f"texts{count}": (texts, inputs_of(kind, examples)),
        }
    if kind == "tagging":  # the text of one sentence, and an empty one
        asked["running"] = "serve_text", {"text": ["the man", ""]}
    functions = saved_model.load(str(folder)).signatures
    assert_served_alike(version, functions, asked, tmp_path)


# As tensorflow_serving/apis/{model,predict,prediction_log}.proto declare what a
# request needs.
SERVING = """
name: "tests/serving.proto"
package: "tests_serving"
syntax: "proto3"
dependency: "tensorflow/core/framework/tensor.proto"
message_type {
  name: "ModelSpec"
  field { name: "name" number: 1 type: TYPE_STRING }
  field { name: "signature_name" number: 3 type: TYPE_STRING }
}
message_type {
  name: "PredictRequest"
  field { name: "model_spec" number: 1 type_name: "ModelSpec" }
  field {
    name: "inputs" number: 2 type_name: "InputsEntry" label: LABEL_REPEATED
  }
  nested_type {
    name: "InputsEntry"
    field { name: "key" number: 1 type: TYPE_STRING }
    field { name: "value" number: 2 type_name: ".tensorflow.TensorProto" }
    options { map_entry: true }
  }
}
message_type {
  name: "PredictLog"
  field { name: "request" number: 1 type_name: "PredictRequest" }
}
message_type {
  name: "PredictionLog"
  field { name: "predict_log" number: 6 type_name: "PredictLog" }
}
"""


@pytest.fixture(scope="module")
def messages():
    """Name -> class of the messages in `SERVING`."""
    pool = descriptor_pool.Default()
    pool.Add(text_format.Parse(SERVING, descriptor_pb2.FileDescriptorProto()))
    file = pool.FindFileByName("tests/serving.proto")
    return {
        name: message_factory.GetMessageClass(message)
        for name, message in file.message_types_by_name.items()
    }


def call(signatures, request):
    """What a server does with a request."""
    inputs = {
        name: tf.constant(tf.make_ndarray(value))
        for name, value in request.inputs.items()
    }
    return signatures[request.model_spec.signature_name](**inputs)


def test_every_signature_is_warmed_up(exported, signatures, messages):
    path = f"{exported[3]}/assets.extra/tf_serving_warmup_requests"
    read = messages["PredictionLog"].FromString
    logs = [read(record) for record in tfrecord.read_records(path)]
    asked = [log.predict_log.request for log in logs]
    names = [request.model_spec.signature_name for request in asked]
    assert sorted(names) == sorted(signatures)
    for request in asked:
        outputs = call(signatures, request)
        assert all(len(output) == 1 for output in outputs.values())


def test_requests_are_what_servers_take(exported, signatures, messages):
    kind, is_pair, _, _ = exported
    inputs = inputs_of(kind, examples_of(kind, is_pair, 5))
    name = "serve_words" if kind == "tagging" else "serve_text"
    wanted = signatures[name](**{k: tf.constant(v) for k, v in inputs.items()})
    log = messages["PredictionLog"].FromString(
        requests.prediction_log(name, inputs)
    )
    answers = [call(signatures, log.predict_log.request)]
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
    kind, _, _, version = exported
    card, answer = answer_of_card(version)
    assert {"probabilities", "score"} & set(answer)
    assert card.startswith("# made\n\nBERT, fine-tuned for the task made: it ")
    assert ", ".join(f"`{label}`" for label in LABELS[kind]) in card
    for part in (
        "docker run -p 8500:8500 -p 8501:8501",
        "curl http://localhost:8501/v1/models/bert:predict -d '{",
        "service.Predict(request",
        "tf.saved_model.load(",
        "| `serve_ids` | `input_ids` int32 [?, ",
        "- arithmetic: float32",
    ):
        assert part in card


@pytest.fixture
def finished(goldens, tmp_path):
    finished_run(goldens, tmp_path, "classification")
    return tmp_path


@pytest.fixture
def options(finished):
    return ExportOptions(
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


def test_versions_count_up_and_are_whole(finished, options, made, monkeypatch):
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
    described = read(str(finished))
    for name in ("global_step", "max_seq_length"):
        (finished / "metrics.json").write_text(f'{{"{name}": 1000}}')
        assert saved_model._metrics(str(finished), described) == {}
    with pytest.raises(OSError, match="export/9: disk full. Nothing was chang"):
        saved_model.run(options)
    assert sorted(os.listdir(finished / "export")) == names


def test_a_run_that_went_back_has_no_metrics_of_later_weights(
    finished, options, made, caplog
):
    for path in finished.glob("model.ckpt-60.*"):
        path.rename(path.with_name(path.name.replace("60", "20")))
    (finished / "checkpoint").write_text(
        'model_checkpoint_path: "model.ckpt-20"\n'
    )
    for step in 60, 20:
        (finished / "metrics.json").write_text(f'{{"global_step": {step}}}')
        card = os.path.join(saved_model.run(options), "README.md")
        with open(card, encoding="utf-8") as file:
            assert ("- global_step: " in file.read()) == (step == 20)
    assert caplog.text.count("global_step 60, but the model's is 20") == 1


def test_a_version_of_another_model_is_told(finished, options, made, caplog):
    saved_model.run(options)
    saved_model.run(options)
    assert "another model" not in caplog.text
    changes = {"labels": ["x", "y"], "task_name": "other"}
    change_description(finished / "export/2/assets", **changes)
    saved_model.run(options)
    assert "version 2 is another model's (labels x,y -> " in caplog.text
    assert "task_name other -> " in caplog.text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"newer": 1}, "another version .*'newer'"),
        ({"max_seq_length": "32"}, "ion .--max_seq_length='32'; .* a whole nu"),
        ({"do_lower_case": "true"}, "ion .--do_lower_case='true'; .* True or"),
    ],
)
def test_a_description_of_another_version_is_named(finished, changes, message):
    change_description(finished, **changes)
    for load in bert.load, saved_model.load:
        with pytest.raises(ValueError, match=message):
            load(str(finished))


def test_trials_export_the_chosen_one(goldens, tmp_path, made, caplog):
    (tmp_path / "trial-2").mkdir()
    finished_run(goldens, tmp_path / "trial-2", "regression")
    (tmp_path / "trials.json").write_text('{"chosen": "trial-2"}')
    assert saved_model.load(str(tmp_path)).description.kind == "regression"
    # Metrics of another length are not the model's; its folder says which.
    for folder in (tmp_path, tmp_path / "trial-2"):
        (folder / "metrics.json").write_text('{"max_seq_length": 1000}')
    export(tmp_path, serving=ServingOptions(signatures=("ids",)))
    assert "is about max_seq_length 1000" in caplog.text
    assert "1000" not in (tmp_path / "export/1/README.md").read_text()


def test_a_folder_of_no_finished_run_is_refused(tmp_path):
    with pytest.raises(ValueError, match="has no task.json"):
        read(str(tmp_path))
    (tmp_path / "task.json").write_text('{"labels": []}')
    with pytest.raises(ValueError, match="task.json is damaged: no kind, wei"):
        read(str(tmp_path))


def test_weights_of_another_model_are_refused(finished):
    model = {"kind": "classification", "num_labels": 2, "head": "bilstm"}
    change_description(finished, model=model)
    with pytest.raises(ValueError, match=r"output_weights: \(2, 32\) in the"):
        saved_model.load(str(finished))


def test_versions_within_the_folder_of_a_model_are_refused(
    tmp_path, monkeypatch
):
    # They would answer in place of its model.
    monkeypatch.chdir(tmp_path)
    for folder in "x/", f"{tmp_path}/./x":
        with pytest.raises(ValueError, match="--export_dir, a folder of its"):
            ExportOptions(output_dir="x", export_dir=folder)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "bert_config.json").touch()
    with pytest.raises(ValueError, match="in that of a model, other, it woul"):
        ExportOptions(output_dir="x", export_dir="other")


def test_a_folder_that_tensorflow_reads_as_a_glob_is_refused(tmp_path):
    with pytest.raises(ValueError, match="TensorFlow reads no checkpoint whos"):
        export(tmp_path, tmp_path / "a[1]")
    assert not (tmp_path / "a[1]").exists()
