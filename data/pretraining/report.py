"""Counts and warnings of create_pretraining_data.py."""

import glob
from collections.abc import Mapping, Sequence

import numpy as np
from absl import logging

from data.pretraining.data_options import PretrainingDataOptions
from data.records.feature_spec import NO_PAIR
from data.storage import files, manifests

_NUM_ROWS = 3
_MAX_UNKNOWN_SHARE = 0.01
_MIN_TEXT_SHARE = 0.8


def warn_of_few_predictions(options: PretrainingDataOptions) -> None:
    """Warns if max_predictions_per_seq removes many masks."""
    wanted = round(options.max_seq_length * options.masked_lm_prob)
    most = options.max_predictions_per_seq
    if most < 0.75 * wanted:
        logging.warning(
            f"--max_predictions_per_seq={most}, but masked_lm_prob "
            f"{options.masked_lm_prob:g} of {options.max_seq_length} tokens is "
            f"{wanted}; pass that instead, also to run_pretraining.py."
        )


def warn_of_other_shards(outputs: Sequence[str]) -> None:
    """Warns of shards of the same name that are not part of a data set."""
    name = manifests.data_set_name(outputs)
    found = files.find(f"{glob.escape(name)}-?????-of-?????")
    if others := sorted(set(found) - set(outputs)):
        whole = manifests.path_of(outputs).removesuffix(files.MANIFEST_SUFFIX)
        is_whole = {*files.expand_shards(whole)} <= {*outputs}
        logging.warning(
            f"{len(others)} other shards are there, such as {others[0]}: read "
            f"{whole if is_whole else ','.join(outputs)}, not {name}-*, or "
            "remove the others."
        )


def log_counts(
    counts: Mapping[str, int], options: PretrainingDataOptions, seconds: float
) -> None:
    """Logs the counts of all records, and warns of what was lost.

    `counts` are `examples`, their `tokens` (without padding) and `masked`
    tokens, and the text's `wordpieces` and `unknown` wordpieces.
    """
    examples, tokens = counts["examples"], counts["tokens"]
    unknown = counts["unknown"] / counts["wordpieces"]
    if unknown > _MAX_UNKNOWN_SHARE:
        logging.warning(
            f"{100 * unknown:.1f} % of the tokens are [UNK]: is --vocab_file "
            "for this language, and does --do_lower_case fit it?"
        )
    share = tokens / (counts["wordpieces"] * options.dupe_factor)
    if share < _MIN_TEXT_SHARE:
        logging.warning(
            f"the examples hold at most {100 * share:.0f} % of the text: lines "
            "longer than an example are cut. Give one sentence on each line, "
            "--split_sentences with --num_processes, or more --max_seq_length."
        )
    most = options.max_predictions_per_seq * examples
    wanted = min(options.masked_lm_prob * tokens, most)
    masked = counts.get("masked", 0)
    if masked < wanted / 2 and options.masking == "static":
        logging.warning(
            f"{masked:,} tokens are masked, of about {wanted:,.0f} wanted: "
            "words are too long for --do_whole_word_mask. Pass "
            "--word_segmenter for a text without spaces."
        )
    padding = 1 - tokens / (examples * options.max_seq_length)
    logging.info(
        f"Wrote {examples:,} examples, {tokens:,} tokens "
        f"({masked / tokens:.1%} masked), padding "
        f"{padding:.1%}, unknown tokens {unknown:.2%}; {seconds:.1f} s, "
        f"{examples / seconds:,.0f} examples/s",
    )


def describe_rows(
    columns: Mapping[str, np.ndarray], tokens_by_id: Mapping[int, str]
) -> list[str]:
    """Returns the first three rows as text, for the log."""
    texts = []
    for row in range(min(_NUM_ROWS, len(columns["input_ids"]))):
        of_row = {name: values[row] for name, values in columns.items()}
        ids = of_row["input_ids"][of_row["input_mask"] == 1]
        tokens = " ".join(tokens_by_id[i] for i in ids)
        masked = []
        if "masked_lm_ids" in of_row:
            names = ("masked_lm_positions", "masked_lm_ids")
            count = np.count_nonzero(of_row["masked_lm_weights"])
            pairs = zip(*(of_row[name][:count] for name in names), strict=True)
            masked = [f"{place}={tokens_by_id[i]}" for place, i in pairs]
        (label,) = of_row["next_sentence_labels"]
        texts.append(
            f"*** Example ***\ntokens: {tokens}\nmasked: {' '.join(masked)}\n"
            f"is_random_next: {'no pair' if label == NO_PAIR else bool(label)}"
        )
    return texts
