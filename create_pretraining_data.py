r"""Turns plain text into pretraining examples (TFRecords).

    python create_pretraining_data.py --input_file='corpus/*.txt' \
        --output_file=train.tfrecord --vocab_file=vocab.txt

    python create_pretraining_data.py --input_file='corpus/*.txt' \
        --output_file=train.tfrecord@64 --vocab_file=vocab.txt \
        --num_processes=8

The text is UTF-8, one sentence on each line, with a blank line between
documents. Give run_pretraining.py the same --max_seq_length and
--max_predictions_per_seq.

Without --num_processes, all text is held in memory and the records equal those
of the original release. With --num_processes, text of any size is converted by
that many processes to as many files as --output_file names (OUT@64 = 64
files). The records do not depend on the number of processes. The same command
resumes a run that was stopped, and OUT@64.manifest.json describes the records.
"""

from data.pretraining import tfds_text
from data.pretraining.data_options import OF_MASKS
from data.pretraining.exact import in_memory
from data.pretraining.recipe import Recipe
from data.pretraining.streaming import all_shards
from data.pretraining.streaming.beam_runner import beam_runner
from data.settings import Settings, amount, optional, setting
from data.storage import files, manifests, outputs
from data.text import vocabulary
from training import program
from training.config import flags

_STREAMING_ONLY = (
    "split_sentences",
    "compression",
    "tfds",
    "runner",
    "max_ngram_size",
    "join_documents",
    "sentence_order_prediction",
    "masking",
)
# Flag -> the flag without which it means nothing.
_NEEDED = {
    "tfds_split": "tfds",
    "tfds_data_dir": "tfds",
    "tfds_text_key": "tfds",
    "beam_options": "runner",
    **dict.fromkeys(_STREAMING_ONLY, "num_processes"),
}


class CreationOptions(Settings):
    """Options of create_pretraining_data.py."""

    input_file: str | None = optional(
        "Text files: paths or globs, comma-separated."
    )
    output_file: str = setting(
        help="TFRecord files, comma-separated; [new] OUT@64 stands for 64 "
        "files, OUT-00000-of-00064 and so on."
    )
    recipe: Recipe
    text: tfds_text.TfdsText
    num_processes: int = amount(
        0,
        "[new] Number of processes that convert text of any size with constant "
        "memory. 0 = hold all text in memory, as the original. The flags "
        f"{', '.join(_STREAMING_ONLY)} need 1 or more.",
    )
    runner: str | None = optional(
        "[new] Write the shards on Apache Beam (requirements-beam.txt), with "
        "this Beam runner, such as DirectRunner."
    )
    beam_options: str = setting(
        "", "[new] Options of Beam, such as '--direct_num_workers=4'."
    )

    def _check(self) -> None:
        if bool(self.input_file) == bool(self.text.tfds):
            raise ValueError(
                "give either --input_file or --tfds, the source of the text."
            )
        changed = self.changed()
        for name, needed in _NEEDED.items():
            if name in changed and needed not in changed:
                raise ValueError(
                    f"--{name}={changed[name]} is for --{needed}, which is not "
                    "given; give both, or neither."
                )
        for name in OF_MASKS if "masking" in changed else ():
            if name in changed:
                raise ValueError(
                    f"--{name}={changed[name]}: with --masking=dynamic, "
                    "run_pretraining.py masks; give it there, or leave "
                    "--masking out."
                )


def main() -> None:
    """Reads the flags and writes the records."""
    options = flags.read(CreationOptions)
    is_dynamic = options.recipe.options.masking == "dynamic"
    if is_dynamic and flags.given("dupe_factor") is None:
        options = options.replace(dupe_factor=1)  # training masks in each epoch
    recipe, text, number = options.recipe, options.text, options.num_processes
    output_files = files.expand_shards(options.output_file)
    vocab = vocabulary.load_vocab(recipe.vocab_file)
    vocabulary.warn_of_case(vocab, recipe.vocab_file, recipe.do_lower_case)
    if options.input_file:
        input_files = files.expand_patterns(options.input_file)
        if any(outputs.are_same(x, recipe.vocab_file) for x in input_files):
            raise ValueError(
                f"--input_file={options.input_file} holds --vocab_file="
                f"{recipe.vocab_file}, which is not text; leave it out."
            )
    manifests.require_one_text(output_files, recipe.facts())
    if not number:
        in_memory.write_pretraining_data(input_files, output_files, recipe)
        return
    name = options.runner
    runner = beam_runner(name, options.beam_options) if name else None
    if not options.input_file:
        # A data set may be large: what is wrong beside it is found before.
        all_shards.check([], output_files, recipe)
        folder = manifests.data_set_name(output_files)
        folder += files.TEXT_FOLDER_SUFFIX
        input_files = tfds_text.write_text_files_in_a_process(text, folder)
    all_shards.write_shards(
        input_files, output_files, recipe, num_processes=number, runner=runner
    )


if __name__ == "__main__":
    flags.define(CreationOptions)
    program.run(main)
