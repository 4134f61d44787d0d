import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from modeling import BertModel, checkpoints, heads
from tests.support import rounding
from tests.support.model_folder_support import load_weights, write_weights
from tests.support.small_model import SMALL

BERT = dataclasses.replace(SMALL, initializer_range=0.5)
ELECTRA = dataclasses.replace(BERT, electra=True)
FACTORIZED = dataclasses.replace(ELECTRA, embedding_size=6)
GENERATOR = dataclasses.replace(
    FACTORIZED, hidden_size=8, num_attention_heads=1
)
BLOCK = [
    *(f"attention/self/{x}/{w}" for x in ("query", "key", "value")
      for w in ("kernel", "bias")),
    *(f"{x}/dense/{w}" for x in ("attention/output", "intermediate", "output")
      for w in ("kernel", "bias")),
    *(f"{x}/LayerNorm/{w}" for x in ("attention/output", "output")
      for w in ("gamma", "beta")),
]  # fmt: skip
EMBEDDINGS = [
    *("word_embeddings", "token_type_embeddings", "position_embeddings"),
    *("LayerNorm/gamma", "LayerNorm/beta"),
]


def shapes_of(*layers):
    variables = checkpoints.variables_by_name(layers)
    return {name: tuple(x.shape) for name, x in variables.items()}


def test_names_are_those_of_electra_s_own_checkpoints():
    # Read in google-research/electra, model/modeling.py and run_pretraining.py.
    electra = BertModel(FACTORIZED)
    found = shapes_of(
        electra,
        BertModel(GENERATOR, embeddings=electra.embeddings, name="generator"),
        heads.GeneratorPredictions(GENERATOR),
        heads.DiscriminatorPredictions(FACTORIZED),
    )
    assert {*found} == {
        *(f"electra/embeddings/{name}" for name in EMBEDDINGS),
        "electra/embeddings_project/kernel",
        "electra/embeddings_project/bias",
        *(f"electra/encoder/layer_0/{name}" for name in BLOCK),
        "generator/embeddings_project/kernel",
        "generator/embeddings_project/bias",
        *(f"generator/encoder/layer_0/{name}" for name in BLOCK),
        "generator_predictions/dense/kernel",
        "generator_predictions/dense/bias",
        "generator_predictions/LayerNorm/gamma",
        "generator_predictions/LayerNorm/beta",
        "generator_predictions/output_bias",
        "discriminator_predictions/dense/kernel",
        "discriminator_predictions/dense/bias",
        "discriminator_predictions/dense_1/kernel",
        "discriminator_predictions/dense_1/bias",
    }
    assert found["electra/embeddings/word_embeddings"] == (30, 6)
    assert found["electra/embeddings_project/kernel"] == (6, 16)
    assert found["generator/embeddings_project/kernel"] == (6, 8)
    assert found["generator_predictions/dense/kernel"] == (8, 6)
    assert found["discriminator_predictions/dense_1/kernel"] == (16, 1)


def test_the_same_width_needs_no_projection():
    bert, electra = shapes_of(BertModel(BERT)), shapes_of(BertModel(ELECTRA))
    assert electra == {
        name.replace("bert/", "electra/"): shape
        for name, shape in bert.items()
        if "pooler" not in name
    }


def test_without_a_pooler_the_first_wordpiece_is_the_text():
    electra = BertModel(FACTORIZED)
    ids = np.random.default_rng(0).integers(1, 30, (3, 8))
    mask = np.arange(8) < [[8], [3], [5]]
    output = electra(ids, mask)
    kernel, bias = electra.embeddings_project.weights
    embedded = electra.embeddings(ids) @ kernel.value + bias.value
    rounding.assert_equal(output.embedding_output, embedded)
    np.testing.assert_array_equal(
        output.pooled_output, output.get_sequence_output()[:, 0]
    )
    some = electra(ids, mask, positions=tf.constant([[3, 0], [2, 2], [4, 1]]))
    rounding.assert_equal(some.pooled_output, output.pooled_output)


@pytest.mark.parametrize(
    ("written", "wanted", "message"),
    [
        (ELECTRA, BERT, "is an ELECTRA, but .*electra_small.*--bert_config_fi"),
        (BERT, ELECTRA, "is a BERT, but .*true.*--bert_config_file"),
        (FACTORIZED, ELECTRA, r"_embeddings: \(30, 6\) in .*, \(30, 16\) in"),
    ],
)
def test_a_checkpoint_of_another_kind_is_refused(
    tmp_path, written, wanted, message
):
    path = write_weights(tmp_path / "model.ckpt", BertModel(written))
    with pytest.raises(ValueError, match=message):
        load_weights(path, BertModel(wanted))
