"""Names that flags offer; here they are known without TensorFlow."""

# What stands on the encoder of a fine-tuned model.
HEADS = ("linear", "bilstm")

ALL_LAYERS = -1
# Mix -> how many of the last blocks it takes; 0 = what enters the first.
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

# Of the vectors of a text: see `pooling`.
EMBEDDINGS = "embeddings"
POOLINGS = ("none", "cls", "mean", "max")
LAYER_MIXES = ("separate", "concat", "sum")
