"""Rows without pairs: runs of sentences, of one document or of several."""

from hypothesis import given
from hypothesis import strategies as st

from data.pretraining.groups import DocumentGroup
from tests.data.pretraining.streaming.row_support import CORPUS, Corpus, is_run
from tests.data.pretraining.support import SEP, assert_share


@given(CORPUS, st.integers(15, 40), st.integers(0, 99))
def test_without_pairs_rows_hold_each_document_once(lengths, length, seed):
    corpus = Corpus(lengths)
    rows = corpus.rows(
        seed=seed,
        max_seq_length=length,
        short_seq_prob=0.0,
        next_sentence_prediction=False,
    )
    # No sentence is longer than a row: nothing is cut, nothing is lost.
    assert [t for a, _, _ in rows for t in a] == list(corpus.document)
    for (a, b, label), after in zip(rows, [*rows[1:], None], strict=True):
        assert b is None and label == -1
        assert len({corpus.document[token] for token in a}) == 1
        # The next sentence of the document would not have fitted.
        following = after and after[0][0]
        if following and corpus.document[following] == corpus.document[a[0]]:
            assert len(a) + corpus.length_of(following) > length - 2


def test_without_pairs_a_sentence_longer_than_a_row_is_cut():
    rows = Corpus([[4, 30]]).rows(
        max_seq_length=12, short_seq_prob=0.0, next_sentence_prediction=False
    )
    assert [len(a) for a, _, _ in rows] == [4, 10]
    assert is_run(rows[1][0])


@given(CORPUS, st.integers(15, 40), st.integers(0, 99), st.booleans())
def test_joined_documents_fill_rows(lengths, length, seed, short):
    corpus = Corpus(lengths, separator=SEP)
    rows = corpus.joined(
        seed=seed, max_seq_length=length, short_seq_prob=float(short)
    )
    # No sentence is longer than a row. Rows of a short target may cut none
    # either: they hold at least one sentence.
    tokens = [t for parts in rows for part in parts for t in part]
    assert tokens == list(corpus.document)
    for parts, after in zip(rows, [*rows[1:], None], strict=True):
        documents = [{corpus.document[t] for t in part} for part in parts]
        assert all(len(found) == 1 for found in documents)
        assert len(set.union(*documents)) == len(parts)  # a part is a document
        num_tokens = sum(map(len, parts)) + len(parts) - 1
        assert num_tokens <= length - 2
        if after and not short:
            # The next sentence, after [SEP] if it begins a document, did not
            # fit.
            first = after[0][0]
            begins = corpus.document[first] not in documents[-1]
            assert num_tokens + begins + corpus.length_of(first) > length - 2


def test_parts_of_a_long_document_are_joined_as_documents_are():
    # They do not follow each other in the text.
    corpus = Corpus([[2], [2], [3]], numbers=[7, 7, 8], separator=SEP)
    (parts,) = corpus.joined(max_seq_length=20, short_seq_prob=0.0)
    assert [len(part) for part in parts] == [2, 2, 3]


def test_separators_are_no_wordpieces_of_the_text():
    corpus = Corpus([[2], [0], [2, 1], [3]], separator=SEP)
    assert corpus.group.counts([])["wordpieces"] == 8
    assert Corpus([[2], [3]]).group.counts([])["wordpieces"] == 5
    assert DocumentGroup("i", SEP).counts([])["wordpieces"] == 0


def test_of_a_joined_sentence_longer_than_a_row_only_text_is_cut():
    corpus = Corpus([[30], [4]], separator=SEP)
    rows = corpus.joined(max_seq_length=12, short_seq_prob=0.0)
    assert [[len(part) for part in parts] for parts in rows] == [[10], [4]]
    assert is_run(rows[0][0])


def test_a_share_of_the_rows_of_joined_documents_is_short():
    corpus = Corpus([[1] * 40] * 500, separator=SEP)
    rows = corpus.joined(max_seq_length=22, short_seq_prob=0.3)
    # A target is 2 to 20 tokens, 17 of these 19 lengths are less than 19. A
    # full row may have 19: the 20th would be the [SEP] before a document.
    num_short = sum(
        sum(map(len, parts)) + len(parts) - 1 < 19 for parts in rows[:-1]
    )
    assert_share(num_short, len(rows) - 1, 0.3 * 17 / 19, z=5)
