r"""Turns plain text into pretraining examples (TFRecords).

    python create_pretraining_data.py --input_file='corpus/*.txt' \
        --output_file=train.tfrecord --vocab_file=vocab.txt

    python create_pretraining_data.py --input_file='corpus/*.txt' \
        --output_file=train.tfrecord@64 --vocab_file=vocab.txt \
        --num_processes=8

The text is UTF-8, one sentence a line, with a blank line between documents.
max_seq_length and max_predictions_per_seq go to run_pretraining.py, too.

Without --num_processes all text is held in memory and the records are those of
the original release, one for one. With it, text of any size streams through
that many processes into as many files as --output_file names (OUT@64 = 64
files), the same ones however many processes; a run that was stopped goes on,
and OUT.manifest.json says what was written.
"""

import dataclasses
import functools

from absl import flags

from data.pretraining import tfds_text
from data.pretraining.exact import in_memory
from data.pretraining.options import MASKINGS, PretrainingDataOptions
from data.pretraining.streaming import all_shards
from data.pretraining.streaming.beam_runner import beam_runner
from data.pretraining.streaming.plan import data_set_name
from data.pretraining.streaming.shards import ShardRecipe
from data.storage import files
from training import program
from training.config import flags as training_flags

FLAGS = flags.FLAGS

_define = functools.partial(training_flags.define_field, PretrainingDataOptions)
# Flag -> the value that needs no streaming.
_STREAMING_ONLY = {
    "max_ngram_size": 1,
    "sentence_order_prediction": False,
    "masking": "static",
    "split_sentences": False,
    "compression": "none",
    "tfds": None,
    "runner": None,
}


def define_flags() -> None:
    """Defines the original's flags and, marked [new], our own."""
    flags.DEFINE_string(
        "input_file", None, "Text files: paths or globs, comma-separated."
    )
    flags.DEFINE_string(
        "output_file",
        None,
        "TFRecord files, comma-separated; [new] OUT@64 stands for 64 files, "
        "OUT-00000-of-00064 and so on.",
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
        "dupe_factor": "Passes over the text, each with other masks; 1 if not "
        "given with --masking=dynamic.",
        "masked_lm_prob": "Share of an example's tokens to mask.",
        "short_seq_prob": "Share of passes over a document that make shorter "
        "examples.",
        "mask_token_prob": "[new] Share of the masked tokens that become "
        "[MASK].",
        "random_token_prob": "[new] Share that becomes a random token; the "
        "rest stays as it is.",
        "next_sentence_prediction": "[new] Make sentence pairs; if false, "
        "examples are runs of consecutive sentences with the label -1, and "
        "run_pretraining.py trains masked LM alone.",
    }.items():
        _define(name, meaning)
    flags.DEFINE_integer(
        "num_processes",
        0,
        "[new] Stream the text through so many processes: any size of text, "
        "flat memory. 0 = hold it in memory, as the original. The flags below "
        "need 1 or more.",
        lower_bound=0,
    )
    _define(
        "max_ngram_size",
        "[new] Mask spans of up to so many consecutive words (wordpieces, "
        "without --do_whole_word_mask), a span of n with chance ~ 1/n.",
    )
    _define(
        "sentence_order_prediction",
        "[new] ALBERT's pairs: next_sentence_labels is 0 where b follows a, 1 "
        "where they are swapped (or, where only one sentence is left, where b "
        "is random).",
    )
    flags.DEFINE_enum(
        "masking",
        PretrainingDataOptions.masking,
        MASKINGS,
        "[new] dynamic = write examples without masks, for run_pretraining.py "
        "--masking=dynamic, which masks them anew in every epoch.",
    )
    flags.DEFINE_bool(
        "split_sentences",
        False,
        "[new] Lines are paragraphs: cut them into sentences.",
    )
    flags.DEFINE_enum(
        "compression",
        "none",
        ["none", "gzip"],
        "[new] Of the records; run_pretraining.py reads both.",
    )
    flags.DEFINE_string(
        "tfds",
        None,
        "[new] Take the text of a tensorflow-datasets data set, such as "
        "wiki40b/en, in place of --input_file; kept as text files beside the "
        "output.",
    )
    flags.DEFINE_string("tfds_split", "train", "[new] Its split.")
    flags.DEFINE_string(
        "tfds_data_dir", None, "[new] Where tensorflow-datasets keeps data."
    )
    flags.DEFINE_string(
        "tfds_text_key",
        None,
        "[new] The feature that holds the text; `text`, if not given.",
    )
    flags.DEFINE_string(
        "runner",
        None,
        "[new] Write the shards on Apache Beam (requirements-beam.txt), by "
        "this runner of its, such as DirectRunner.",
    )
    flags.DEFINE_string(
        "beam_options",
        "",
        "[new] Beam's own options, as on a command line: "
        "'--direct_num_workers=4'.",
    )
    flags.adopt_module_key_flags(training_flags)  # so that --help shows them


def main() -> None:
    """Reads the flags and writes the records."""
    if FLAGS.masking == "dynamic" and FLAGS["dupe_factor"].using_default_value:
        FLAGS.dupe_factor = 1  # training masks anew in every epoch
    options = PretrainingDataOptions(
        **{
            field.name: FLAGS[field.name].value
            for field in dataclasses.fields(PretrainingDataOptions)
        }
    )
    output_files = files.expand_shards(FLAGS.output_file)
    _check_flags()
    if not FLAGS.num_processes:
        in_memory.write_pretraining_data(
            files.expand_patterns(FLAGS.input_file),
            output_files,
            vocab_file=FLAGS.vocab_file,
            do_lower_case=FLAGS.do_lower_case,
            options=options,
        )
        return
    recipe = ShardRecipe(
        options,
        vocab_file=FLAGS.vocab_file,
        do_lower_case=FLAGS.do_lower_case,
        split_sentences=FLAGS.split_sentences,
        compression=FLAGS.compression,
    )
    runner = None
    if FLAGS.runner:
        runner = beam_runner(FLAGS.runner, FLAGS.beam_options)
    all_shards.write_shards(
        _input_files(output_files),
        output_files,
        recipe,
        num_processes=FLAGS.num_processes,
        runner=runner,
    )


def _input_files(output_files: list[str]) -> list[str]:
    """Where the text is; that of a data set is written out first."""
    if FLAGS.input_file:
        return files.expand_patterns(FLAGS.input_file)
    return tfds_text.write_text_files_in_a_process(
        FLAGS.tfds,
        f"{data_set_name(output_files)}.tfds-text",
        split=FLAGS.tfds_split,
        data_dir=FLAGS.tfds_data_dir,
        text_key=FLAGS.tfds_text_key,
    )


def _check_flags() -> None:
    """Refuses flags that do not go together."""
    if bool(FLAGS.input_file) == bool(FLAGS.tfds):
        raise ValueError(
            "give either --input_file or --tfds: where the text comes from."
        )
    if not FLAGS.num_processes:
        for name, harmless in _STREAMING_ONLY.items():
            if FLAGS[name].value != harmless:
                raise ValueError(
                    f"--{name} is for streaming; pass --num_processes=1 or "
                    "more with it."
                )


if __name__ == "__main__":
    define_flags()
    program.run(main, required=("output_file", "vocab_file"))
