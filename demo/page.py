"""What a demo's model has learned, as one HTML page that needs no network."""

import base64
import collections
import html
import pathlib
import re
import tempfile
from collections.abc import Iterable, Sequence

import numpy as np

import bert
from data.storage import files
from data.vectors import attention_picture

_NUM_WORDS, _NUM_NEIGHBORS = 24, 6
_LAYERS = {0: "First", -1: "Last"}  # that are drawn
_SKIPPED = 40  # the most frequent words say little
_STYLE = """
:root { color-scheme: light dark; --page: #f6f5f1; --card: #fff;
  --ink: #22252b; --soft: #6a6f7a; --line: #dedcd4; --accent: #3157c9; }
@media (prefers-color-scheme: dark) { :root { --page: #16181c;
  --card: #1f2227; --ink: #e4e4e0; --soft: #9aa0ab; --line: #353941;
  --accent: #8fb0ff; } }
body { margin: 0 auto; max-width: 62rem; padding: 1rem 1.2rem 4rem;
  background: var(--page); color: var(--ink);
  font: 16px/1.55 system-ui, sans-serif; }
h1 { font-size: 1.3rem; } h2 { font-size: 1.05rem; margin: 2rem 0 .4rem; }
p, td { overflow-wrap: anywhere; } .soft { color: var(--soft); }
table { border-collapse: collapse; width: 100%; background: var(--card);
  border: 1px solid var(--line); }
td, th { padding: .4rem .8rem; border-bottom: 1px solid var(--line);
  text-align: start; vertical-align: top; }
b { color: var(--accent); }
img { max-width: 100%; background: #fff; border: 1px solid var(--line); }
"""


def write(
    out: pathlib.Path,
    facts: Sequence[str],
    fillings: Iterable[tuple[str, str, Sequence[tuple[str, float]]]],
    do_lower_case: bool,
) -> str:
    """Writes the page to the demo's folder; returns its path.

    `facts` are sentences about the run; `fillings` are sentences with [MASK],
    the masked word, and wordpieces with their probabilities.
    """
    fillings = list(fillings)
    model = bert.load(f"{out}/model", do_lower_case=do_lower_case)
    parts = [
        "<!doctype html><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width'>"
        "<meta http-equiv='Content-Security-Policy' content=\"default-src "
        "'none'; style-src 'unsafe-inline'; img-src data:\">"
        f"<title>What the model has learned</title><style>{_STYLE}</style>"
        "<h1>What the model has learned</h1>",
        *(f"<p>{html.escape(fact)}</p>" for fact in facts),
        "<h2>Masked words</h2><p class='soft'>Sentences that training did not "
        "see. The masked word is bold where it is among the five best.</p>",
        _table(["Sentence", "Five best", "Masked"], map(_filled, fillings)),
        "<h2>Neighbors of words</h2><p class='soft'>Frequent words, and those "
        "with the most similar vectors (cosine of the input embeddings).</p>",
        _table(["Word", "Nearest"], _neighbors(out, model)),
        "<h2>Attention</h2><p class='soft'>Each row looks at "
        "columns; a pale map that is nearly uniform has learned nothing.</p>",
        *(_picture(model, fillings[0][0], layer) for layer in _LAYERS),
    ]
    path = f"{out}/page.html"
    files.write_text(path, "\n".join(parts))
    return path


def _table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are HTML."""
    head = "".join(f"<th>{name}</th>" for name in names)
    body = [
        "<tr>" + "".join(f"<td dir='auto'>{x}</td>" for x in row) + "</tr>"
        for row in rows
    ]
    return f"<table><tr>{head}</tr>{''.join(body)}</table>"


def _filled(filling: tuple) -> list[str]:
    sentence, word, best = filling
    known = {word.lower(), word}
    shown = [
        f"<b>{html.escape(piece)}</b> {p:.0%}"
        if piece in known
        else f"{html.escape(piece)} {p:.0%}"
        for piece, p in best
    ]
    return [html.escape(sentence), " &nbsp; ".join(shown), html.escape(word)]


def _neighbors(out: pathlib.Path, model: "bert.Model") -> list[list[str]]:
    """Frequent whole words of the training text, and their neighbors."""
    tokenizer = model.loaded.tokenizer
    counts: collections.Counter[str] = collections.Counter()
    for line in files.read_lines(f"{out}/train.txt"):
        counts.update(tokenizer.tokenize(line))
    words = [
        word
        for word, count in counts.most_common()
        if count >= 5 and re.fullmatch(r"[^\W\d_](\w*)", word)
    ]
    ids = tokenizer.convert_tokens_to_ids(words)
    table = np.array(model.loaded.encoder.get_embedding_table())[ids]
    table -= table.mean(0)
    table /= np.linalg.norm(table, axis=1, keepdims=True) + 1e-9
    # Words of more than three letters first, but for scripts without them.
    longer = [i for i, word in enumerate(words) if len(word) > 3]
    chosen = (longer or [*range(len(words))])[_SKIPPED:]
    rows = []
    for i in chosen[:: max(1, min(10, len(chosen) // _NUM_WORDS))][:_NUM_WORDS]:
        best = np.argsort(-(table @ table[i]))[1 : _NUM_NEIGHBORS + 1]
        near = "  ".join(words[j] for j in best)
        rows.append([html.escape(words[i]), html.escape(near)])
    return rows


def _picture(model: "bert.Model", text: str, layer: int) -> str:
    """The attention of a sentence in a layer, as a picture."""
    tokens, maps = model.attention(text, layer)
    title = f"{_LAYERS[layer]} layer: {text}"
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/attention.png"
        attention_picture.draw(
            path, maps, tokens, title=title, heads=range(len(maps))
        )
        data = base64.b64encode(pathlib.Path(path).read_bytes()).decode()
    return f"<p><img alt='attention' src='data:image/png;base64,{data}'></p>"
