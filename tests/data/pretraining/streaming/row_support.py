"""Rows of a corpus whose every token tells where it is from."""

import numpy as np
from hypothesis import strategies as st

from data.pretraining.data_options import PretrainingDataOptions, Wordpieces
from data.pretraining.groups import DocumentGroup
from data.pretraining.streaming.pairs import draw_rows
from tests.data.pretraining.support import CLS, MASK, SEP

# Every token of a corpus has an id of its own, from here on.
FIRST_ID = 10
WORDPIECES = Wordpieces(CLS, SEP, MASK, [], [])
CORPUS = st.lists(
    st.lists(st.integers(0, 12), min_size=1, max_size=8), min_size=2, max_size=6
).filter(lambda corpus: sum(map(any, corpus)) >= 2)


class Corpus:
    """Documents of sentences of given lengths, all of their tokens distinct.

    Each token tells its document and its sentence.
    """

    def __init__(self, lengths, numbers=None, separator=None):
        self.group = DocumentGroup("i", separator)
        self.document, self.sentence = {}, {}
        token = FIRST_ID
        for document, of_document in enumerate(lengths):
            sentences = []
            for sentence, length in enumerate(of_document):
                tokens = list(range(token, token + length))
                sentences.append(tokens)
                self.document |= dict.fromkeys(tokens, document)
                self.sentence |= dict.fromkeys(tokens, (document, sentence))
                token += length
            self.group.add(
                document if numbers is None else numbers[document], sentences
            )

    def length_of(self, token):
        """The number of tokens of a token's sentence."""
        return list(self.sentence.values()).count(self.sentence[token])

    def draw(self, num_documents=None, seed=0, **options):
        self.group.num_own = num_documents
        return draw_rows(
            self.group,
            WORDPIECES,
            PretrainingDataOptions(**options),
            np.random.default_rng(seed),
        )

    def rows(self, *args, **options):
        rows = self.draw(*args, **options)
        return [row for some in rows for row in split(some)]

    def joined(self, **options):
        """The text of rows of joined documents, divided at each [SEP]."""
        found = []
        for some in self.draw(
            next_sentence_prediction=False, join_documents=True, **options
        ):
            assert not some["segment_ids"].any()
            assert (some["next_sentence_labels"] == -1).all()
            for row, length in zip(
                some["input_ids"].tolist(), lengths_of(some), strict=True
            ):
                assert row[0] == CLS and row[length - 1] == SEP
                assert not any(row[length:])
                parts = [[]]
                for token in row[1:length]:
                    if token == SEP:
                        parts.append([])
                    else:
                        parts[-1].append(token)
                assert not parts.pop()  # after the last [SEP]
                found.append(parts)
        return found


def lengths_of(rows):
    """The tokens of each row, which are the first of their places."""
    lengths = rows["input_mask"].sum(axis=1)
    places = np.arange(rows["input_mask"].shape[1])
    assert (rows["input_mask"] == (places < lengths[:, None])).all()
    return lengths.tolist()


def split(rows):
    """Checks the form of rows; yields (a, b or None, label)."""
    for row, length, segments, label in zip(
        rows["input_ids"].tolist(),
        lengths_of(rows),
        rows["segment_ids"].tolist(),
        rows["next_sentence_labels"][:, 0].tolist(),
        strict=True,
    ):
        tokens = row[:length]
        assert not any(row[length:])
        assert tokens[0] == CLS and tokens[-1] == SEP
        first_sep = tokens.index(SEP)
        a, b = tokens[1:first_sep], tokens[first_sep + 1 : -1] or None
        num_second = len(b) + 1 if b else 0
        assert segments == [0] * (first_sep + 1) + [1] * num_second + [0] * (
            len(row) - length
        )
        assert min(a + (b or [])) >= FIRST_ID  # no other special tokens
        yield a, b, label


def is_run(tokens):
    return tokens == list(range(tokens[0], tokens[0] + len(tokens)))
