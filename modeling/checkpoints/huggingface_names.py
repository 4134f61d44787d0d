"""The table of Hugging Face's names of weights and ours.

A dense layer's `weight` is [out, in] there; the `kernel` of the original and of
this project is [in, out]. `output_weights` have the same layout on both sides.
"""

import re
from typing import NamedTuple


class _Name(NamedTuple):
    """A row of the table; `#` is the number of a block."""

    theirs: str
    ours: str
    is_transposed: bool = False


def _layer(ours: str, theirs: str = "") -> tuple[_Name, _Name]:
    """The rows of a LayerNorm or a dense layer, usually of the same name."""
    theirs = theirs or ours.replace("layer_#", "layer.#").replace("/", ".")
    is_dense = not ours.endswith("LayerNorm")
    weight, bias = ("kernel", "bias") if is_dense else ("gamma", "beta")
    return (
        _Name(f"{theirs}.weight", f"{ours}/{weight}", is_transposed=is_dense),
        _Name(f"{theirs}.bias", f"{ours}/{bias}"),
    )


def _output(theirs: str, ours: str) -> tuple[_Name, _Name]:
    return (
        _Name(f"{theirs}.weight", f"{ours}output_weights"),
        _Name(f"{theirs}.bias", f"{ours}output_bias"),
    )


_SCOPES = ("bert", "electra")
_ENCODER = (
    "embeddings/LayerNorm",
    *(f"encoder/layer_#/attention/self/{x}" for x in ("query", "key", "value")),
    "encoder/layer_#/attention/output/dense",
    "encoder/layer_#/attention/output/LayerNorm",
    "encoder/layer_#/intermediate/dense",
    "encoder/layer_#/output/dense",
    "encoder/layer_#/output/LayerNorm",
)
_LAYERS = (
    *(f"{scope}/{name}" for scope in _SCOPES for name in _ENCODER),
    "bert/pooler/dense",
    "electra/embeddings_project",
    # Pretraining.
    "cls/predictions/transform/dense",
    "cls/predictions/transform/LayerNorm",
    "discriminator_predictions/dense",
    "generator_predictions/dense",
    "generator_predictions/LayerNorm",
)
_TABLE = (
    *(
        _Name(f"{scope}.embeddings.{x}.weight", f"{scope}/embeddings/{x}")
        for scope in _SCOPES
        for x in (
            *("word_embeddings", "token_type_embeddings"),
            "position_embeddings",
        )
    ),
    *(row for name in _LAYERS for row in _layer(name)),
    *_layer(
        "discriminator_predictions/dense_1",
        "discriminator_predictions.dense_prediction",
    ),
    _Name("cls.predictions.bias", "cls/predictions/output_bias"),
    _Name("generator_lm_head.bias", "generator_predictions/output_bias"),
    *_output("cls.seq_relationship", "cls/seq_relationship/"),
    # Sequence and token classification, multiple choice.
    *_output("classifier", ""),
    # Question answering.
    *_output("qa_outputs", "cls/squad/"),
)
_BY_THEIRS = {row.theirs: row for row in _TABLE}
_BY_OURS = {row.ours: row for row in _TABLE}
# The number of a block in a name of either side.
_BLOCK = re.compile(r"(?<=encoder[./]layer[._])\d+")


def our_name(theirs: str, scope: str = "bert") -> tuple[str, bool] | None:
    """Translates a tensor's name; None = we have no such variable.

    The prefix `bert.` or `electra.` (`scope`) may be missing, as in the file of
    an encoder; `LayerNorm.gamma` and `.beta` are old names. Returns the
    variable's name and whether its matrix must be transposed.
    """
    if re.match(r"(embeddings(_project)?|encoder|pooler)\.", theirs):
        theirs = f"{scope}.{theirs}"
    theirs = re.sub(r"(?<=LayerNorm)\.gamma$", ".weight", theirs)
    theirs = re.sub(r"(?<=LayerNorm)\.beta$", ".bias", theirs)
    row = _BY_THEIRS.get(_BLOCK.sub("#", theirs))
    return row and (_numbered(row.ours, theirs), row.is_transposed)


def their_name(ours: str) -> tuple[str, bool] | None:
    """Translates the name of a variable; the reverse of `our_name`."""
    row = _BY_OURS.get(_BLOCK.sub("#", ours))
    return row and (_numbered(row.theirs, ours), row.is_transposed)


def _numbered(of_row: str, name: str) -> str:
    """Puts the number of the block in a name into the name of its row."""
    block = _BLOCK.search(name)
    return of_row.replace("#", block[0]) if block else of_row


def of_generator(name: str) -> str:
    """Returns the generator's name for a variable of an encoder alone.

    A generator has the embeddings of its discriminator. A name is such as
    `electra/encoder/layer_0/output/dense/bias`.
    """
    return re.sub(r"^electra/(?!embeddings/)", "generator/", name)


def of_encoder(name: str) -> str:
    """Returns a generator variable's name in an encoder alone."""
    return re.sub(r"^generator/", "electra/", name)
