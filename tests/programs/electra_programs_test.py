import json

import numpy as np
import pytest

import bert
import modeling
from modeling import checkpoints
from tests.support import rounding
from tests.support.classifier_support import write_texts
from tests.support.conversion_support import convert
from tests.support.model_folders import write_released
from tests.support.vectors_support import extracted
from tests.training.finetuning_support import options_of
from training.runs import classifier

pytestmark = pytest.mark.all


LINES = ["The man went.", "To be."]


def classify(goldens, folder, config_file, tmp_path):
    """run_classifier.py on a table of two rows, which are one batch."""
    write_texts(tmp_path / "data", LINES)
    finetuning = {
        "bert_config_file": config_file,
        "init_checkpoint": str(folder),
        "train_batch_size": 2,
        "layerwise_lr_decay": 0.8,
    }
    options = options_of(goldens, tmp_path, finetuning=finetuning)
    return classifier.run(options.replace(do_predict=False))


def extract(goldens, folder, config_file, tmp_path):
    """extract_features.py on two lines."""
    changes = {"config_file": config_file, "pooling": "cls"}
    return extracted(folder, tmp_path, LINES, **changes)


PROGRAMS = pytest.mark.parametrize("program", [classify, extract])


@PROGRAMS
def test_an_electra_is_refused_for_a_bert_s_configuration(
    goldens, released, tmp_path, program
):
    config_file = f"{goldens}/first_layer.json"
    message = "electra_small is an ELECTRA, but .* BERT.*configs/electra_small"
    with pytest.raises(ValueError, match=message):
        program(goldens, released[0], config_file, tmp_path)
    assert not list(tmp_path.glob("out/model.ckpt*"))


@PROGRAMS
def test_a_bert_is_refused_for_an_electra_s_configuration(
    goldens, released, bert_folder, tmp_path, program
):
    config_file = f"{released[0]}/bert_config.json"
    message = "bert_model.ckpt is a BERT, but .* of an ELECTRA"
    with pytest.raises(ValueError, match=message):
        program(goldens, bert_folder, config_file, tmp_path)
    assert not list(tmp_path.glob("out/model.ckpt*"))


@pytest.fixture(scope="module")
def generator(released, tmp_path_factory):
    """The generator alone, in both formats."""
    folder = tmp_path_factory.mktemp("generator")
    there = convert(released[0], folder / "hf", electra_part="generator")
    return there, convert(there, folder / "ours")


@PROGRAMS
def test_a_generator_alone_is_refused(goldens, generator, tmp_path, program):
    message = "holds only the generator of an ELECTRA.*-discriminator"
    there, ours = generator
    with pytest.raises(ValueError, match=message):
        modeling.load(str(there))
    config_file = str(ours / "bert_config.json")
    with pytest.raises(ValueError, match=message):
        program(goldens, ours, config_file, tmp_path)


def test_vectors_are_those_of_the_encoder(goldens, released, tmp_path):
    folder = released[0]
    config_file = str(folder / "bert_config.json")
    found = extract(goldens, folder, config_file, tmp_path)
    (vectors,) = [found[name] for name in found if "vectors" in name]
    model = bert.load(folder)
    assert model.kind == "encoder"
    expected = model.encode(LINES, pooling="cls")
    rounding.assert_equal(vectors.reshape(expected.shape), expected)
    # `encoder` leaves the heads of pretraining aside.
    with pytest.raises(ValueError, match="kind encoder, but fill_mask needs"):
        model.fill_mask(["[MASK]"])
    with pytest.raises(ValueError, match="is no pretraining model: it has no"):
        modeling.load(str(folder), kind="pretraining")


def test_a_classifier_is_trained_with_the_decay(goldens, released, tmp_path):
    folder, values = released
    config_file = str(folder / "bert_config.json")
    classify(goldens, folder, config_file, tmp_path)
    out = tmp_path / "out"
    (index,) = out.glob("model.ckpt-*.index")
    trained = checkpoints.Checkpoint(str(index.with_suffix("")))
    # Of two updates the last one has rate 0. Adam's first update of an element
    # is as large as the rate, whatever its gradient, unless that is near 1e-6.
    changes = {
        part: np.abs(trained.read(name) - values.get(name, 0)).max()
        for part, name in {
            "head": "output_bias",
            "block": "electra/encoder/layer_0/output/LayerNorm/beta",
            "projection": "electra/embeddings_project/bias",
            "embeddings": "electra/embeddings/LayerNorm/beta",
        }.items()
    }
    assert changes["head"] > 0
    for part, power in (("block", 2), ("projection", 3), ("embeddings", 3)):
        # One power more or less is off by 20 %.
        expected = pytest.approx(0.8**power, rel=0.05)
        assert changes[part] / changes["head"] == expected, part
    assert not any(n.startswith("generator") for n in trained.shapes)
    assert bert.load(out).predict(["To be."])[0]["label"] in ("l0", "l1")


def test_a_left_to_right_model_fills_no_masks(goldens, bert_folder, tmp_path):
    folder = write_released(goldens, tmp_path / "left")
    config = tmp_path / "left/bert_config.json"
    values = json.loads(config.read_text())
    config.write_text(json.dumps(values | {"left_to_right": True}))
    model = bert.load(folder)
    assert model.kind == "pretraining"
    with pytest.raises(ValueError, match="reads left to right.*does not see"):
        model.fill_mask(["[MASK]"])
    with pytest.raises(ValueError, match="reads left to right"):
        model.ask(["[MASK]"])
    assert bert.load(bert_folder).fill_mask(["The [MASK]"])
