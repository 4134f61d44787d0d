"""The half of objectives_agreement.py that runs in transformers' environment.

It imports nothing of this project. It reads arrays and writes arrays.
"""

import sys

import numpy as np
import torch
from huggingface_agreement_theirs import inputs_of, load


def electra(folder):
    """Outputs and losses of generator and discriminator."""
    folder = f"{folder}/electra"
    arrays = dict(np.load(f"{folder}/batch.npz"))
    ids, replaced = (
        torch.tensor(arrays[name]).long() for name in ("input_ids", "replaced")
    )
    generator = load(f"{folder}/generator", "ElectraForMaskedLM")
    discriminator = load(f"{folder}/discriminator", "ElectraForPreTraining")
    rows, places = np.nonzero(arrays["weights"])
    positions = torch.tensor(arrays["positions"][rows, places]).long()
    rows = torch.tensor(rows)
    logits = generator(**inputs_of(arrays, "masked_ids")).logits
    logits = logits[rows, positions]
    # Not with `labels`, which cannot name a position twice.
    loss = torch.nn.functional.cross_entropy(logits, ids[rows, positions])
    found = discriminator(
        **inputs_of(arrays, "replaced"), labels=(replaced != ids).float()
    )
    is_real = torch.tensor(arrays["input_mask"]) == 1
    return {
        "generator logits": logits,
        "generator loss": loss,
        "discriminator logits": found.logits[is_real],
        "discriminator loss": found.loss,
        "loss": loss + 50 * found.loss,
    }


def left_to_right(folder):
    """Outputs and loss of a decoder."""
    folder = f"{folder}/left_to_right"
    model = load(f"{folder}/decoder", "BertLMHeadModel", is_decoder=True)
    inputs = inputs_of(np.load(f"{folder}/batch.npz"))
    is_real = inputs["attention_mask"] == 1
    labels = torch.where(is_real, inputs["input_ids"], -100)
    output = model(**inputs, labels=labels)
    return {
        "left-to-right logits": output.logits[is_real],
        "left-to-right loss": output.loss,
    }


def main(folder):
    """Writes all outputs."""
    with torch.no_grad():
        found = electra(folder) | left_to_right(folder)
    np.savez(f"{folder}/theirs.npz", **{n: x.numpy() for n, x in found.items()})


if __name__ == "__main__":
    main(*sys.argv[1:])
