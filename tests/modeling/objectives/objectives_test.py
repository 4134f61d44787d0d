import pytest
import tensorflow as tf

from modeling import BertModel, objectives
from modeling.objectives import base
from tests.support.small_model import SMALL


@pytest.mark.parametrize("name", objectives.names())
def test_an_objective_is_found_by_name(name):
    model = objectives.get(name)
    assert issubclass(model, base.Objective)
    assert model.__module__ == f"modeling.objectives.{name}"


def test_an_unknown_objective_is_refused_with_the_names_of_all():
    message = f"'base'; it must be one of {', '.join(objectives.names())}."
    with pytest.raises(ValueError, match=message):
        objectives.get("base")


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("pretraining", ()),
        ("left_to_right", ()),
        ("spans", ()),
        ("tasks", ("classification", 2)),
    ],
)
def test_options_of_the_encoder_reach_it(name, arguments):
    make = objectives.get(name)
    model = make(
        SMALL,
        *arguments,
        dtype="mixed_bfloat16",
        use_one_hot_embeddings=True,
        whole_last_layer=True,
    )
    assert model.bert.embeddings.use_one_hot_embeddings
    assert model.bert.encoder.whole_last_layer
    assert not model.bert.encoder.gradient_checkpointing
    assert {x.compute_dtype for x in model.layers} == {"bfloat16"}
    assert model.layers[0] is model.bert
    with pytest.raises(TypeError, match="'whole_last'"):
        make(SMALL, *arguments, whole_last=True)


class Mean(base.ItemObjective):
    """Two items with losses 1 and 3."""

    metric = "hits"

    def logits(self, batch, dropout_seed=None):
        return tf.constant([1.0, 3.0])

    def items(self, batch, logits):
        return logits, tf.constant([1.0, 0.0])


def test_fillers_count_nowhere_and_parts_add_up():
    model = Mean(BertModel(SMALL))
    batch = {"input_ids": tf.ones([2, 3], tf.int32)}
    assert model.loss_weights(batch)["loss"] == 2.0
    loss, metrics = model.losses(batch, {"loss": tf.constant(4.0)})
    assert loss == (1 + 3) / 4
    assert metrics["hits"].numpy().tolist() == [1.0, 2.0]
    batch["is_real_example"] = tf.constant([[1], [0]])
    loss, metrics = model.losses(batch, model.loss_weights(batch))
    assert loss == 1.0
    assert metrics["hits"].numpy().tolist() == [1.0, 1.0]
    batch["is_real_example"] = tf.constant([[0], [0]])
    assert model.losses(batch, model.loss_weights(batch))[0] == 0.0
