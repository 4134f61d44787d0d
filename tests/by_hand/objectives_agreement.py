r"""Compares the objectives of pretraining with Hugging Face's transformers.

  make peers
  python tests/by_hand/objectives_agreement.py

Random weights of both objectives go to transformers' classes, through
convert_checkpoint.py's code, with the same masks and replacements. Fails above
a relative difference of 1e-5 in a loss, or of 1e-5 of the largest output in an
output.
"""

import dataclasses
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from modeling import (  # noqa: E402
    BertConfig,
    LeftToRightModel,
    ReplacedTokensModel,
)
from modeling.objectives import replaced_tokens  # noqa: E402
from tests.by_hand import huggingface_agreement  # noqa: E402
from tests.by_hand.huggingface_agreement import CONFIG, VOCAB  # noqa: E402

TOLERANCE = 1e-5
TOKEN_IDS = (4, 2, 3)


def read_config(**sizes):
    """The golden model's configuration, with transformers' gelu."""
    config = BertConfig.from_json_file(CONFIG)
    return dataclasses.replace(config, hidden_act="gelu_exact", **sizes)


def make_batch(folder):
    """Rows of 4 to 40 wordpieces, with padding and two segments."""
    size = read_config().vocab_size
    batch = huggingface_agreement.write_batch(folder, "", size)
    batch["input_ids"][:, 0] = TOKEN_IDS[1]
    return {name: tf.constant(x) for name, x in batch.items()}


def convert(folder, name, **options):
    """Converts our model in a folder to one of transformers there."""
    huggingface_agreement.convert(
        f"{folder}/ours",
        f"{folder}/{name}",
        bert_config_file=f"{folder}/config.json",
        vocab_file=VOCAB,
        **options,
    )


def write(model, config, folder):
    """Writes a model of ours with random weights, and its configuration."""
    huggingface_agreement.write_random(model, f"{folder}/ours")
    Path(folder, "config.json").write_text(config.to_json_string())


def electra(folder):
    """Writes generator and discriminator; returns our outputs."""
    folder = Path(folder, "electra")
    folder.mkdir()
    config = read_config(electra=True, embedding_size=24)
    model = ReplacedTokensModel(config, token_ids=TOKEN_IDS, generator_size=0.5)
    write(model, config, folder)
    for part in "generator", "discriminator":
        convert(folder, part, electra_part=part)
    batch = make_batch(folder)
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
    np.savez(
        f"{folder}/batch.npz",
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
    folder = Path(folder, "left_to_right")
    folder.mkdir()
    config = read_config()
    model = LeftToRightModel(config)
    # The class of transformers says that it reads left to right, not the file.
    write(model, config, folder)
    convert(folder, "decoder")
    batch = make_batch(folder)
    np.savez(f"{folder}/batch.npz", **batch)
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
    huggingface_agreement.run_theirs("objectives_agreement_theirs.py", folder)
    theirs = np.load(f"{folder}/theirs.npz")
    worst = 0.0
    print("output: greatest difference, as a share of the largest value")
    for name, value in ours.items():
        largest = np.abs(theirs[name]).max()
        difference = np.abs(np.asarray(value) - theirs[name]).max() / largest
        worst = max(worst, difference)
        print(f"{name}: {difference:.1e} of {largest:.4f}")
    return worst <= TOLERANCE


if __name__ == "__main__":
    huggingface_agreement.start(compare)
