"""The half of objectives_agreement.py that runs in transformers' environment.

It imports nothing of this project. It reads arrays and writes arrays.
"""

import sys

import numpy as np
import torch
import transformers

SIZES = {
    "vocab_size": 200,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "hidden_act": "gelu",
    "max_position_embeddings": 48,
    "type_vocab_size": 2,
}
ELECTRA = SIZES | {"embedding_size": 24}
# Half the width; one head for each 64.
GENERATOR = ELECTRA | {
    "hidden_size": 32,
    "num_attention_heads": 1,
    "intermediate_size": 128,
}


def load(model, path):
    """Gives a model the weights of a file; only tied ones may be missing."""
    arrays = {n: torch.tensor(x) for n, x in np.load(path).items()}
    report = model.load_state_dict(arrays, strict=False)
    tied = {"generator_lm_head.weight", "cls.predictions.decoder.weight"}
    tied |= {"cls.predictions.decoder.bias"}
    buffers = {n for n, _ in model.named_buffers()}
    missing = {*report.missing_keys} - tied - buffers
    if missing or report.unexpected_keys:
        raise ValueError(f"{path}: {missing}, {report.unexpected_keys}")
    model.tie_weights()
    return model.eval()


def inputs_of(arrays, ids="input_ids"):
    """Their names of a batch."""
    names = {
        "input_ids": ids,
        "attention_mask": "input_mask",
        "token_type_ids": "segment_ids",
    }
    return {n: torch.tensor(arrays[ours]).long() for n, ours in names.items()}


def electra(folder):
    """Outputs and losses of generator and discriminator."""
    arrays = dict(np.load(f"{folder}/electra.npz"))
    ids, replaced = (
        torch.tensor(arrays[name]).long() for name in ("input_ids", "replaced")
    )
    generator = load(
        transformers.ElectraForMaskedLM(
            transformers.ElectraConfig(**GENERATOR)
        ),
        f"{folder}/generator.npz",
    )
    discriminator = load(
        transformers.ElectraForPreTraining(
            transformers.ElectraConfig(**ELECTRA)
        ),
        f"{folder}/discriminator.npz",
    )
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
    arrays = dict(np.load(f"{folder}/left_to_right.npz"))
    config = transformers.BertConfig(**SIZES, is_decoder=True)
    model = load(transformers.BertLMHeadModel(config), f"{folder}/decoder.npz")
    inputs = inputs_of(arrays)
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
