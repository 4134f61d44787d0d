"""Small Keras models around BertModel, and a batch for them."""

import keras
import numpy as np
import tensorflow as tf

from modeling import BertConfig, BertModel, TaskOutput

CONFIG = BertConfig(
    vocab_size=300,  # bfloat16 has no 257
    hidden_size=8,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=16,
    hidden_dropout_prob=0.5,
    attention_probs_dropout_prob=0.5,
    max_position_embeddings=6,
    type_vocab_size=2,
    initializer_range=0.5,
)
RANDOM = np.random.default_rng(0)
IDS = RANDOM.integers(0, 300, (8, 6)).astype(np.int32)
SEGMENTS = RANDOM.integers(0, 2, (8, 6)).astype(np.int32)
MASK = (np.arange(6) < RANDOM.integers(2, 7, (8, 1))).astype(np.int32)
LABELS = RANDOM.integers(0, 3, 8)
BATCH = {"input_ids": IDS, "input_mask": MASK, "segment_ids": SEGMENTS}


@keras.saving.register_keras_serializable("keras_test")
class Classifier(keras.Model):
    """A subclassed model."""

    def __init__(self, bert=None, **options):
        super().__init__()
        self.bert = bert or BertModel(CONFIG, **options)
        self.head = TaskOutput(3, CONFIG.hidden_size)

    def call(self, inputs, training=None):
        """Maps a batch to scores [B, 3]."""
        return self.head(self.bert(inputs, training=training).pooled_output)

    def get_config(self):
        """Returns the encoder."""
        return {"bert": keras.saving.serialize_keras_object(self.bert)}

    @classmethod
    def from_config(cls, config):
        """Takes the encoder."""
        return cls(keras.saving.deserialize_keras_object(config["bert"]))


def functional(**options):
    inputs = {
        name: keras.Input([None], dtype="int32", name=name) for name in BATCH
    }
    pooled = BertModel(CONFIG, **options)(inputs).pooled_output
    return keras.Model(inputs, TaskOutput(3, CONFIG.hidden_size)(pooled))


def sequential(**options):
    return keras.Sequential(
        [
            keras.Input([None], dtype="int32"),
            BertModel(CONFIG, output_key="pooled_output", **options),
            TaskOutput(3, CONFIG.hidden_size),
        ]
    )


def compiled(model, rate=0.01, **options):
    model.compile(
        optimizer=keras.optimizers.Adam(rate),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        **options,
    )
    return model


def losses_of_fit(model, inputs, epochs):
    return model.fit(
        inputs, LABELS, batch_size=8, epochs=epochs, shuffle=False, verbose=0
    ).history["loss"]


def learned(model, inputs):
    """Sorted paths of the variables that `fit` changes."""
    before = {v.path: v.numpy() for v in model.weights}
    losses_of_fit(model, inputs, epochs=1)
    return sorted(
        v.path
        for v in model.weights
        if not np.array_equal(v.numpy(), before[v.path])
    )


def cross_entropy(scores):
    log = tf.nn.log_softmax(tf.cast(scores, tf.float32)).numpy()
    return -np.mean(log[np.arange(8), LABELS])
