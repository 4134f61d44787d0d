"""The original's side of compare.py, in its environment; and its programs.

Google's package bert-tensorflow is the original release, for TensorFlow 1. It
runs on TensorFlow 2.15, the last one with `tf.estimator`: `install` makes
`tensorflow` its TensorFlow 1 interface, with the five parts of `tf.contrib`
that the original uses. A program of it runs with its own flags:

  .venv-original/bin/python benchmarks/peers/original.py run_pretraining \
    --do_eval --init_checkpoint=model.ckpt-20 ...

Without arguments, it serves compare.py: one update of run_pretraining.py.
"""

import runpy
import sys
import types

import numpy as np
import tensorflow.compat.v1 as tf
from protocol import elapsed, serve

_STEPS = 100_000  # of the schedule


def install():
    """Makes `import tensorflow` of the original's files work."""
    estimator_tpu = tf.estimator.tpu
    estimator_tpu.CrossShardOptimizer = tf.tpu.CrossShardOptimizer
    tf.contrib = types.SimpleNamespace(
        tpu=estimator_tpu,
        data=tf.data.experimental,
        cluster_resolver=tf.distribute.cluster_resolver,
        layers=types.SimpleNamespace(layer_norm=_layer_norm),
    )
    tf.logging.set_verbosity(tf.logging.INFO)
    sys.modules["tensorflow"] = tf


def _layer_norm(inputs, begin_norm_axis, begin_params_axis, scope):
    """`tf.contrib.layers.layer_norm` over the last axis, as they call it."""
    size = inputs.shape[-1:]
    with tf.variable_scope(scope, "LayerNorm"):
        beta = tf.get_variable("beta", size, initializer=tf.zeros_initializer)
        gamma = tf.get_variable("gamma", size, initializer=tf.ones_initializer)
    mean, variance = tf.nn.moments(inputs, [-1], keepdims=True)
    return tf.nn.batch_normalization(inputs, mean, variance, beta, gamma, 1e-12)


def pretraining(case):
    """One update, with dropout."""
    from bert import modeling, run_pretraining

    with np.load(case["input"]) as file:
        batch = dict(file)
    features = {
        name: tf.placeholder(value.dtype, value.shape, name)
        for name, value in batch.items()
    }
    model_fn = run_pretraining.model_fn_builder(
        bert_config=modeling.BertConfig(**case["model"]),
        init_checkpoint=None,
        learning_rate=5e-5,
        num_train_steps=_STEPS,
        num_warmup_steps=_STEPS // 10,
        use_tpu=False,
        use_one_hot_embeddings=False,
    )
    spec = model_fn(features, None, tf.estimator.ModeKeys.TRAIN, {})
    session = tf.Session(
        config=tf.ConfigProto(
            intra_op_parallelism_threads=case["threads"],
            inter_op_parallelism_threads=case["threads"],
        )
    )
    session.run(tf.global_variables_initializer())
    feed = {features[name]: value for name, value in batch.items()}
    return {"": lambda: [elapsed(session.run, spec.train_op, feed)]}


def make(case):
    """Returns the ways of a case, see `protocol.serve`."""
    return pretraining(case), f"bert-tensorflow, TensorFlow {tf.__version__}"


if __name__ == "__main__":
    install()
    tf.disable_v2_behavior()
    if len(sys.argv) > 1:
        program = sys.argv.pop(1)
        runpy.run_module(f"bert.{program}", run_name="__main__", alter_sys=True)
    else:
        serve(make)
