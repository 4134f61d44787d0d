"""Text files to pretraining records, with progress and a report.

Corpus and instances are held in memory, since a random next sentence may come
from any document and all instances are shuffled together: two bytes a token
(four if the vocabulary has more than 65,536), about 600 bytes an instance of
128 tokens. Larger corpora: give a part of them to each of several runs.
"""

import contextlib
import dataclasses
import random
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from typing import TypeVar

import tensorflow as tf
from absl import logging

from data import files, packing, progress, records, vocabulary
from data.instances import Document, InstanceList, TrainingInstance
from data.pretraining_examples import (
    PretrainingDataOptions,
    Wordpieces,
    create_training_instances,
)
from data.tokenization import FullTokenizer

_NUM_LOGGED_EXAMPLES = 3
_MAX_UNKNOWN_SHARE = 0.01

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Report:
    """What was written.

    Attributes:
      num_examples: records in all output files.
      num_tokens: their tokens without padding, [CLS] and [SEP] included.
      padding_share: padding's share of `input_ids`.
      masked_share: masked tokens' share of `num_tokens`.
      unknown_share: [UNK]'s share of the corpus's tokens.
      duration_s: from reading to the last record.
    """

    num_examples: int
    num_tokens: int
    padding_share: float
    masked_share: float
    unknown_share: float
    duration_s: float

    def __str__(self) -> str:
        return (
            f"{self.num_examples:,} examples, {self.num_tokens:,} tokens "
            f"({self.masked_share:.1%} masked), padding "
            f"{self.padding_share:.1%}, unknown tokens "
            f"{self.unknown_share:.2%}; {self.duration_s:.1f} s, "
            f"{self.num_examples / self.duration_s:,.0f} examples/s"
        )


def write_pretraining_data(
    input_files: Sequence[str],
    output_files: Sequence[str],
    *,
    vocab_file: str,
    do_lower_case: bool,
    options: PretrainingDataOptions,
) -> Report:
    """Turns text into masked, packed examples.

    Args:
      input_files: UTF-8 text, one sentence a line, a blank line between
        documents. A document may go on in the next file.
      output_files: TFRecord files, filled in turn; they appear together and
        whole, or not at all.
      vocab_file: vocabulary with [CLS], [SEP], [MASK] and [UNK].
      do_lower_case: True for an uncased vocabulary.
      options: what to make.

    Returns:
      Counts and shares, also logged.

    Raises:
      FileNotFoundError: an input is missing.
      ValueError: the input has no text, is not UTF-8, or is an output, too;
        the vocabulary lacks a special token.
      OSError: an output cannot be written.

    Source: main in create_pretraining_data.py.
    """
    start_s = time.monotonic()
    files.check_outputs(input_files, output_files)
    _warn_of_few_predictions(options)
    tokenizer = FullTokenizer(vocab_file, do_lower_case)
    special_tokens = ["[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary.require_tokens(tokenizer.vocab, special_tokens, vocab_file)
    wordpieces = Wordpieces.from_vocab(tokenizer.vocab)
    documents = read_documents(input_files, tokenizer, wordpieces.typecode)
    unknown_share = _unknown_share(documents, tokenizer)
    # The outputs are opened first: a place that cannot be written is found
    # before the work, not after it.
    with files.whole_files(output_files) as paths, _open_all(paths) as writers:
        instances = create_training_instances(
            documents,
            wordpieces,
            options,
            random.Random(options.random_seed),
            lambda turns: _tracked(turns, "masking", "documents"),
        )
        _write_instances(instances, writers, tokenizer.inv_vocab, options)
    report = Report(
        num_examples=len(instances),
        num_tokens=instances.num_tokens,
        padding_share=1
        - instances.num_tokens / (len(instances) * options.max_seq_length),
        masked_share=instances.num_masked / instances.num_tokens,
        unknown_share=unknown_share,
        duration_s=time.monotonic() - start_s,
    )
    logging.info("Wrote %s", report)
    return report


def read_documents(
    input_files: Sequence[str], tokenizer: FullTokenizer, typecode: str
) -> list[Document]:
    """Reads and tokenizes text; only blank lines part documents.

    Args:
      input_files: one sentence a line, in UTF-8.
      tokenizer: cuts each line.
      typecode: `array` type of token ids.

    Returns:
      The documents that are not empty, in order.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: there is no text, or it is not UTF-8.

    Source: create_training_instances in create_pretraining_data.py.
    """
    documents = [Document(typecode)]
    for path in input_files:
        logging.info("Reading %s", path)
        for line in _tracked(files.read_lines(path), "reading", "lines"):
            line = line.strip()
            if not line and len(documents[-1]):
                documents.append(Document(typecode))
            ids = tokenizer.encode(line)
            if ids:
                documents[-1].append(ids)
    if not len(documents[-1]):
        documents.pop()
    if not documents:
        raise ValueError(
            f"--input_file: no text in {', '.join(input_files[:3])}; expected "
            "one sentence a line and a blank line between documents."
        )
    logging.info("%d documents", len(documents))
    return documents


def features_of(
    instance: TrainingInstance, options: PretrainingDataOptions
) -> dict[str, list[float]]:
    """Pads an instance to the values of `records.pretraining_features`.

    Source: write_instance_to_example_files in create_pretraining_data.py.
    """
    seq, predictions = options.max_seq_length, options.max_predictions_per_seq
    return {
        "input_ids": packing.pad(instance.tokens, seq),
        "input_mask": packing.pad([1] * len(instance.tokens), seq),
        "segment_ids": packing.pad(instance.segment_ids, seq),
        "masked_lm_positions": packing.pad(
            instance.masked_lm_positions, predictions
        ),
        "masked_lm_ids": packing.pad(instance.masked_lm_labels, predictions),
        "masked_lm_weights": packing.pad(
            [1.0] * len(instance.masked_lm_labels), predictions
        ),
        "next_sentence_labels": [int(instance.is_random_next)],
    }


def _write_instances(
    instances: InstanceList,
    writers: Sequence[tf.io.TFRecordWriter],
    tokens_by_id: Mapping[int, str],
    options: PretrainingDataOptions,
) -> None:
    """Writes the instances to the files in turn, and logs the first."""
    specs = records.pretraining_features(
        options.max_seq_length, options.max_predictions_per_seq
    )
    for i, instance in enumerate(_tracked(instances, "writing", "examples")):
        features = features_of(instance, options)
        writers[i % len(writers)].write(records.serialize(specs, features))
        if i < _NUM_LOGGED_EXAMPLES:
            _log_example(instance, tokens_by_id)


@contextlib.contextmanager
def _open_all(paths: Sequence[str]) -> Iterator[list[tf.io.TFRecordWriter]]:
    """Opens record files, and closes them at the end."""
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(tf.io.TFRecordWriter(path)) for path in paths
        ]


def _warn_of_few_predictions(options: PretrainingDataOptions) -> None:
    """Warns if the cap of predictions takes many masks away."""
    wanted = round(options.max_seq_length * options.masked_lm_prob)
    if options.max_predictions_per_seq < 0.75 * wanted:
        logging.warning(
            "max_predictions_per_seq is %d, but masked_lm_prob %g of %d tokens "
            "is %d: fewer tokens will be masked; pass "
            "--max_predictions_per_seq=%d, here and to run_pretraining.py.",
            options.max_predictions_per_seq,
            options.masked_lm_prob,
            options.max_seq_length,
            wanted,
            wanted,
        )


def _unknown_share(
    documents: Sequence[Document], tokenizer: FullTokenizer
) -> float:
    """The share of [UNK] among all tokens; warns if it is high."""
    unk_id = tokenizer.vocab["[UNK]"]
    num_unknown = sum(document.tokens.count(unk_id) for document in documents)
    share = num_unknown / sum(len(document.tokens) for document in documents)
    if share > _MAX_UNKNOWN_SHARE:
        logging.warning(
            "%.1f %% of the tokens are [UNK]: is --vocab_file for this "
            "language, and does --do_lower_case fit it?",
            100 * share,
        )
    return share


def _log_example(
    instance: TrainingInstance, tokens_by_id: Mapping[int, str]
) -> None:
    """Shows an instance as text."""
    labels = zip(
        instance.masked_lm_positions, instance.masked_lm_labels, strict=True
    )
    logging.info(
        "*** Example ***\ntokens: %s\nmasked: %s\nis_random_next: %s",
        " ".join(tokens_by_id[i] for i in instance.tokens),
        " ".join(f"{position}={tokens_by_id[i]}" for position, i in labels),
        instance.is_random_next,
    )


def _tracked(items: Iterable[T], doing: str, unit: str) -> Iterator[T]:
    """Passes items on and shows how many."""
    total = len(items) if isinstance(items, Sized) else None
    with progress.Progress(doing, total=total, unit=unit) as shown:
        for item in items:
            yield item
            shown.advance()
