"""Values of flags, in a file that does not import TensorFlow."""

from collections.abc import Sequence

# What run_pretraining.py trains a model for, see `objectives`; the first one is
# the original's.
OBJECTIVES = ("pretraining", "left_to_right", "replaced_tokens")

# What pretraining begins with; the first one is the original's.
FIRST_WEIGHTS = ("random", "frequencies", "neighbors")

# Heads of a fine-tuned model; `mean` reads one vector for the text.
HEADS = ("linear", "bilstm", "mean")
WORD_HEADS = ("linear", "bilstm")

ALL_LAYERS = -1
# Mix -> number of last blocks that it reads; 0 = the embeddings.
LAYERS_OF_MIXES = {
    "embeddings": 0,
    "last": 1,
    "second_to_last": 2,
    "sum_last_four": 4,
    "concat_last_four": 4,
    "weighted_last_four": 4,
    "weighted_all": ALL_LAYERS,
}
MIXES = tuple(LAYERS_OF_MIXES)

# How vectors are extracted: see `pooling`.
EMBEDDINGS = "embeddings"
POOLINGS = ("none", "cls", "mean", "max")
LAYER_MIXES = ("separate", "concat", "sum")

# How a text's vector is made for training, and what trains it.
VECTOR_POOLINGS = ("mean", "cls")
VECTOR_LOSSES = ("cosent", "cosine", "negatives", "teacher")
SCORED_LOSSES = ("cosent", "cosine")  # of pairs with a score


def require_one_of(known: Sequence[str], what: str, value: str) -> None:
    """Raises ValueError for a value that is none of the known ones."""
    if value not in known:
        raise ValueError(
            f"{what} {value!r}; it must be one of {', '.join(known)}."
        )
