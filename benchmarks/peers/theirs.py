"""The side of transformers and its like in compare.py, in their environment.

It imports nothing of this project. The models are as their users get them.
Where there are several good ways, all are measured.
"""

import collections
import contextlib
import functools
import itertools
import os
import shutil
from pathlib import Path

import numpy as np
import sentence_transformers
import tokenizers
import torch
import transformers
from protocol import elapsed, serve, texts_of
from sentence_transformers.sentence_transformer import modules
from tokenizers import models, normalizers, pre_tokenizers

# Their name of an input -> ours.
_NAMES = {
    "input_ids": "input_ids",
    "attention_mask": "input_mask",
    "token_type_ids": "segment_ids",
}
_TOKENIZED_AT_ONCE = 1024  # lines
_UNSCORED = -100  # label of a place that is not predicted


def pretraining(case):
    """One update, with dropout."""
    model = _model("BertForPreTraining", case).train()
    optimizer = _optimizer(model)
    arrays = np.load(case["input"])
    batch = {name: torch.tensor(value) for name, value in arrays.items()}
    inputs = {theirs: batch[ours].long() for theirs, ours in _NAMES.items()}

    def step(loss_of):
        with _autocast(case):
            loss = loss_of(model)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    return {
        name: functools.partial(_timed, step, loss_of)
        for name, loss_of in _losses(inputs, batch).items()
    }


def _losses(inputs, batch):
    """Name -> function from a model to its loss."""
    positions = batch["masked_lm_positions"].long()
    words = batch["masked_lm_ids"].long()
    pairs = batch["next_sentence_labels"][:, 0].long()
    labels = torch.full_like(inputs["input_ids"], _UNSCORED)
    labels.scatter_(1, positions, words)
    rows = torch.arange(len(positions))[:, None].expand_as(positions)
    cross_entropy = torch.nn.functional.cross_entropy

    def of_all(model):
        return model(**inputs, labels=labels, next_sentence_label=pairs).loss

    def of_masked(model):
        # What their model computes, without the scores that have no label.
        output = model.bert(**inputs)
        scores, relations = model.cls(
            output.last_hidden_state[rows, positions], output.pooler_output
        )
        return cross_entropy(
            scores.flatten(0, 1).float(), words.flatten()
        ) + cross_entropy(relations.float(), pairs)

    return {"as it is": of_all, "masked places only": of_masked}


def _timed(function, *args):
    """A way: the seconds of one call, as a list."""
    return [elapsed(function, *args)]


def _optimizer(model):
    """AdamW with their Trainer's exceptions from weight decay."""
    decayed, others = [], []
    for name, parameter in model.named_parameters():
        plain = name.endswith("bias") or "LayerNorm" in name
        (others if plain else decayed).append(parameter)
    groups = [
        {"params": decayed, "weight_decay": 0.01},
        {"params": others, "weight_decay": 0.0},
    ]
    # Of torch's three forms the fused one is the fastest on a CPU.
    return torch.optim.AdamW(groups, lr=5e-5, eps=1e-6, fused=True)


def prediction(case):
    """All sequences, from ids to probabilities, in bfloat16."""
    arrays = np.load(case["input"])
    ends = np.cumsum(arrays["sizes"])[:-1]
    columns = {
        name: [torch.tensor(x) for x in np.split(arrays[_NAMES[name]], ends)]
        for name in ("input_ids", "token_type_ids")
    }
    columns["attention_mask"] = list(map(torch.ones_like, columns["input_ids"]))
    spans = case["data"] == "squad"
    head = "QuestionAnswering" if spans else "SequenceClassification"

    def run(model, context):
        with torch.inference_mode(), context:
            return [
                _probabilities(model(**batch), spans)
                for batch in _padded(columns, case["rows"])
            ]

    model = _model(f"BertFor{head}", case).eval()
    rounded = _model(f"BertFor{head}", case).eval().to(torch.bfloat16)
    nothing = contextlib.nullcontext()
    return {
        "autocast": functools.partial(_timed, run, model, _autocast(case)),
        "bfloat16 weights": functools.partial(_timed, run, rounded, nothing),
    }


def _padded(columns, rows):
    """Batches in the given order, padded to their longest sequence."""
    for start in range(0, len(columns["input_ids"]), rows):
        yield {
            name: torch.nn.utils.rnn.pad_sequence(
                x[start : start + rows], batch_first=True
            )
            for name, x in columns.items()
        }


def _probabilities(output, spans):
    """What is predicted, as arrays of float32."""
    if spans:
        logits = output.start_logits, output.end_logits
        return [x.float().numpy() for x in logits]
    return output.logits.float().softmax(-1).numpy()


def latency(case):
    """One text after the other, from text to label."""
    tokenizer = _saved_tokenizer(case)
    model = _model("BertForSequenceClassification", case).eval()
    texts = itertools.cycle(texts_of(case))

    def call(text):
        with torch.inference_mode():
            logits = model(**tokenizer(text, return_tensors="pt")).logits
        probabilities = logits.softmax(-1)[0]
        return model.config.id2label[int(probabilities.argmax())]

    return {
        "": lambda: [elapsed(call, next(texts)) for _ in range(case["calls"])]
    }


def encoding(case):
    """The vectors of all texts, sorted by length as `encode` does."""
    folder = case["folder"]
    _saved_tokenizer(case).save_pretrained(folder)
    _model("BertModel", case).save_pretrained(folder)
    model = sentence_model(folder, case["length"])
    texts = texts_of(case)

    def encode():
        with _autocast(case):
            model.encode(texts, batch_size=case["rows"])

    return {"": functools.partial(_timed, encode)}


def sentence_model(folder, length):
    """A model of sentence vectors, with the weights of a folder."""
    words = modules.Transformer(folder, max_seq_length=length)
    pooling = modules.Pooling(words.get_embedding_dimension(), "mean")
    return sentence_transformers.SentenceTransformer(
        modules=[words, pooling, modules.Normalize()], device="cpu"
    )


def _saved_tokenizer(case):
    """The fast tokenizer, from a folder as its users have it."""
    _config(case).save_pretrained(case["folder"])
    shutil.copy(case["vocab"], f"{case['folder']}/vocab.txt")
    tokenizer = transformers.AutoTokenizer.from_pretrained(case["folder"])
    if not tokenizer.is_fast:
        raise ValueError("not the fast tokenizer")
    return tokenizer


def _tokenizer(case):
    """BERT's tokenizer, from the parts that their documentation names."""
    vocab = Path(case["vocab"]).read_text("utf-8").splitlines()
    ids = {token: i for i, token in enumerate(vocab)}
    pieces = models.WordPiece(ids, unk_token="[UNK]")
    tokenizer = tokenizers.Tokenizer(pieces)
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def tokenizing_python(case):
    """Every line, one by one."""
    lines = texts_of(case)
    encode = _tokenizer(case).encode

    # A deque of length 0 drops what it takes.
    return {"encode": lambda: _timed(collections.deque, map(encode, lines), 0)}


def tokenizing_in_graph(case):
    """Every line: all at once, and in batches."""
    lines = texts_of(case)
    encode = _tokenizer(case).encode_batch_fast

    def run(size):
        for start in range(0, len(lines), size):
            encode(lines[start : start + size])

    sizes = {"all lines": len(lines), "batches": _TOKENIZED_AT_ONCE}
    return {
        f"encode_batch_fast, {name}": functools.partial(_timed, run, size)
        for name, size in sizes.items()
    }


def _config(case):
    return transformers.BertConfig(**case["model"] | {"hidden_act": "gelu"})


def _model(name, case):
    torch.manual_seed(1)
    return getattr(transformers, name)(_config(case))


def _autocast(case):
    """Computes in bfloat16 with weights in float32."""
    enabled = case["precision"] == "bfloat16"
    return torch.autocast("cpu", torch.bfloat16, enabled=enabled)


def make(case):
    """Returns the ways of a case, see `protocol.serve`."""
    torch.set_num_threads(case["threads"])
    libraries = f"torch {torch.__version__}, "
    libraries += f"transformers {transformers.__version__}"
    if case["kind"].startswith("tokenizing"):
        libraries = f"tokenizers {tokenizers.__version__}"
    if case["kind"] == "encoding":
        version = sentence_transformers.__version__
        libraries += f", sentence-transformers {version}"
    return globals()[case["kind"]](case), libraries


if __name__ == "__main__":
    os.environ["HF_HUB_OFFLINE"] = "1"
    serve(make)
