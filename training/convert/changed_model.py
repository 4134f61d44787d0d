"""A model whose encoder, layers, words and positions a conversion changes."""

import dataclasses
import os
from typing import Any

import numpy as np
from absl import logging

from data.storage import files
from data.text import tokenizer_files, vocabulary
from data.text.tokenizer_files import TokenizerSettings
from modeling import checkpoints
from modeling.bert import BertModel
from modeling.checkpoints import huggingface_names, model_folder
from modeling.checkpoints.model_folder import ModelFolder
from modeling.config import BertConfig
from training.config.conversion_options import ConversionOptions
from training.start.description import warn_if_unfinished

# Of the variables that an ELECTRA's generator alone has.
GENERATOR = ("generator/", "generator_predictions/")
_FIRST = "encoder/layer_0/intermediate/dense/kernel"
# The ends of the names of the variables with a row for each position.
POSITIONS = ("/embeddings/position_embeddings",)
# Of those with a row for each token.
TOKENS = (
    "bert/embeddings/word_embeddings",
    "cls/predictions/output_bias",
    "electra/embeddings/word_embeddings",
    "generator_predictions/output_bias",
)


@dataclasses.dataclass
class ChangedModel:
    """A model of a checkpoint, with its weights.

    Attributes:
      options: what the conversion does.
      found: the folder that is converted.
      prefix: where the checkpoint is, for messages.
      config: `BertConfig`, with the sizes of the changed model.
      tokens: its vocabulary, in the order of the ids.
      texts: how its texts become wordpieces.
      values: our name -> value, without optimizer slots and step.
      is_generator: whether it is the generator of an ELECTRA.
    """

    options: ConversionOptions
    found: ModelFolder
    prefix: str
    config: BertConfig
    tokens: list[str]
    texts: TokenizerSettings
    values: dict[str, np.ndarray]
    is_generator: bool = False

    @property
    def kind(self) -> str | None:
        """What the model is for; None = no flag and no file says it."""
        return self.options.kind or self.found.kind

    @property
    def ids(self) -> dict[str, int]:
        """Token -> id, without the blank lines of the vocabulary."""
        return {t.strip(): i for i, t in enumerate(self.tokens) if t.strip()}

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Our name -> shape in the changed model."""
        # A file of TensorFlow 2 holds text, too, which has no shape of its own.
        return {name: np.shape(value) for name, value in self.values.items()}

    def take(self, tables: tuple[str, ...], rows: list[list[int]]) -> None:
        """Makes each row of some tables the mean of old ones, `rows`.

        `tables` are ends of the names of the variables.
        """
        for name, value in self.values.items():
            if name.endswith(tables):
                means = [value[sources].mean(axis=0) for sources in rows]
                self.values[name] = np.stack(means)

    def resize(self, **sizes: Any) -> None:
        """Changes sizes of the configuration."""
        self.config = dataclasses.replace(self.config, **sizes)


def find(options: ConversionOptions) -> ModelFolder:
    """Finds the model; refuses flags that contradict its files."""
    found = model_folder.find(options.model)
    warn_if_unfinished(found.path, found.description)
    if found.head:
        raise ValueError(
            f"{found.path}/{model_folder.HEAD}: the head {dict(found.head)} "
            "has no counterpart elsewhere; such a model cannot be converted."
        )
    said = (found.description or {}).get("kind")
    if options.kind and said and options.kind != said:
        raise ValueError(
            f"--kind={options.kind}, but {found.path}/task.json says {said}; "
            "leave the flag out."
        )
    if options.labels_file:
        labels = tuple(files.read_lines(options.labels_file))
        if labels != found.labels and sorted(labels) == sorted(found.labels):
            raise ValueError(
                f"--labels_file={options.labels_file} has the labels "
                f"{', '.join(labels)}, but the model's rows are, in this "
                f"order, {', '.join(found.labels)} ({found.labels_file}); "
                "leave the flag out, or correct that file."
            )
        found = dataclasses.replace(found, labels=labels)
    return found


def open_model(options: ConversionOptions, found: ModelFolder) -> ChangedModel:
    """Reads a model, which is whole and fits its configuration."""
    logging.info("Converting %s.", found.weights)
    config_file = options.bert_config_file or found.config_file
    config_file = config_file or os.path.join(found.path, model_folder.CONFIG)
    config = BertConfig.from_json_file(config_file)
    vocab_file = options.vocab_file or found.vocab_file
    if not vocab_file or not files.exists(vocab_file):
        raise FileNotFoundError(
            f"{vocab_file or found.path}: no such vocabulary, neither "
            f"{' nor '.join(model_folder.VOCABULARIES)} beside the weights; "
            "give --vocab_file, the one that the model was trained with."
        )
    vocab = vocabulary.load_vocab(vocab_file)
    if options.vocab_file and found.vocab_file and found.description:
        vocabulary.require_same(found.vocab_file, vocab_file)
    tokens = list(vocabulary.read_tokens(vocab_file))
    settings = tokenizer_files.read_settings(found.path, found.facts)
    lower = settings.lower_case(options.do_lower_case, vocab)
    whole = dict.fromkeys((*settings.never_split, *options.never_split))
    texts = TokenizerSettings(do_lower_case=lower, never_split=tuple(whole))
    checkpoint = checkpoints.open_checkpoint(found.weights)
    prefix, values = checkpoint.prefix, checkpoint.weights()
    model = ChangedModel(options, found, prefix, config, tokens, texts, values)
    _choose_part(model)
    for name in "kind", "labels_file":
        if options.find(name) and "output_weights" not in values:
            raise ValueError(
                f"--{name}={options.find(name)}: {prefix} has no output layer "
                "of a task, so it has no effect; leave the flag out."
            )
    # The encoder is whole and fits the configuration.
    encoder = checkpoints.variables_by_name([BertModel(model.config)])
    for name in checkpoints.require_fit(model, encoder).missing:
        logging.warning("%s has no %s.", model.prefix, name)
    vocabulary.require_size(vocab, vocab_file, config.vocab_size, config_file)
    return model


def _choose_part(model: ChangedModel) -> None:
    """Keeps an ELECTRA's generator if it is asked for, or the only encoder.

    With it stay its head and the embeddings; it gets the names of an encoder
    alone. Raises ValueError if it is asked for and missing.
    """
    is_asked = model.options.electra_part == "generator"
    is_there = f"generator/{_FIRST}" in model.values
    is_beside = f"electra/{_FIRST}" in model.values
    if is_asked and not is_there:
        raise ValueError(
            f"--electra_part=generator: {model.prefix} has no generator. Leave "
            "the flag out, or give the checkpoint of ELECTRA's pretraining."
        )
    is_kept = not is_beside or (is_asked and model.config.electra)
    if not (is_there and is_kept):
        return
    model.is_generator = True
    model.values = {
        huggingface_names.of_encoder(name): value
        for name, value in model.values.items()
        if name.startswith((*GENERATOR, "electra/embeddings/"))
    }
    if is_beside:
        # The sizes of the configuration are the discriminator's.
        ending = "/intermediate/dense/kernel"
        kernels = [x for n, x in model.values.items() if n.endswith(ending)]
        hidden_size, intermediate_size = kernels[0].shape
        model.resize(
            embedding_size=model.config.embedding_width,
            hidden_size=hidden_size,
            intermediate_size=intermediate_size,
            num_hidden_layers=len(kernels),
            # The weights do not show it. Source: google-research/electra,
            # `run_pretraining.get_generator_config`.
            num_attention_heads=max(1, hidden_size // 64),
        )
