"""Scores of vectors: correlation with scores of pairs, and retrieval.

Axes: N texts, P pairs, Q queries, D documents.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

import numpy as np
from absl import logging

from data.metrics import spearman
from data.tasks.examples import TextExample

_AT_ONCE = 256  # queries compared with all documents at once
_DEEP = 10  # the rank up to which an answer counts
RETRIEVAL = ("mrr_at_10", "accuracy_at_1", "accuracy_at_10")


def unit(vectors: np.ndarray) -> np.ndarray:
    """Divides vectors, float [..., size], by their lengths; 0 stays 0."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / np.maximum(lengths, 1e-12)


@dataclasses.dataclass(frozen=True)
class PairSet:
    """Pairs of texts to evaluate on, with the N distinct `texts`.

    `pairs`, int [P, 2], are indices into `texts`; `scores` () = positive pairs,
    which have none.
    """

    texts: Sequence[str]
    pairs: np.ndarray
    scores: Sequence[float]

    def examples(self, set_name: str) -> Iterator[TextExample]:
        """Yields the texts, each as an example of its own."""
        return (TextExample((text,)) for text in self.texts)

    def evaluate(self, vectors: np.ndarray) -> dict[str, float]:
        """Scores vectors, float [N, size], of the texts."""
        vectors = unit(vectors)
        if self.scores:
            first, second = (vectors[places] for places in self.pairs.T)
            cosines = (first * second).sum(axis=1)
            return {"spearman": spearman(np.array(self.scores), cosines)}
        ranks = self._ranks(vectors)
        found = ranks <= _DEEP
        values = (found / ranks).mean(), (ranks == 1).mean(), found.mean()
        return dict(zip(RETRIEVAL, map(float, values), strict=True))

    def _ranks(self, vectors: np.ndarray) -> np.ndarray:
        """Ranks the best right document of each query, from 1: int [Q].

        Queries are the different first texts, documents the different second
        ones but the query itself. A wrong document with an equal cosine is
        before the right one.
        """
        queries, query = np.unique(self.pairs[:, 0], return_inverse=True)
        documents, document = np.unique(self.pairs[:, 1], return_inverse=True)
        right: dict[int, list[int]] = {}
        for q, d in zip(query.tolist(), document.tolist(), strict=True):
            right.setdefault(q, []).append(d)
        ranks = np.empty(len(queries), np.int64)
        candidates = vectors[documents].T
        for start in range(0, len(queries), _AT_ONCE):
            cosines = vectors[queries[start : start + _AT_ONCE]] @ candidates
            for i, row in enumerate(cosines, start):
                best = row[right[i]].max()
                row[right[i]] = -np.inf
                row[documents == queries[i]] = -np.inf
                ranks[i] = 1 + (~(row < best)).sum()  # nan is before it, too
        return ranks


def pair_set(examples: Iterable[TextExample]) -> PairSet:
    """Collects the first two texts of examples and their scores.

    Positive pairs of one text twice are left out: no document is the query.
    """
    places, pairs, scores, num_twice = {}, [], [], 0
    for texts, score in ((x.texts[:2], x.score) for x in examples):
        if score is None and texts[0] == texts[1]:
            num_twice += 1
            continue
        pairs.append([places.setdefault(x, len(places)) for x in texts])
        scores += [score] * (score is not None)
    twice = f"{num_twice} of the pairs to evaluate on have the same text twice"
    if not pairs:
        raise ValueError(f"{twice}, and there are no others; give some.")
    if num_twice:
        logging.warning(f"{twice}; they are left out.")
    warn_of_equal(scores, "evaluate on")
    return PairSet(list(places), np.array(pairs), scores)


def warn_of_equal(scores: Sequence[float], purpose: str) -> None:
    """Warns of scores without an order; `purpose` is that of their pairs."""
    if len(set(scores)) == 1:
        logging.warning(
            f"All {len(scores)} pairs to {purpose} have the score "
            f"{scores[0]:g}. Without an order --loss=cosent learns nothing, "
            "and spearman is 0; give scores that differ, or another --loss."
        )


def at_sizes(
    pairs: PairSet, vectors: np.ndarray, sizes: Sequence[int]
) -> Mapping[str, float]:
    """Scores vectors at each size, the largest first.

    Metrics at a smaller size have it in their name, such as `spearman_64`.
    """
    values = [pairs.evaluate(vectors[:, :size]).values() for size in sizes]
    return dict(zip(names_at(pairs, sizes), chain(*values), strict=True))


def names_at(pairs: PairSet, sizes: Sequence[int]) -> list[str]:
    """Names of the metrics of `at_sizes`, in their order."""
    names = ["spearman"] if pairs.scores else [*RETRIEVAL]
    return names + [f"{n}_{size}" for size in sizes[1:] for n in names]
