"""The half of huggingface_agreement.py that runs in transformers' environment.

It imports nothing of this project. It reads folders and writes arrays.
"""

import os
import re
import shutil
import sys

import numpy as np
import torch
import transformers

# Their name of an input -> ours.
NAMES = {
    "input_ids": "input_ids",
    "attention_mask": "input_mask",
    "token_type_ids": "segment_ids",
}


def logits_of(model, name, path):
    """Every output of a model for `batch.npz`, flat, one after the other."""
    batch = np.load(f"{path}/batch.npz")
    inputs = {n: torch.tensor(batch[x]).long() for n, x in NAMES.items()}
    if name == "BertForMultipleChoice":
        inputs = {k: v.reshape(len(v), 3, -1) for k, v in inputs.items()}
    with torch.no_grad():
        output = model(**inputs)
    if name.endswith("ForQuestionAnswering"):
        outputs = [torch.stack([output.start_logits, output.end_logits], -1)]
    elif name == "BertForPreTraining":
        outputs = [output.prediction_logits, output.seq_relationship_logits]
    elif name == "MiniLM":
        outputs = [output.last_hidden_state, output.pooler_output]
    else:
        outputs = [output.logits]
    return np.concatenate([x.numpy().ravel() for x in outputs])


def load(path, name):
    """Loads a folder as users do; raises ValueError if tensors are missing."""
    cls = transformers.BertModel
    if name != "MiniLM":
        task = re.sub("^(Bert|Electra)For", "AutoModelFor", name)
        cls = getattr(transformers, task)
    model, report = cls.from_pretrained(path, output_loading_info=True)
    model.eval()
    if name != "MiniLM" and type(model).__name__ != name:
        raise ValueError(f"{path} was loaded as {type(model).__name__}")
    if report["missing_keys"] or report["mismatched_keys"]:
        raise ValueError(f"{path}: {report}")
    return model


def random_model(path, name):
    """Returns a random model of transformers for the batch of `path`."""
    config = transformers.AutoConfig.from_pretrained(path)
    config.hidden_act = "gelu"
    model = getattr(transformers, name)(config).eval()
    torch.manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return model


def main(folder, minilm, *texts):
    """Loads our models, and writes random ones for us to load."""
    exported, theirs = {}, {}
    for name in sorted(os.listdir(f"{folder}/exported")):
        path = f"{folder}/exported/{name}"
        exported[name] = logits_of(load(path, name), name, path)
        target = f"{folder}/theirs/{name}"
        if name == "MiniLM":
            shutil.copytree(minilm, target)
            model = load(target, name)
        else:
            model = random_model(path, name)
            model.save_pretrained(target)
        shutil.copy(f"{path}/batch.npz", target)
        theirs[name] = logits_of(model, name, target)
    np.savez(f"{folder}/exported.npz", **exported)
    np.savez(f"{folder}/theirs.npz", **theirs)
    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    tokens = {str(i): tokenizer(t)["input_ids"] for i, t in enumerate(texts)}
    np.savez(f"{folder}/tokens.npz", model=name, **tokens)


if __name__ == "__main__":
    main(*sys.argv[1:])
