"""tf-models-official's side of compare.py, in its environment: pretraining.

It imports nothing of this project. A step is `MaskedLMTask.train_step`, as its
trainer calls it, in one `tf.function`, with AdamWeightDecay, the clipping of
gradients and its metrics. It scores the masked places alone.
"""

import os

# Before TensorFlow, because the library needs Keras 2.
os.environ["TF_USE_LEGACY_KERAS"] = "1"

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
import tf_keras  # noqa: E402
from official.nlp import optimization  # noqa: E402
from official.nlp.configs import bert, encoders  # noqa: E402
from official.nlp.data import pretrain_dataloader  # noqa: E402
from official.nlp.tasks import masked_lm  # noqa: E402
from protocol import elapsed, serve  # noqa: E402

_NAMES = {"input_ids": "input_word_ids", "segment_ids": "input_type_ids"}


def pretraining(case):
    """One update, with dropout."""
    sizes = dict(case["model"])
    sizes["num_layers"] = sizes.pop("num_hidden_layers")
    del sizes["hidden_act"]  # gelu
    encoder = encoders.BertEncoderConfig(**sizes)
    task = masked_lm.MaskedLMTask(
        masked_lm.MaskedLMConfig(
            model=bert.PretrainerConfig(
                encoder=encoders.EncoderConfig(type="bert", bert=encoder),
                cls_heads=[
                    bert.ClsHeadConfig(
                        inner_dim=case["model"]["hidden_size"],
                        dropout_rate=0.1,
                        name="next_sentence",
                    )
                ],
            ),
            train_data=pretrain_dataloader.BertPretrainDataConfig(),
        )
    )
    model = task.build_model()
    optimizer = optimization.create_optimizer(5e-5, 100_000, 0)
    metrics = task.build_metrics(training=True)
    batch = {
        _NAMES.get(name, name): tf.constant(value)
        for name, value in np.load(case["input"]).items()
    }

    @tf.function
    def step(batch):
        return task.train_step(batch, model, optimizer, metrics)

    return {"": lambda: [elapsed(lambda: step(batch)[task.loss].numpy())]}


def make(case):
    """Returns the ways of a case, see `protocol.serve`."""
    tf.config.threading.set_intra_op_parallelism_threads(case["threads"])
    tf.config.threading.set_inter_op_parallelism_threads(case["threads"])
    if case["precision"] == "bfloat16":
        tf_keras.mixed_precision.set_global_policy("mixed_bfloat16")
    libraries = f"tf-models-official, TensorFlow {tf.__version__}"
    return pretraining(case), libraries


if __name__ == "__main__":
    serve(make)
