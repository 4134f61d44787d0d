r"""Turns plain text into masked pretraining examples (TFRecords).

    python create_pretraining_data.py --input_file='corpus/*.txt' \
        --output_file=train.tfrecord --vocab_file=vocab.txt

    python create_pretraining_data.py --input_file=corpus.txt \
        --output_file=a.tfrecord,b.tfrecord --vocab_file=vocab.txt \
        --do_whole_word_mask --max_seq_length=512 --max_predictions_per_seq=77

The text is UTF-8, one sentence a line, with a blank line between documents.
max_seq_length and max_predictions_per_seq go to run_pretraining.py, too.
"""

import dataclasses

from absl import flags

from data import files, pretraining_writer
from data.pretraining_examples import PretrainingDataOptions
from training import program

_DEFAULTS = PretrainingDataOptions()


def define_flags() -> None:
    """Defines the original's flags and, last, three of our own."""
    flags.DEFINE_string(
        "input_file", None, "Text files: paths or globs, comma-separated."
    )
    flags.DEFINE_string(
        "output_file", None, "TFRecord files to fill in turn, comma-separated."
    )
    flags.DEFINE_string("vocab_file", None, "The model's WordPiece vocabulary.")
    flags.DEFINE_bool(
        "do_lower_case", True, "Lower-case the text: True for uncased models."
    )
    for name, meaning in {
        "do_whole_word_mask": "Mask all pieces of a word, or none.",
        "max_seq_length": "Longest example, in tokens.",
        "max_predictions_per_seq": "Most masked tokens of an example; about "
        "max_seq_length * masked_lm_prob.",
        "random_seed": "Seed of every random decision.",
        "dupe_factor": "Passes over the text, each with other masks.",
        "masked_lm_prob": "Share of an example's tokens to mask.",
        "short_seq_prob": "Share of passes over a document that make shorter "
        "examples.",
        "mask_token_prob": "Share of the masked tokens that become [MASK].",
        "random_token_prob": "Share that becomes a random token; the rest "
        "stays as it is.",
        "next_sentence_prediction": "Make sentence pairs; if false, examples "
        "are runs of consecutive sentences.",
    }.items():
        default = getattr(_DEFAULTS, name)
        define = {
            bool: flags.DEFINE_bool,
            int: flags.DEFINE_integer,
            float: flags.DEFINE_float,
        }[type(default)]
        define(name, default, meaning)


def main() -> None:
    """Reads the flags and writes the records."""
    options = PretrainingDataOptions(
        **{
            field.name: flags.FLAGS[field.name].value
            for field in dataclasses.fields(PretrainingDataOptions)
        }
    )
    pretraining_writer.write_pretraining_data(
        files.expand_patterns(flags.FLAGS.input_file),
        list(filter(None, map(str.strip, flags.FLAGS.output_file.split(",")))),
        vocab_file=flags.FLAGS.vocab_file,
        do_lower_case=flags.FLAGS.do_lower_case,
        options=options,
    )


if __name__ == "__main__":
    define_flags()
    program.run(main, required=("input_file", "output_file", "vocab_file"))
