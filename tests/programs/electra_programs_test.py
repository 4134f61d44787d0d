import numpy as np
import pytest

import bert
import modeling
from modeling import checkpoints
from tests.support import rounding
from tests.support.classifier_support import write_texts
from tests.support.conversion_support import convert
from tests.support.model_folders import change_json, write_released
from tests.support.vectors_support import extracted
from tests.training.finetuning_support import options_of
from training.runs import classifier

pytestmark = pytest.mark.all


LINES = ["The man went.", "To be."]


def test_a_generator_alone_is_refused(released, tmp_path):
    theirs = convert(released[0], tmp_path / "hf", electra_part="generator")
    message = "holds only the generator of an ELECTRA.*-discriminator"
    for folder in theirs, convert(theirs, tmp_path / "ours"):
        with pytest.raises(ValueError, match=message):
            modeling.load(str(folder))


def test_vectors_are_those_of_the_encoder(released, tmp_path):
    folder = released[0]
    found = extracted(folder, tmp_path, LINES, pooling="cls")
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
    write_texts(tmp_path / "data", LINES)  # one batch
    finetuning = {
        "bert_config_file": str(folder / "bert_config.json"),
        "init_checkpoint": str(folder),
        "train_batch_size": 2,
        "layerwise_lr_decay": 0.8,
    }
    options = options_of(goldens, tmp_path, finetuning=finetuning)
    classifier.run(options.replace(do_predict=False))
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
    change_json(tmp_path / "left/bert_config.json", left_to_right=True)
    model = bert.load(folder)
    assert model.kind == "pretraining"
    with pytest.raises(ValueError, match="reads left to right.*does not see"):
        model.fill_mask(["[MASK]"])
    # The advice to write a [MASK] would lead nowhere.
    with pytest.raises(ValueError, match="reads left to right"):
        model.ask(["no mask"])
    assert bert.load(bert_folder).fill_mask(["The [MASK]"])
