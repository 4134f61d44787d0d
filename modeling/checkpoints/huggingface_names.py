"""The table of Hugging Face's names of weights and ours.

A dense layer's `weight` is [out, in] there; the `kernel` of the original and of
this project is [in, out]. `output_weights` have the same layout on both sides.
"""

import re

_ENCODER = (
    "embeddings/LayerNorm",
    *(f"encoder/layer_#/attention/self/{x}" for x in ("query", "key", "value")),
    "encoder/layer_#/attention/output/dense",
    "encoder/layer_#/attention/output/LayerNorm",
    "encoder/layer_#/intermediate/dense",
    "encoder/layer_#/output/dense",
    "encoder/layer_#/output/LayerNorm",
)
# Layer normalizations and dense layers.
_LAYERS = (
    *(f"{scope}/{name}" for scope in ("bert", "electra") for name in _ENCODER),
    "bert/pooler/dense",
    "electra/embeddings_project",
    # Pretraining.
    "cls/predictions/transform/dense",
    "cls/predictions/transform/LayerNorm",
    "discriminator_predictions/dense",
    "discriminator_predictions/dense_1",
    "generator_predictions/dense",
    "generator_predictions/LayerNorm",
)
_BIAS = "cls.predictions.bias"
_OUTPUTS = {
    "cls.seq_relationship": "cls/seq_relationship/",
    # Sequence and token classification, multiple choice.
    "classifier": "",
    # Question answering.
    "qa_outputs": "cls/squad/",
}


def _table() -> dict[str, str]:
    """Their name -> ours; `#` is the number of a block."""
    table = {
        _BIAS: "cls/predictions/output_bias",
        "generator_lm_head.bias": "generator_predictions/output_bias",
    }
    for scope in ("bert", "electra"):
        for kind in ("word", "token_type", "position"):
            name = f"embeddings/{kind}_embeddings"
            theirs = name.replace("/", ".")
            table[f"{scope}.{theirs}.weight"] = f"{scope}/{name}"
    for ours in _LAYERS:
        theirs = ours.replace("layer_#", "layer.#").replace("/", ".")
        theirs = theirs.replace("dense_1", "dense_prediction")
        is_dense = not ours.endswith("LayerNorm")
        weight, bias = ("kernel", "bias") if is_dense else ("gamma", "beta")
        table[f"{theirs}.weight"] = f"{ours}/{weight}"
        table[f"{theirs}.bias"] = f"{ours}/{bias}"
    for theirs, ours in _OUTPUTS.items():
        table[f"{theirs}.weight"] = f"{ours}output_weights"
        table[f"{theirs}.bias"] = f"{ours}output_bias"
    return table


_BY_THEIRS = _table()
_BY_OURS = {ours: theirs for theirs, ours in _BY_THEIRS.items()}
# The number of a block in a name of either side.
_BLOCK = re.compile(r"(?<=encoder[./]layer[._])\d+")


def our_name(theirs: str, scope: str = "bert") -> str | None:
    """Translates a tensor's name; None = we have no such variable.

    The prefix `bert.` or `electra.` (`scope`) may be missing, as in the file of
    an encoder; `LayerNorm.gamma` and `.beta` are old names, and
    `cls.predictions.decoder.bias` is a second one.
    """
    if re.match(r"(embeddings(_project)?|encoder|pooler)\.", theirs):
        theirs = f"{scope}.{theirs}"
    theirs = re.sub(r"(?<=LayerNorm)\.gamma$", ".weight", theirs)
    theirs = re.sub(r"(?<=LayerNorm)\.beta$", ".bias", theirs)
    theirs = theirs.replace("cls.predictions.decoder.bias", _BIAS)
    return _numbered(_BY_THEIRS.get(_BLOCK.sub("#", theirs)), theirs)


def their_name(ours: str) -> str | None:
    """Translates the name of a variable; the reverse of `our_name`."""
    return _numbered(_BY_OURS.get(_BLOCK.sub("#", ours)), ours)


def is_transposed(ours: str) -> bool:
    """Whether a variable is the transposed matrix of theirs."""
    return ours.endswith("/kernel")


def _numbered(of_table: str | None, name: str) -> str | None:
    """Puts the number of the block in a name into the name of the table."""
    block = _BLOCK.search(name)
    return of_table and (of_table.replace("#", block[0]) if block else of_table)


def of_generator(name: str) -> str:
    """Returns the generator's name for a variable of an encoder alone.

    A generator has the embeddings of its discriminator. A name is such as
    `electra/encoder/layer_0/output/dense/bias`.
    """
    return re.sub(r"^electra/(?!embeddings/)", "generator/", name)


def of_encoder(name: str) -> str:
    """Returns a generator variable's name in an encoder alone."""
    return re.sub(r"^generator/", "electra/", name)
