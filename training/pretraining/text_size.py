"""The vocabulary size of a new model, and the size of a run's text."""

import dataclasses
import os

from absl import logging

from data.pretraining.text_facts import read_facts
from data.storage import files
from data.text import vocabulary
from modeling.checkpoints import model_folder, tf1
from modeling.config import BertConfig
from training.config.pretraining_options import PretrainingOptions
from training.start.source import Source

# Wordpieces of text; see "How much text" in docs/recipes.md.
FEW_WORDPIECES = 5_000


def run_before(options: PretrainingOptions) -> str | None:
    """The folder of the run that is resumed or continued; None = a new run."""
    places = options.train.output_dir, options.train.continue_from
    return next((x for x in places if x and tf1.has_run(x)), None)


def with_vocab_size(
    options: PretrainingOptions, config: BertConfig, source: Source
) -> BertConfig:
    """Returns the configuration with the vocabulary's number of wordpieces.

    A model of --init_checkpoint keeps its own. So does a run that is resumed
    or continued, if that is the vocabulary's.
    """
    if source.path:
        return config
    size = _vocab_size(options)
    if folder := run_before(options):
        path = os.path.join(folder, model_folder.CONFIG)
        # The original keeps no configuration.
        kept = files.exists(path) and BertConfig.from_json_file(path).vocab_size
        if size and kept in vocabulary.padded_sizes(size):
            return dataclasses.replace(config, vocab_size=kept)
        return config
    if not size or config.vocab_size in vocabulary.padded_sizes(size):
        return config
    # Differs from the original: it makes a model of the size in
    # --bert_config_file, because it does not know the vocabulary. The rows of
    # wordpieces that no text has would stay random.
    logging.info(
        "vocab_size is %d, as the vocabulary has; %s says %d. "
        "bert_config.json in %s has the new number.",
        *(size, options.bert_config_file, config.vocab_size),
        options.train.output_dir,
    )
    return dataclasses.replace(config, vocab_size=size)


def _vocab_size(options: PretrainingOptions) -> int | None:
    """The number of ids, of --vocab_file or of the records' manifests."""
    if options.vocab_file:
        return vocabulary.num_ids(vocabulary.load_vocab(options.vocab_file))
    reads = options.do_train or options.do_eval
    patterns = reads and (options.input_file or options.eval_file)
    return read_facts(patterns)[0] if patterns else None


def log_size(options: PretrainingOptions, num_examples: int) -> None:
    """Says how much text a run learns from, and whether that is little."""
    _, number = read_facts(options.input_file)
    log, said = logging.info, f"{number or 0:,}"
    if number is None:  # no manifest says it
        said = f"at most {num_examples * options.max_seq_length:,}"
    elif number < FEW_WORDPIECES:
        log = logging.warning
    log(
        "--input_file: %s wordpieces of text. Below about %s a model learns "
        "little more than their frequencies (docs/recipes.md).",
        *(said, f"{FEW_WORDPIECES:,}"),
    )
