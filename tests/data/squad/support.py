"""Small SQuAD files."""

import json

from hypothesis import strategies as st

from data.squad.articles import SquadData

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


def write(path, *articles):
    """Writes a file of articles; returns it as data."""
    content = {"version": "1.1", "data": list(articles)}
    path.write_text(json.dumps(content), encoding="utf-8")
    return SquadData(str(path))
