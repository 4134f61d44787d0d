"""A small ELECTRA as pretraining leaves it, and its conversion."""

import dataclasses

import keras
import numpy as np

from modeling import BertConfig, BertModel, checkpoints
from modeling import heads as model_heads

E, SMALL = 6, 8  # widths of the embeddings and of the generator


CHANGES = {
    "electra": True,
    "embedding_size": E,
    "hidden_act": "gelu_exact",
    "initializer_range": 0.3,
}


def config_of(goldens):
    """The golden model's sizes, of one layer, as an ELECTRA."""
    config = BertConfig.from_json_file(str(goldens / "first_layer.json"))
    return dataclasses.replace(config, **CHANGES)


def write_electra_run(goldens, folder):
    """Writes both encoders and slots, as pretraining leaves them.

    Returns the folder; variable name -> value.
    """
    config = config_of(goldens)
    small = dataclasses.replace(
        config, hidden_size=SMALL, intermediate_size=32, num_attention_heads=1
    )
    keras.utils.set_random_seed(1)
    electra = BertModel(config)
    variables = checkpoints.variables_by_name(
        [
            electra,
            BertModel(small, embeddings=electra.embeddings, name="generator"),
            model_heads.GeneratorPredictions(small),
            model_heads.DiscriminatorPredictions(config),
        ]
    )
    rng = np.random.default_rng(1)
    # Biases too: zeros would hide a mistake.
    values = {
        name: rng.normal(0, 0.3, x.shape).astype(np.float32)
        for name, x in variables.items()
    }
    slots = {f"{n}/adam_m": np.zeros_like(x) for n, x in values.items()}
    prefix = str(folder / "electra_small")
    checkpoints.write(prefix, values | slots | {"global_step": np.int64(9)})
    (folder / "bert_config.json").write_text(config.to_json_string())
    (folder / "vocab.txt").write_bytes((goldens / "vocab.txt").read_bytes())
    return folder, values
