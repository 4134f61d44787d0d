"""A run of extract_features.py: text to vectors."""

import os
from collections.abc import Iterator
from itertools import count, islice

from absl import logging

from data.storage import files, outputs
from data.text import packing
from data.text.tokenization import FullTokenizer
from data.vectors import attention_picture, text_rows, vector_files
from modeling import checkpoints
from modeling.bert import BertModel
from modeling.config import BertConfig
from modeling.embeddings import require_pairs
from training.config.extraction_options import ExtractionOptions
from training.devices.strategy import is_tpu, policy_of
from training.start import description, first_weights, setup
from training.start.found_files import read_files
from training.vectors.extractor import Extractor, check_layer, open_strategy


def run(options: ExtractionOptions) -> None:
    """Writes the vectors of all lines, after checking that all inputs fit.

    Raises:
      ValueError, OSError: an input is missing, damaged or does not fit; all
        inputs are checked before the first batch.
    """
    options, config, tokenizer, source, _ = read_files(options)
    if folder := source.folder:
        description.warn_if_unfinished(folder.path, folder.description)
    # Differs from the original: a missing layer and an empty input are errors
    # before the first batch; the original fails later, or writes nothing.
    _check_model(options, config)
    num_lines = text_rows.count_lines(options.input_file)
    _check_lines(options, config)
    _check_outputs(options, num_lines)
    strategy = open_strategy(options, "batch_size")
    with strategy.scope():
        one_hot = options.use_one_hot_embeddings or is_tpu(strategy)
        dtype = policy_of(options.device)
        model = BertModel(config, dtype=dtype, use_one_hot_embeddings=one_hot)
        sizes = options.max_seq_length, options.batch_size
        extractor = Extractor(model, options.vectors, *sizes)
        first_weights.compare(source, config)
        weights = checkpoints.variables_by_name([model])
        first_weights.FirstWeights(source, weights).load(weights)
    if options.attention_png:
        _draw(options, tokenizer, extractor)
    layers, shape = options.vectors.layer_names, None
    if options.vectors.pooling != "none":  # the number of vectors is known
        shape = (num_lines, len(layers), options.vectors.width(config))
    path, output = options.input_file, options.output_file
    with vector_files.open_writer(
        output, options.format, layers=layers, pooled_shape=shape
    ) as write:
        rows = _rows(options, tokenizer)
        for line in extractor.extract_all(rows, num_lines, path, "lines"):
            write(line)
    logging.info("%s: vectors of %d lines.", output, num_lines)


def _rows(
    options: ExtractionOptions, tokenizer: FullTokenizer
) -> Iterator[text_rows.TextRow]:
    """Returns a row for each line of the input."""
    make = text_rows.RowMaker(tokenizer, options.max_seq_length)
    return map(make.line, files.read_lines(options.input_file), count())


def _check_lines(options: ExtractionOptions, config: BertConfig) -> None:
    """Refuses pairs of texts for a model of single texts."""
    if config.type_vocab_size < 2:
        path = options.input_file
        for number, line in enumerate(files.read_lines(path), start=1):
            if packing.split_pair(line.strip())[1]:
                require_pairs(config, f"{path}, line {number}")


def _check_model(options: ExtractionOptions, config: BertConfig) -> None:
    """Refuses layers, heads and lengths that the model does not have."""
    setup.check_length(options.max_seq_length, config, options.bert_config_file)
    model = f"the model of {options.bert_config_file}"
    asked = [("layers", layer) for layer in options.vectors.layers]
    for flag, layer in (*asked, ("attention_layer", options.attention_layer)):
        check_layer(f"--{flag}", layer, config.num_hidden_layers, model)
    heads, head = config.num_attention_heads, options.attention_head
    if head is not None and not 0 <= head < heads:
        raise ValueError(
            f"--attention_head={head}; {model} has {heads}: 0 to {heads - 1}."
        )


def _check_outputs(options: ExtractionOptions, num_lines: int) -> None:
    """Refuses outputs that cannot be written, and a line that is missing."""
    written = {"output_file": [options.output_file]}
    if options.attention_png:
        written["attention_png"] = [options.attention_png]
        if (line := options.attention_line) >= num_lines:
            raise ValueError(
                f"--attention_line={line}, but {options.input_file} has "
                f"{num_lines} lines: 0 to {num_lines - 1}."
            )
    names = ("input_file", "vocab_file", "bert_config_file")
    inputs = {name: [getattr(options, name)] for name in names}
    weights = checkpoints.model_folder.find(options.init_checkpoint).weights
    found = files.find_in(weights, "*.safetensors")
    found += files.find_in(*os.path.split(f"{weights}.[di]*"))  # data, index
    outputs.check(inputs | {"init_checkpoint": found}, written)


def _draw(
    options: ExtractionOptions, tokenizer: FullTokenizer, extractor: Extractor
) -> None:
    """Draws the attention weights of --attention_line."""
    head, line = options.attention_head, options.attention_line
    if "[MASK]" in tokenizer.vocab:
        # As a model of masked words reads it; the vectors are the original's.
        whole = tuple(dict.fromkeys((*tokenizer.never_split, "[MASK]")))
        path, lower = options.vocab_file, options.do_lower_case
        tokenizer = FullTokenizer(path, lower, whole)
    row = next(islice(_rows(options, tokenizer), line, None))
    maps = extractor.attention(row, options.attention_layer)
    heads = range(len(maps)) if head is None else [head]
    number = options.attention_layer % extractor.model.config.num_hidden_layers
    attention_picture.draw(
        options.attention_png,
        maps[list(heads)],
        row.tokens,
        title=f"Layer {number}, line {row.index} of "
        f"{os.path.basename(options.input_file)}: each row looks at columns",
        heads=heads,
    )
    logging.info("%s: attention of layer %d.", options.attention_png, number)
