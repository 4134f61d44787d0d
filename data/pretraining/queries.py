"""Sentences with `[MASK]` and sentence pairs for a pretrained model."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from data.storage import files
from data.text import packing
from data.text.tokenization import FullTokenizer


class Query(NamedTuple):
    """One line of the input as ids of wordpieces with [CLS] and [SEP].

    `segment_ids` are 0 for [CLS] a [SEP] and 1 for b; `masked_positions` are
    the indices of `[MASK]`.
    """

    text: str
    input_ids: list[int]
    segment_ids: list[int]
    masked_positions: list[int]

    @property
    def is_pair(self) -> bool:
        """Whether the line was `A ||| B`."""
        return 1 in self.segment_ids


def read_queries(
    path: str, tokenizer: FullTokenizer, *, max_seq_length: int
) -> list[Query]:
    """Reads a query on each line: `A` or `A ||| B`, possibly with `[MASK]`.

    `[MASK]` is one wordpiece here; the tokenizer itself splits it, as in the
    original. Empty lines are ignored. Raises ValueError, naming the line, if
    one has neither `[MASK]` nor a pair, or is too long; or if there is none.
    """
    queries = []
    for number, line in enumerate(files.read_lines(path), start=1):
        if not line.strip():
            continue
        query = make_query(line.strip(), tokenizer)
        if not query.masked_positions and not query.is_pair:
            raise ValueError(
                f"{path}, line {number}: neither [MASK] nor a pair (`first ||| "
                f"second`, with spaces around the bars): {line.strip()!r}."
            )
        if len(query.input_ids) > max_seq_length:
            raise ValueError(
                f"{path}, line {number}: {len(query.input_ids)} wordpieces, "
                f"but --max_seq_length={max_seq_length}; change one of them."
            )
        queries.append(query)
    if not queries:
        raise ValueError(
            f"{path}: no line with text; give one query on each line."
        )
    return queries


def make_query(text: str, tokenizer: FullTokenizer) -> Query:
    """Tokenizes one line, as `read_queries` does."""
    vocab = tokenizer.vocab
    first, second = packing.split_pair(text)
    parts = (_encode(part or "", tokenizer) for part in (first, second))
    ids, segment_ids = packing.add_special_tokens(
        *parts, vocab["[CLS]"], vocab["[SEP]"], is_pair=second is not None
    )
    masked = [i for i, one in enumerate(ids) if one == vocab["[MASK]"]]
    return Query(text, ids, segment_ids, masked)


def _encode(text: str, tokenizer: FullTokenizer) -> list[int]:
    first, *others = map(tokenizer.encode, text.split("[MASK]"))
    for ids in others:
        first += [tokenizer.vocab["[MASK]"], *ids]
    return first


def query_batch(
    queries: Sequence[Query], max_seq_length: int, max_predictions: int
) -> dict[str, np.ndarray]:
    """Pads B queries to one shape, for P places of `[MASK]` at most.

    Returns int32 input_ids, input_mask (1 = real), segment_ids [B, S] and
    masked_lm_positions [B, P] (padded with 0).
    """
    rows = [(query.input_ids, query.segment_ids) for query in queries]
    places = [packing.pad(x.masked_positions, max_predictions) for x in queries]
    batch = packing.pad_batch(rows, max_seq_length)
    return batch | {"masked_lm_positions": np.array(places, np.int32)}


def answer(
    query: Query,
    masked_lm_probs: np.ndarray,
    next_sentence_probs: np.ndarray,
    inv_vocab: dict[int, str],
    top_k: int,
) -> dict:
    """Converts a model's probabilities to words, `top_k` for each `[MASK]`.

    The probabilities are float [P, V] at the masked positions, and [2] of the
    next sentence; class 0 = B follows A. Returns `text`; `masks`, a list of
    [word, probability] lists, if there are masks; `is_next_probability` for a
    pair.
    """
    result: dict = {"text": query.text}
    if query.masked_positions:
        result["masks"] = [
            [
                [inv_vocab.get(int(i), f"[id {i}]"), round(float(probs[i]), 6)]
                for i in np.argsort(-probs, kind="stable")[:top_k]
            ]
            for probs in masked_lm_probs[: len(query.masked_positions)]
        ]
    if query.is_pair:
        result["is_next_probability"] = round(float(next_sentence_probs[0]), 6)
    return result
