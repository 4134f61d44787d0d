from hypothesis import given
from hypothesis import strategies as st

from tests.data.pretraining.support import group_of

SENTENCE = st.lists(st.integers(0, 65535), min_size=1, max_size=9)
SENTENCES = st.lists(SENTENCE, min_size=1, max_size=9)


@given(SENTENCES, st.data())
def test_a_document_cuts_runs_of_sentences(sentences, data):
    group = group_of([[[7, 8]], sentences, [[9]]])
    document = group.documents[1]
    assert len(document) == len(sentences)
    start = data.draw(st.integers(0, len(sentences) - 1))
    num_tokens = data.draw(st.integers(-5, 90))
    # Sentence by sentence, as the original walks.
    reaching, tokens = start, []
    while reaching < len(sentences):
        tokens += sentences[reaching]
        reaching += 1
        if len(tokens) >= num_tokens:
            break
    first = document[start]
    end = group.end_reaching(first, document.stop, num_tokens)
    assert end == document.start + reaching
    assert group.slice(first, end) == tokens
    within = group.end_within(
        group.bounds[first], first, document.stop, num_tokens
    )
    rest = sentences[start:]
    fits = [
        n
        for n in range(1, len(rest) + 1)
        if sum(map(len, rest[:n])) <= num_tokens
    ]
    assert within == first + max(fits, default=1)
