r"""Compares the objectives of pretraining with Hugging Face's transformers.

  make peers
  python tests/by_hand/objectives_agreement.py

Random weights of both objectives go to transformers' classes, with the same
masks and replacements. Fails above a relative difference of 1e-5 in a loss, or
of 1e-5 of the largest output in an output.
"""

import dataclasses
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import tensorflow as tf
from absl import app, flags

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from modeling import (  # noqa: E402
    BertConfig,
    LeftToRightModel,
    ReplacedTokensModel,
    checkpoints,
)
from modeling.checkpoints import huggingface  # noqa: E402
from modeling.objectives import replaced_tokens  # noqa: E402

FLAGS = flags.FLAGS
TOLERANCE = 1e-5
CONFIG = BertConfig(
    vocab_size=200,
    hidden_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=128,
    hidden_act="gelu_exact",
    max_position_embeddings=48,
    type_vocab_size=2,
)
TOKEN_IDS = (4, 2, 3)
LENGTH = 40


def make_batch():
    """Rows of 4 to 40 wordpieces, with padding and two segments."""
    rng = np.random.default_rng(7)
    lengths = rng.integers(4, LENGTH + 1, (8, 1))
    mask = np.arange(LENGTH) < lengths
    ids = rng.integers(5, CONFIG.vocab_size, (8, LENGTH))
    ids[:, 0] = TOKEN_IDS[1]
    return {
        "input_ids": tf.constant(ids * mask, tf.int32),
        "input_mask": tf.constant(mask, tf.int32),
        "segment_ids": tf.constant(
            (np.arange(LENGTH) >= lengths // 2) & mask, tf.int32
        ),
    }


def with_weights(model):
    """Random values for all weights, by name."""
    rng = np.random.default_rng(3)
    variables = checkpoints.variables_by_name(model.layers)
    for variable in variables.values():
        # Biases and layer norms too: zeros and ones would hide a mistake.
        variable.assign_add(rng.normal(0, 0.1, variable.shape))
    return {name: variable.numpy() for name, variable in variables.items()}


def encoder_tensors(weights, scope):
    """Their tensors of an encoder whose embeddings are ELECTRA's."""
    parts = (f"{scope}/encoder/", "electra/embeddings/")
    encoder = {
        f"bert/{name.partition('/')[2]}": value
        for name, value in weights.items()
        if name.startswith(parts)
    }
    tensors = huggingface.to_tensors(encoder, is_encoder_alone=True)
    found = {f"electra.{name}": value for name, value in tensors.items()}
    return found | dense_tensors(
        weights, f"{scope}/embeddings_project", "electra.embeddings_project"
    )


def dense_tensors(weights, ours, theirs):
    """Their tensors of a dense layer."""
    return {
        f"{theirs}.weight": weights[f"{ours}/kernel"].T,
        f"{theirs}.bias": weights[f"{ours}/bias"],
    }


def write_electra(folder, weights):
    """Writes their tensors of generator and discriminator."""
    head = "generator_predictions"
    generator = encoder_tensors(weights, "generator") | {
        **dense_tensors(weights, f"{head}/dense", f"{head}.dense"),
        f"{head}.LayerNorm.weight": weights[f"{head}/LayerNorm/gamma"],
        f"{head}.LayerNorm.bias": weights[f"{head}/LayerNorm/beta"],
        "generator_lm_head.bias": weights[f"{head}/output_bias"],
    }
    head = "discriminator_predictions"
    discriminator = encoder_tensors(weights, "electra") | {
        **dense_tensors(weights, f"{head}/dense", f"{head}.dense"),
        **dense_tensors(weights, f"{head}/dense_1", f"{head}.dense_prediction"),
    }
    np.savez(f"{folder}/generator.npz", **generator)
    np.savez(f"{folder}/discriminator.npz", **discriminator)


def electra(folder):
    """Writes generator and discriminator; returns our outputs."""
    config = dataclasses.replace(CONFIG, electra=True, embedding_size=24)
    model = ReplacedTokensModel(config, token_ids=TOKEN_IDS, generator_size=0.5)
    weights, batch = with_weights(model), make_batch()
    masked = model.mask(batch, None)
    logits = model.generator_logits(batch, masked, None)
    sampled = replaced_tokens.sample(logits, tf.reshape(masked.numbers, [-1]))
    sampled = tf.reshape(sampled, tf.shape(masked.positions))
    replaced = replaced_tokens.replace(batch, masked, sampled)
    scores = model.discriminator_logits(batch, replaced, None)
    total, metrics = model.losses(batch, model.loss_weights(batch))
    losses = [
        metric[0] / metric[1]
        for metric in (metrics["masked_lm_loss"], metrics["disc_loss"])
    ]
    write_electra(folder, weights)
    np.savez(
        f"{folder}/electra.npz",
        **batch,
        masked_ids=masked.input_ids,
        positions=masked.positions,
        weights=masked.weights,
        replaced=replaced,
    )
    is_real = batch["input_mask"].numpy() == 1
    return {
        "generator logits": logits.numpy()[masked.weights.numpy().ravel() == 1],
        "generator loss": losses[0],
        "discriminator logits": scores.numpy()[is_real],
        "discriminator loss": losses[1],
        "loss": total,
    }


def left_to_right(folder):
    """Writes a left-to-right model; returns our outputs."""
    model = LeftToRightModel(CONFIG)
    weights, batch = with_weights(model), make_batch()
    kept = {n: x for n, x in weights.items() if "pooler" not in n}
    np.savez(
        f"{folder}/decoder.npz",
        **huggingface.to_tensors(kept, is_encoder_alone=False),
    )
    np.savez(f"{folder}/left_to_right.npz", **batch)
    vectors = model.encode(batch).get_sequence_output()
    table = tf.convert_to_tensor(model.bert.get_embedding_table())
    logits = model.cls(vectors, table).numpy()
    loss, _ = model.losses(batch, model.loss_weights(batch))
    is_real = batch["input_mask"].numpy() == 1
    return {
        "left-to-right logits": logits[is_real],
        "left-to-right loss": loss,
    }


def compare(folder):
    """Prints a line an output; True if all of them agree."""
    ours = electra(folder) | left_to_right(folder)
    script = Path(__file__).with_name("objectives_agreement_theirs.py")
    subprocess.run(
        [FLAGS.python, script, folder],
        env=os.environ | {"HF_HUB_OFFLINE": "1"},
        check=True,
    )
    theirs = np.load(f"{folder}/theirs.npz")
    worst = 0.0
    print("output: greatest difference, as a share of the largest value")
    for name, value in ours.items():
        largest = np.abs(theirs[name]).max()
        difference = np.abs(np.asarray(value) - theirs[name]).max() / largest
        worst = max(worst, difference)
        print(f"{name}: {difference:.1e} of {largest:.4f}")
    return worst <= TOLERANCE


def main(_):
    """Exits with 1 if they do not agree."""
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(not compare(folder))


if __name__ == "__main__":
    flags.DEFINE_string(
        "python", str(ROOT / ".venv-peers/bin/python"), "Of `make peers`."
    )
    app.run(main)
