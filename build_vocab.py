r"""Makes a WordPiece vocabulary from plain text.

    python build_vocab.py --input_file='corpus/*.txt' --output_file=vocab.txt

    python build_vocab.py --input_file=news.txt,wiki.txt \
        --output_file=vocab.txt --vocab_size=8000 --do_lower_case=false \
        --num_unused=99

The text needs no preparation: it is cut into words as the tokenizer cuts it.
`--do_lower_case` must be the same in every program that uses the vocabulary.
"""

from absl import logging

from data.settings import Settings, setting
from data.storage import files, outputs
from data.text import vocabulary
from data.text.vocabulary import LearningOptions
from training import program
from training.config import flags


class VocabularyOptions(Settings):
    """Which text the vocabulary is learned from, and how."""

    input_file: str = setting(help="Comma-separated UTF-8 text files or globs.")
    output_file: str = setting(help="Where to write the vocabulary.")
    do_lower_case: bool = setting(
        True, "Lower-case the text and drop its accents."
    )
    learning: LearningOptions


def main() -> None:
    """Counts the words, learns the pieces, writes them and reports."""
    options = flags.read(VocabularyOptions)
    paths = files.expand_patterns(options.input_file)
    outputs.check({"input_file": paths}, {"output_file": [options.output_file]})
    program.load_tensorflow()
    from data.text import vocabulary_building

    word_counts = vocabulary_building.count_words(
        paths, do_lower_case=options.do_lower_case
    )
    vocab = vocabulary_building.learn_vocab(word_counts, options.learning)
    vocabulary.write_vocab(options.output_file, vocab)
    found = vocabulary_building.measure_coverage(word_counts, vocab)
    logging.info(
        "%s: %d tokens from %d words (%d distinct)",
        *(options.output_file, len(vocab), found["words"], len(word_counts)),
    )
    share = found["unknown"] / found["words"]
    logging.info(
        f"{found['pieces'] / found['words']:.2f} pieces a word; "
        f"{100 * share:.3f} % of the words become [UNK]"
    )
    wanted, least = options.learning.vocab_size, options.learning.min_frequency
    if len(vocab) < wanted:
        logging.warning(
            f"--vocab_size={wanted} was not reached: no more pieces occur "
            f"{least} times. run_pretraining.py makes a new model of "
            f"{len(vocab)}; for more tokens give more text."
        )


if __name__ == "__main__":
    flags.define(VocabularyOptions)
    program.run(main)
