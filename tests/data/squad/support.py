"""Small SQuAD files."""

import json

from hypothesis import strategies as st

from data.squad.articles import SquadData
from data.squad.window_options import WindowOptions

# The lengths of the goldens.
GOLDEN = WindowOptions(max_seq_length=96, doc_stride=32, max_query_length=16)

# Words that become several wordpieces, none, others or longer texts.
WORD = st.sampled_from(
    ["a", "The", "(cat)", "Café-bar.", "\u200b", "a\xa0b", "x" * 201, "中国"]
    + ["1895-1943),", "İ", "don't", "a.a.a", "##ing", "[UNK]", "ΣΑΣ", "ﬁn"]
)


def question(qas_id, text="What is it?", answers=None, **fields):
    """A question; `answers` are (text, answer_start), None = no such key."""
    made = {"id": qas_id, "question": text, **fields}
    if answers is not None:
        made["answers"] = [
            {"text": answer, "answer_start": start} for answer, start in answers
        ]
    return made


def paragraph(context, *questions):
    return {"context": context, "qas": list(questions)}


def article(*paragraphs, title="A title"):
    return {"title": title, "paragraphs": list(paragraphs)}


def token_to_orig_map(window):
    """Index in the row -> index of the word in the paragraph."""
    words, span = window.paragraph.word_of_token, window.span
    return {
        window.doc_offset + i: words[span.doc_start + i]
        for i in range(span.doc_length)
    }


def token_is_max_context(window):
    """Index in the row -> whether no other window has more context."""
    span = window.span
    return {
        window.doc_offset + i: (
            span.best_start <= span.doc_start + i < span.best_end
        )
        for i in range(span.doc_length)
    }


def write(path, *articles):
    """Writes a file of articles; returns them as read."""
    content = {"version": "1.1", "data": list(articles)}
    path.write_text(json.dumps(content), encoding="utf-8")
    return SquadData(str(path)).read()


def write_paragraph(path, context, *questions):
    """Writes a file of one paragraph; returns its article as read."""
    return write(path, article(paragraph(context, *questions)))


def read_golden(goldens, name):
    """The articles of a golden file, such as dev-v1.1."""
    return SquadData(str(goldens / f"squad/{name}.json")).read()
