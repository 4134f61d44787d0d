r"""Trains BERT to make a vector of each text: to compare and to search texts.

  python run_sentence_vectors.py --task_name=STS-B --data_dir=glue/STS-B \
    --do_train --do_eval --init_checkpoint=$BERT --output_dir=/tmp/vectors

  python run_sentence_vectors.py --loss=negatives --train_file=pairs.tsv \
    --dev_file=dev.tsv --text_columns=question,answer --do_train --do_eval \
    --train_batch_size=256 --gradient_accumulation_steps=16 \
    --init_checkpoint=$BERT --output_dir=/tmp/search

  python run_sentence_vectors.py --do_encode --init_checkpoint=/tmp/search \
    --input_file=texts.txt --output_file=texts.npy

  python run_sentence_vectors.py --do_search --init_checkpoint=/tmp/search \
    --index_file=texts.npy

The first command trains on pairs with a score, the second on questions with
their answers, each against the other answers of its batch. Training writes
checkpoints (model.ckpt-N), evaluation metrics.json. The same command again
resumes a run that was stopped. The third writes a vector for each line of a
text, row by row; the fourth asks for questions, and prints the nearest texts.
Both take any model: a run's folder, or one of sentence-transformers.
"""

from training import program
from training.config import flags
from training.config.encoding_options import EncodingOptions
from training.config.finetuning_options import check_strip
from training.config.run_options import DeviceOptions, ExportOptions
from training.config.vector_options import SentenceOptions


def define_flags() -> None:
    """Defines the flags."""
    flags.define(SentenceOptions, output_dir=None)
    flags.define(EncodingOptions)
    flags.define(ExportOptions, do_export=False)


def main() -> None:
    """Trains, evaluates, exports, encodes or searches, as the flags ask."""
    if flags.value("do_encode") or flags.value("do_search"):
        encode_or_search()
        return
    if not flags.value("output_dir"):
        raise ValueError("Flag --output_dir must have a value other than None.")
    exported = flags.read(ExportOptions) if flags.value("do_export") else None
    options = None
    check_strip(flags.value("strip_checkpoint"), flags.value("do_train"))
    if flags.value("do_train") or flags.value("do_eval") or not exported:
        options = flags.read(SentenceOptions)
    device, output_dir = flags.read(DeviceOptions), flags.value("output_dir")
    program.load_tensorflow()
    from training.devices import session
    from training.export import saved_model
    from training.runs import sentences
    from training.start import description

    if not options and not description.is_there(output_dir):
        options = flags.read(SentenceOptions)
    with session.joined(device, output_dir, flags.shared_values()) as here:
        if options:
            sentences.run(options.replace(output_dir=here.output_dir))
        if exported and here.is_chief:
            saved_model.run(exported)


# Flags whose default comes from the model's folder.
_OF_MODEL = ("max_seq_length", "do_lower_case")


def encode_or_search() -> None:
    """Writes vectors, or searches among them."""
    for name in ("do_train", "do_eval", "do_export"):
        if flags.value(name):
            raise ValueError(
                f"--{name} trains or ends a run, --do_encode and --do_search "
                "use a finished one; give each a command of its own."
            )
    of_model = {name: flags.given(name) for name in _OF_MODEL}
    options = flags.read(EncodingOptions, **of_model)
    program.load_tensorflow()
    from training.runs import encoding

    encoding.run(options)


if __name__ == "__main__":
    define_flags()
    program.run(main)
