"""A run of extract_features.py: text to vectors."""

import os
from collections.abc import Iterator
from itertools import islice

from absl import logging

from data.progress import Progress
from data.storage import files, outputs
from data.text import packing
from data.vectors import attention_picture, text_rows, vector_files
from data.vectors.text_rows import TextRow
from modeling import checkpoints
from modeling.bert import BertModel
from modeling.config import BertConfig
from modeling.embeddings import require_pairs
from training.config.extraction_options import ExtractionOptions
from training.devices import preemption
from training.devices.strategy import (
    check_batch_size,
    cluster_of,
    create_strategy,
    is_tpu,
    policy_of,
)
from training.start import first_weights, found_files, setup
from training.start.tokenizer import load_tokenizer
from training.vectors.extractor import Extractor, check_layer

# Results held in memory, in numbers: 256 MB of float32. The outputs are sorted
# into the order of the lines within this window.
_NUMBERS_AT_ONCE = 1 << 26


def run(options: ExtractionOptions) -> None:
    """Writes the vectors of all lines, after checking that all inputs fit.

    Raises:
      ValueError, OSError: an input is missing, damaged or does not fit; all
        inputs are checked before the first batch.
    """
    options, source = found_files.fill(options)
    config = BertConfig.from_json_file(options.bert_config_file)
    tokenizer = _check_model(options, config, source)
    num_lines = text_rows.count_lines(options.input_file)
    if config.type_vocab_size < 2:
        _refuse_pairs(options.input_file, config)
    _check_outputs(options, num_lines)
    if cluster_of(options.device):
        raise ValueError(
            "vectors are made by one process, but TF_CONFIG names several; "
            "unset it, and give each of them a part of the text."
        )
    strategy = create_strategy(options.device)
    check_batch_size(
        "batch_size", options.batch_size, strategy.num_replicas_in_sync
    )
    with strategy.scope():
        extractor = _load_extractor(options, config, source, is_tpu(strategy))

    def rows() -> Iterator[TextRow]:
        return text_rows.read_rows(
            options.input_file, tokenizer, max_seq_length=options.max_seq_length
        )

    if options.attention_png:
        line = options.attention_line
        _draw(options, extractor, next(islice(rows(), line, None)))
    _write(options, extractor, rows(), num_lines)


def _refuse_pairs(path, config):
    """Refuses pairs of texts for a model with one segment type."""
    for number, line in enumerate(files.read_lines(path), start=1):
        if packing.split_pair(line.strip())[1]:
            require_pairs(config, f"{path}, line {number}")


def _load_extractor(options, config, source, on_tpu):
    """Returns the extractor with the weights of the checkpoint."""
    extractor = Extractor(
        BertModel(
            config,
            dtype=policy_of(options.device),
            use_one_hot_embeddings=options.use_one_hot_embeddings or on_tpu,
        ),
        options.vectors,
        max_seq_length=options.max_seq_length,
        batch_size=options.batch_size,
    )
    first_weights.compare(source, config)
    report = checkpoints.init_from_checkpoint(
        options.init_checkpoint,
        checkpoints.variables_by_name([extractor.model]),
    )
    logging.info("%s", report)
    return extractor


def _write(options, extractor, rows, num_lines):
    """Writes the vectors of all rows."""
    vectors = options.vectors
    layers = vectors.layer_names
    pooled_shape = None
    if vectors.pooling != "none":
        width = vectors.width(extractor.model.config)
        pooled_shape = (num_lines, len(layers), width)
    windows = text_rows.windows(
        rows,
        batch_size=options.batch_size,
        cost=extractor.cost,
        max_cost=_NUMBERS_AT_ONCE,
    )
    num_written = num_cut = 0
    with (
        vector_files.open_writer(
            options.output_file,
            options.format,
            layers=layers,
            pooled_shape=pooled_shape,
        ) as write,
        Progress("extracting", total=num_lines, unit="lines") as progress,
    ):
        for window in windows:
            for line in extractor.extract(window, progress.advance):
                preemption.check()
                write(line)
            num_written += len(window)
            num_cut += sum(row.num_lost > 0 for row in window)
        _check_unchanged(options.input_file, num_lines, num_written)
    logging.info("%s: vectors of %d lines.", options.output_file, num_lines)
    if num_cut:
        logging.warning(
            "%d of %d lines were longer than --max_seq_length=%d wordpieces "
            "and lost what did not fit.",
            num_cut,
            num_lines,
            options.max_seq_length,
        )


def _check_unchanged(path, num_before, num_now):
    """Refuses an input that changed while it was read."""
    if num_now != num_before:
        raise ValueError(
            f"{path} had {num_before} lines at first and {num_now} when read "
            "again; give a file that stays as it is (a pipe can be read only "
            "once)."
        )


def _draw(options, extractor, row):
    """Draws the attention weights of one row."""
    layer, head = options.attention_layer, options.attention_head
    maps = extractor.attention(row, layer)
    heads = range(len(maps)) if head is None else [head]
    number = layer % extractor.model.config.num_hidden_layers
    attention_picture.draw(
        options.attention_png,
        maps[list(heads)],
        row.tokens,
        title=f"Layer {number}, line {row.index} of "
        f"{os.path.basename(options.input_file)}: each row looks at columns",
        heads=heads,
    )
    logging.info("%s: attention of layer %d.", options.attention_png, number)


def _check_model(options, config, source):
    """Refuses options that do not fit the model; returns its tokenizer."""
    setup.check_length(options.max_seq_length, config, options.bert_config_file)
    model = f"the model of {options.bert_config_file}"
    asked = [("layers", layer) for layer in options.vectors.layers]
    if options.attention_png:
        asked.append(("attention_layer", options.attention_layer))
    for flag, layer in asked:
        check_layer(f"--{flag}", layer, config.num_hidden_layers, model)
    heads = config.num_attention_heads
    if options.attention_head is not None and not (
        0 <= options.attention_head < heads
    ):
        raise ValueError(
            f"--attention_head={options.attention_head}; {model} has {heads}: "
            f"0 to {heads - 1}."
        )
    return load_tokenizer(
        options.vocab_file,
        options.do_lower_case,
        config,
        options.bert_config_file,
        source=source,
        never_split=options.never_split,
    )


def _check_outputs(options, num_lines):
    """Refuses outputs that cannot be written, and a line that is missing."""
    written = {"output_file": [options.output_file]}
    if options.attention_png:
        written["attention_png"] = [options.attention_png]
        if options.attention_line >= num_lines:
            raise ValueError(
                f"--attention_line={options.attention_line}, but "
                f"{options.input_file} has {num_lines} lines: 0 to "
                f"{num_lines - 1}."
            )
    names = ("input_file", "vocab_file", "bert_config_file")
    outputs.check({name: [getattr(options, name)] for name in names}, written)
