"""The generator of an ELECTRA, as a model of its own."""

from modeling.checkpoints.huggingface_names import of_encoder
from training.convert.changed_model import ChangedModel

# Of the variables that are the generator's alone.
SCOPES = ("generator/", "generator_predictions/")
_FIRST = "encoder/layer_0/intermediate/dense/kernel"


def choose_part(model: ChangedModel) -> None:
    """Keeps an ELECTRA's generator if it is asked for, or the only encoder.

    With it stay its head and the embeddings; it gets the names of an encoder
    alone. Raises ValueError if it is asked for and missing.
    """
    is_asked = model.options.electra_part == "generator"
    is_there = f"generator/{_FIRST}" in model.values
    is_beside = f"electra/{_FIRST}" in model.values
    if is_asked and not is_there:
        raise ValueError(
            f"--electra_part=generator: {model.prefix} has no generator "
            "(generator/encoder/...). Leave the flag out, or give the "
            "checkpoint of ELECTRA's pretraining."
        )
    is_kept = not is_beside or (is_asked and model.config.electra)
    if not (is_there and is_kept):
        return
    model.is_generator = True
    model.values = {
        of_encoder(name): value
        for name, value in model.values.items()
        if name.startswith((*SCOPES, "electra/embeddings/"))
    }
    if is_beside:
        # The sizes of the configuration are the discriminator's.
        ending = "/intermediate/dense/kernel"
        shapes = model.shapes.items()
        kernels = [shape for name, shape in shapes if name.endswith(ending)]
        hidden_size, intermediate_size = kernels[0]
        model.resize(
            embedding_size=model.config.embedding_width,
            hidden_size=hidden_size,
            intermediate_size=intermediate_size,
            num_hidden_layers=len(kernels),
            # The weights do not show it. Source: google-research/electra,
            # `run_pretraining.get_generator_config`.
            num_attention_heads=max(1, hidden_size // 64),
        )
