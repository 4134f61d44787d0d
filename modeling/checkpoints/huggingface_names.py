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


def _dense(theirs: str, ours: str) -> tuple[_Name, _Name]:
    return (
        _Name(f"{theirs}.weight", f"{ours}/kernel", is_transposed=True),
        _Name(f"{theirs}.bias", f"{ours}/bias"),
    )


def _layer_norm(theirs: str, ours: str) -> tuple[_Name, _Name]:
    return (
        _Name(f"{theirs}.LayerNorm.weight", f"{ours}/LayerNorm/gamma"),
        _Name(f"{theirs}.LayerNorm.bias", f"{ours}/LayerNorm/beta"),
    )


def _output(theirs: str, ours: str) -> tuple[_Name, _Name]:
    return (
        _Name(f"{theirs}.weight", f"{ours}output_weights"),
        _Name(f"{theirs}.bias", f"{ours}output_bias"),
    )


def _encoder(scope: str) -> tuple[_Name, ...]:
    """The rows of an encoder, whose first word is the same on both sides."""
    theirs, ours = f"{scope}.encoder.layer.#", f"{scope}/encoder/layer_#"
    tables = ("word_embeddings", "token_type_embeddings", "position_embeddings")
    return (
        *(
            _Name(
                f"{scope}.embeddings.{name}.weight",
                f"{scope}/embeddings/{name}",
            )
            for name in tables
        ),
        *_layer_norm(f"{scope}.embeddings", f"{scope}/embeddings"),
        *(
            row
            for name in ("query", "key", "value")
            for row in _dense(
                f"{theirs}.attention.self.{name}",
                f"{ours}/attention/self/{name}",
            )
        ),
        *_dense(
            f"{theirs}.attention.output.dense", f"{ours}/attention/output/dense"
        ),
        *_layer_norm(f"{theirs}.attention.output", f"{ours}/attention/output"),
        *_dense(f"{theirs}.intermediate.dense", f"{ours}/intermediate/dense"),
        *_dense(f"{theirs}.output.dense", f"{ours}/output/dense"),
        *_layer_norm(f"{theirs}.output", f"{ours}/output"),
    )


_TABLE = (
    *_encoder("bert"),
    *_dense("bert.pooler.dense", "bert/pooler/dense"),
    *_encoder("electra"),
    *_dense("electra.embeddings_project", "electra/embeddings_project"),
    # Pretraining.
    *_dense(
        "cls.predictions.transform.dense", "cls/predictions/transform/dense"
    ),
    *_layer_norm("cls.predictions.transform", "cls/predictions/transform"),
    _Name("cls.predictions.bias", "cls/predictions/output_bias"),
    *_output("cls.seq_relationship", "cls/seq_relationship/"),
    # Of an ELECTRA.
    *_dense(
        "discriminator_predictions.dense", "discriminator_predictions/dense"
    ),
    *_dense(
        "discriminator_predictions.dense_prediction",
        "discriminator_predictions/dense_1",
    ),
    *_dense("generator_predictions.dense", "generator_predictions/dense"),
    *_layer_norm("generator_predictions", "generator_predictions"),
    _Name("generator_lm_head.bias", "generator_predictions/output_bias"),
    # Sequence and token classification, multiple choice.
    *_output("classifier", ""),
    # Question answering.
    *_output("qa_outputs", "cls/squad/"),
)
_BY_THEIRS = {row.theirs: row for row in _TABLE}
_BY_OURS = {row.ours: row for row in _TABLE}


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
    block = re.search(r"(?<=encoder\.layer\.)\d+", theirs)
    number = block[0] if block else ""
    row = _BY_THEIRS.get(
        theirs.replace(f"layer.{number}.", "layer.#.") if block else theirs
    )
    return row and (row.ours.replace("#", number), row.is_transposed)


def their_name(ours: str) -> tuple[str, bool] | None:
    """Translates the name of a variable; the reverse of `our_name`."""
    block = re.search(r"(?<=encoder/layer_)\d+", ours)
    number = block[0] if block else ""
    row = _BY_OURS.get(
        ours.replace(f"layer_{number}/", "layer_#/") if block else ours
    )
    return row and (row.theirs.replace("#", number), row.is_transposed)


def of_generator(name: str) -> str:
    """Returns the generator's name for a variable of an encoder alone.

    A generator has the embeddings of its discriminator. A name is such as
    `electra/encoder/layer_0/output/dense/bias`.
    """
    return re.sub(r"^electra/(?!embeddings/)", "generator/", name)


def of_encoder(name: str) -> str:
    """Returns a generator variable's name in an encoder alone."""
    return re.sub(r"^generator/", "electra/", name)
