"""A graph goes with its model, and one compiled update serves many models."""

import gc
import weakref

import pytest
import tensorflow as tf

from modeling import PretrainingModel
from tests.support.small_model import BATCH, SMALL
from tests.support.tiers import rare
from tests.training.loop.updates import apply
from tests.training.support import steps_of
from training.inference import Evaluator
from training.loop import optimizers
from training.loop.lamb import Lamb


def graph_of_training(fuse=False, gradient_checkpointing=False):
    model = PretrainingModel(
        SMALL, gradient_checkpointing=gradient_checkpointing
    )
    batches = iter(tf.data.Dataset.from_tensors(BATCH))
    # A bound tf.function does not keep its object: a variable has to.
    steps = steps_of(model, train_batch_size=2, fuse=fuse)
    traced = steps.run.get_concrete_function(
        batches, tf.constant(1, tf.int64), tf.constant(1)
    )
    return weakref.ref(traced.graph)


def graph_of_evaluation():
    evaluator = Evaluator(PretrainingModel(SMALL))
    batches = iter(tf.data.Dataset.from_tensors(BATCH))
    return weakref.ref(evaluator._step.get_concrete_function(batches).graph)


@pytest.mark.parametrize(
    "make",
    [
        graph_of_evaluation,
        graph_of_training,
        rare(lambda: graph_of_training(fuse=True, gradient_checkpointing=True)),
    ],
    ids=["evaluation", "training", "compiled and recomputed"],
)
def test_the_graph_of_a_model_goes_with_it(make):
    graph = make()
    # What the first pass finalizes, the second one finds free.
    gc.collect()
    gc.collect()
    assert graph() is None


def updated(optimizer_class, names=("a/kernel",), **options):
    """The compiled update of an optimizer that has made one."""
    variables = {name: tf.Variable([1.0, 2.0]) for name in names}
    optimizer = optimizer_class(variables, **options)
    apply(optimizer, [[1.0, 1.0]] * len(names), 0.1)
    return optimizer._compiled


def test_models_alike_share_a_compiled_update_traced_once():
    update = updated(optimizers.AdamWeightDecay)
    assert updated(optimizers.AdamWeightDecay) is update
    assert update.experimental_get_tracing_count() == 1
    others = [
        updated(Lamb),
        updated(optimizers.AdamWeightDecay, skips_overflow=True),
        updated(optimizers.AdamWeightDecay, names=["a/bias"]),
        updated(optimizers.AdamWeightDecay, names=["a/kernel", "b/kernel"]),
        updated(optimizers.AdamWeightDecay, rates={"a/kernel": 0.5}),
    ]
    assert len({id(x) for x in (update, *others)}) == 6


def test_a_shared_update_holds_no_variables():
    variable = tf.Variable([1.0, 2.0])
    optimizer = optimizers.AdamWeightDecay({"a/kernel": variable})
    apply(optimizer, [[1.0, 1.0]], 0.1)
    alive = weakref.ref(variable), weakref.ref(optimizer)
    del variable, optimizer
    gc.collect()
    assert [x() for x in alive] == [None, None]
