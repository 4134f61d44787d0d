"""The text of wordpieces, aligned as in the original."""

from hypothesis import given
from hypothesis import strategies as st

from data.squad.examples import Paragraph
from data.squad.paragraphs import TokenizedParagraph
from data.text.tokenization import FullTokenizer
from tests.data.squad import reference
from tests.data.squad.support import WORD


@given(
    words=st.lists(
        WORD | st.text(min_size=1, max_size=5).map(lambda t: t.strip() or "a"),
        min_size=1,
        max_size=6,
    ),
    lower=st.booleans(),
    data=st.data(),
)
def test_texts_equal_the_plain_alignment(goldens, words, lower, data):
    tokenizer = FullTokenizer(str(goldens / "vocab.txt"), lower)
    words = reference.split_words(" ".join(words))
    text = Paragraph("", " ".join(words), words, [0] * len(words))
    tokenized = TokenizedParagraph(text, tokenizer)
    num_tokens = len(tokenized.ids)
    if not num_tokens:
        return
    first = data.draw(st.integers(0, num_tokens - 1))
    last = data.draw(st.integers(first, num_tokens - 1))
    pieces = [piece for word in words for piece in tokenizer.tokenize(word)]
    feature = {
        "tokens": pieces,
        "token_to_orig_map": dict(enumerate(tokenized.word_of_token)),
    }
    expected = reference._text(feature, first, last, words, lower)
    assert tokenized.final_text(first, last)[0] == expected
