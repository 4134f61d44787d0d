import dataclasses
import json
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file

import bert
import modeling
from modeling import BertConfig, BertModel, SpanModel, checkpoints
from modeling import heads as model_heads
from tests.support import huggingface_support as theirs
from tests.support import rounding
from tests.support.conversion_support import convert, refused
from tests.support.electra_support import CHANGES, SMALL, E, config_of
from tests.support.model_folder_support import write_with
from tests.support.serving_support import TEXTS, finished_run
from training.config.run_options import ExportOptions
from training.export import saved_model


def scopes_of(names):
    return {name.split("/")[0] for name in names}


@pytest.mark.parametrize(
    ("part", "architecture", "size"),
    [
        ("discriminator", "ElectraForPreTraining", 32),
        ("generator", "ElectraForMaskedLM", SMALL),
    ],
)
def test_there_and_back_is_the_same_bit_for_bit(
    released, tmp_path, part, architecture, size
):
    folder, values = released
    there = convert(folder, tmp_path / "there", electra_part=part)
    config = json.loads((there / "config.json").read_text())
    assert config["model_type"] == "electra"
    assert config["architectures"] == [architecture]
    assert (config["embedding_size"], config["hidden_size"]) == (E, size)
    assert "electra" not in config
    back = convert(there, tmp_path / "back")
    written = checkpoints.open_checkpoint(str(back))
    # Of the discriminator, only the embeddings belong to a generator.
    scopes = {
        "discriminator": ("electra/", "discriminator_predictions/"),
        "generator": ("electra/embeddings/", "generator"),
    }[part]
    expected = {name for name in values if name.startswith(scopes)}
    assert written.shapes.keys() == expected
    for name in expected:
        np.testing.assert_array_equal(written.read(name), values[name])
    # And once more: a generator alone needs no flag.
    again = convert(back, tmp_path / "again")
    tensors = load_file(there / "model.safetensors")
    for name, value in load_file(again / "model.safetensors").items():
        np.testing.assert_array_equal(value, tensors[name])
    text = (again / "config.json").read_text()
    assert text == (there / "config.json").read_text()


def electra_tensors(*heads):
    """Random tensors of Hugging Face's names, with a projection."""
    tensors = {
        f"electra.{name}": value
        for name, value in theirs.tensors_of().items()
        if not name.startswith("pooler.")
    }
    rng = np.random.default_rng(2)
    for name, value in tensors.items():
        if ".embeddings." in name:
            tensors[name] = np.ascontiguousarray(value[..., :E])
    shapes = {
        "electra.embeddings_project.weight": (theirs.H, E),
        "electra.embeddings_project.bias": (theirs.H,),
        **dict(heads),
    }
    return tensors | {
        name: rng.normal(0, 0.3, shape).astype(np.float32)
        for name, shape in shapes.items()
    }


def write_electra(folder, tensors, architecture, **config):
    return theirs.write_folder(
        folder,
        tensors,
        model_type="electra",
        architectures=[architecture],
        embedding_size=E,
        **config,
    )


DISCRIMINATOR = {
    "discriminator_predictions.dense.weight": (theirs.H, theirs.H),
    "discriminator_predictions.dense.bias": (theirs.H,),
    "discriminator_predictions.dense_prediction.weight": (1, theirs.H),
    "discriminator_predictions.dense_prediction.bias": (1,),
}


def test_a_discriminator_of_theirs_gives_their_numbers(tmp_path):
    tensors = electra_tensors(*DISCRIMINATOR.items())
    path = write_electra(tmp_path, tensors, "ElectraForPreTraining")
    config = BertConfig.from_json_file(f"{path}/config.json")
    assert (config.electra, config.embedding_size) == (True, E)
    assert config.hidden_act == "gelu_exact"
    electra = BertModel(config)
    head = model_heads.DiscriminatorPredictions(config)
    variables = checkpoints.variables_by_name([electra, head])
    report = checkpoints.init_from_checkpoint(path, variables)
    assert not report.missing
    assert not report.unused
    rng = np.random.default_rng(3)
    mask = (np.arange(9) < [[9], [4]]).astype(np.int32)
    ids = rng.integers(5, theirs.V, mask.shape).astype(np.int32)
    segments = rng.integers(0, 2, mask.shape).astype(np.int32)
    sequence, _ = theirs.encode(tensors, ids, mask, segments)
    name = "discriminator_predictions.dense"
    expected = theirs.gelu(theirs.linear(tensors, name, sequence))
    expected = theirs.linear(tensors, f"{name}_prediction", expected)[..., 0]
    scores = head(electra(ids, mask, segments).get_sequence_output())
    # float32 against float64; a wrong transpose is off by more than that.
    bound = rounding.EQUAL * max(1, rounding.root_mean_square(expected))
    np.testing.assert_allclose(scores, expected, rtol=0, atol=bound)


def test_an_encoder_alone_has_no_prefix(goldens, tmp_path):
    tensors = electra_tensors()
    bare = {n.removeprefix("electra."): x for n, x in tensors.items()}
    paths = [
        write_electra(tmp_path / name, some, "ElectraModel")
        for name, some in (("whole", tensors), ("bare", bare))
    ]
    # Without a projection, config.json says what it is.
    del bare["embeddings_project.weight"], bare["embeddings_project.bias"]
    paths.append(write_electra(tmp_path / "same", bare, "ElectraModel"))
    whole, other, same = map(checkpoints.open_checkpoint, paths)
    assert whole.shapes == other.shapes
    assert scopes_of(whole.shapes) == scopes_of(same.shapes) == {"electra"}
    # And their file of it has none.
    folder = tmp_path / "bare"
    shutil.copy(goldens / "vocab.txt", folder)
    back = convert(convert(folder, tmp_path / "ours"), tmp_path / "back")
    found = load_file(back / "model.safetensors")
    assert found.keys() == load_file(folder / "model.safetensors").keys()


def test_a_generator_s_own_output_matrix_is_refused(tmp_path):
    table = {"generator_lm_head.weight": (theirs.V, E)}
    head = {"generator_predictions.dense.weight": (E, theirs.H)}
    tensors = electra_tensors(*table.items(), *head.items())
    path = write_electra(tmp_path, tensors, "ElectraForMaskedLM")
    with pytest.raises(ValueError, match="generator_lm_head.weight is not"):
        checkpoints.open_checkpoint(path)
    words = tensors["electra.embeddings.word_embeddings.weight"]
    tensors["generator_lm_head.weight"] = words.copy()
    path = write_electra(tmp_path, tensors, "ElectraForMaskedLM")
    shapes = checkpoints.open_checkpoint(path).shapes
    assert "generator_lm_head.weight" not in shapes
    assert shapes["generator_predictions/dense/kernel"] == (theirs.H, E)


@pytest.mark.parametrize(
    "head",
    [
        {"classifier.dense.weight": (theirs.H, theirs.H),
         "classifier.out_proj.weight": (3, theirs.H)},
        {"sequence_summary.summary.weight": (theirs.H, theirs.H),
         "classifier.weight": (1, theirs.H), "classifier.bias": (1,)},
    ],
    ids=["texts", "choices"],
)  # fmt: skip
def test_a_head_with_one_more_layer_is_not_taken(goldens, tmp_path, head):
    tensors = electra_tensors(*head.items())
    path = write_electra(tmp_path, tensors, "ElectraForSequenceClassification")
    assert "output_weights" not in checkpoints.open_checkpoint(path).shapes
    shutil.copy(goldens / "vocab.txt", path)
    with pytest.raises(ValueError, match="one more dense layer.*kind='encoder"):
        modeling.load(path)


@pytest.mark.all
def test_a_finished_run_answers_and_is_exported(goldens, tmp_path):
    finished_run(goldens, tmp_path, "classification", **CHANGES)
    model = bert.load(tmp_path)
    want = [answer["probabilities"] for answer in model.predict(TEXTS)]
    assert np.ptp([row["no"] for row in want]) > 0.01
    folder = str(tmp_path / "export")
    saved_model.run(ExportOptions(output_dir=str(tmp_path), export_dir=folder))
    got = [x["probabilities"] for x in bert.load(folder).predict(TEXTS)]
    for row, expected in zip(got, want, strict=True):
        assert row == pytest.approx(expected, abs=rounding.EQUAL)
    assert "serve_text" in (tmp_path / "export/1/README.md").read_text()
    message = r"an output layer \(classification\).* one more dense layer"
    refused(message, tmp_path, tmp_path / "theirs")


@pytest.mark.parametrize(
    ("kind", "architecture"),
    [
        ("tagging", "ElectraForTokenClassification"),
        ("span", "ElectraForQuestionAnswering"),
        ("encoder", "ElectraModel"),
    ],
)
def test_what_has_a_counterpart_is_converted(
    goldens, tmp_path, kind, architecture
):
    folder = tmp_path / "ours"
    if kind == "tagging":
        folder.mkdir()
        finished_run(goldens, folder, kind, **CHANGES)
    else:
        make_model = SpanModel if kind == "span" else BertModel
        write_with(goldens, folder, make_model, **CHANGES)
    there = convert(folder, tmp_path / "theirs")
    values = json.loads((there / "config.json").read_text())
    assert values["architectures"] == [architecture]
    assert modeling.load(str(there)).kind == kind


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (
            {"hidden_act": "relu"},
            {"electra_part": "generator"},
            "hidden_act is 'relu', but .* gelu_exact; pretrain one with that",
        ),
        ({"electra": False, "embedding_size": None}, {}, "is an ELECTRA, but"),
        ({"embedding_size": 5}, {}, "does not fit the configuration"),
    ],
)
def test_what_cannot_be_converted_is_refused(
    goldens, released, tmp_path, change, options, message
):
    config = dataclasses.replace(config_of(goldens), **change)
    (tmp_path / "bert_config.json").write_text(config.to_json_string())
    options["bert_config_file"] = f"{tmp_path}/bert_config.json"
    refused(message, released[0], tmp_path / "there", **options)


def test_a_bert_has_no_generator(bert_folder, tmp_path):
    message = "--electra_part=generator: .* has no generator"
    part = {"electra_part": "generator"}
    refused(message, bert_folder, tmp_path / "there", **part)
