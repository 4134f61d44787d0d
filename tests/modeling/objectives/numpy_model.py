"""A model written in NumPy, one sentence at a time."""

import math

import numpy as np
from scipy.special import softmax

from tests.support.model_folder_support import variables_of


def with_weights(model):
    """Large enough that every position differs from every other."""
    rng = np.random.default_rng(1)
    variables = variables_of(model)
    for variable in variables.values():
        variable.assign(rng.normal(size=variable.shape) * 0.3)
    return {
        name: variable.numpy().astype(np.float64)
        for name, variable in variables.items()
    }


def gelu(x):
    return x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


class NumpyModel:
    """One sentence at a time, without padding: the paper's formulas.

    The names are those of the original's and of ELECTRA's variables. Each
    position sees itself and those before it, or all.
    """

    def __init__(
        self,
        weights,
        config,
        *,
        scope="bert",
        embeddings="bert",
        looks_back=False,
    ):
        self.weights = weights
        self._config = config
        self._scope = scope
        self._embeddings = f"{embeddings}/embeddings"
        self._looks_back = looks_back

    def dense(self, x, name):
        kernel, bias = (self.weights[f"{name}/{w}"] for w in ("kernel", "bias"))
        return x @ kernel + bias

    def layer_norm(self, x, name):
        gamma, beta = (
            self.weights[f"{name}/LayerNorm/{w}"] for w in ("gamma", "beta")
        )
        x = x - x.mean(-1, keepdims=True)
        variance = (x**2).mean(-1, keepdims=True)
        return x / np.sqrt(variance + 1e-12) * gamma + beta

    def encode(self, ids):
        """Vectors [S, H]."""
        table = self._embeddings
        x = self.weights[f"{table}/word_embeddings"][ids]
        x = x + self.weights[f"{table}/position_embeddings"][: len(ids)]
        x = x + self.weights[f"{table}/token_type_embeddings"][0]
        x = self.layer_norm(x, table)
        if f"{self._scope}/embeddings_project/kernel" in self.weights:
            x = self.dense(x, f"{self._scope}/embeddings_project")
        block = f"{self._scope}/encoder/layer_0"
        query, key, value = (
            self.dense(x, f"{block}/attention/self/{name}")
            for name in ("query", "key", "value")
        )
        heads = self._config.num_attention_heads
        size = self._config.hidden_size // heads
        context = np.zeros_like(x)
        for position in range(len(ids)):
            seen = position + 1 if self._looks_back else len(ids)
            for head in range(heads):
                part = slice(head * size, (head + 1) * size)
                scores = key[:seen, part] @ query[position, part]
                shares = softmax(scores / math.sqrt(size))
                context[position, part] = shares @ value[:seen, part]
        place = f"{block}/attention/output"
        x = self.layer_norm(x + self.dense(context, f"{place}/dense"), place)
        wide = gelu(self.dense(x, f"{block}/intermediate/dense"))
        place = f"{block}/output"
        return self.layer_norm(x + self.dense(wide, f"{place}/dense"), place)


def sentences(batch):
    """The real wordpieces of each row."""
    lengths = batch["input_mask"].numpy().sum(axis=1)
    return [
        row[:n]
        for row, n in zip(batch["input_ids"].numpy(), lengths, strict=True)
    ]
