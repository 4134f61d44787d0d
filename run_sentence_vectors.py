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

import functools

from data.settings import names_of
from training import program, task_program
from training.config import flags
from training.config.run_options import ExportOptions, LogOptions
from training.config.vector_options import EncodingOptions, SentenceOptions


def main() -> None:
    """Trains, evaluates, exports, encodes or searches, as the flags ask."""
    for name in ("do_encode", "do_search"):
        if flags.value(name):
            encode_or_search(f"--{name}")
            return
    known = names_of(SentenceOptions) | names_of(ExportOptions)
    known |= names_of(LogOptions)
    flags.refuse_unread(known, "a command without --do_encode and --do_search")
    if not flags.value("output_dir"):
        raise ValueError("Flag --output_dir must have a value other than None.")
    read = functools.partial(flags.read, SentenceOptions)
    task_program.main(("do_train", "do_eval"), read, _run)


def _run(options: SentenceOptions) -> None:
    from training.runs import sentences

    sentences.run(options)


def encode_or_search(asked: str) -> None:
    """Writes vectors, or searches among them."""
    options = flags.read(
        EncodingOptions,
        # Their default comes from the model's folder.
        max_seq_length=flags.given("max_seq_length"),
        do_lower_case=flags.given("do_lower_case"),
    )
    known = names_of(EncodingOptions) | names_of(LogOptions)
    flags.refuse_unread(known - options.unread, asked)
    program.load_tensorflow(infers_in=options.device.precision)
    from training.runs import encoding

    encoding.run(options)


if __name__ == "__main__":
    flags.define(SentenceOptions, output_dir=None)
    flags.define(EncodingOptions)
    flags.define(ExportOptions)
    program.run(main)
