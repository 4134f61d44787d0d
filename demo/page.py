"""What a demo's model has learned, as one HTML page that needs no network."""

import base64
import collections
import html
import re
import string
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

import bert
from data.storage import files
from data.vectors import attention_picture

_TEMPLATE = Path(__file__).with_name("page.html")
_NUM_WORDS, _NUM_NEIGHBORS = 24, 6
_LAYERS = {0: "First", -1: "Last"}  # that are drawn
_SKIPPED = 40  # the most frequent words say little


# A sentence with [MASK], the masked word, wordpieces and their probabilities.
Filling = tuple[str, str, Sequence[tuple[str, float]]]


def write(
    out: Path, facts: list[str], fillings: list[Filling], do_lower_case: bool
) -> str:
    """Writes the page to the demo's folder; returns its path."""
    model = bert.load(f"{out}/model", do_lower_case=do_lower_case)
    path = f"{out}/page.html"
    pictures = [_picture(model, fillings[0][0], layer) for layer in _LAYERS]
    page = string.Template(_TEMPLATE.read_text("utf-8")).substitute(
        facts="".join(f"<p>{html.escape(fact)}</p>" for fact in facts),
        masked=_rows(map(_filled, fillings)),
        neighbors=_rows(_neighbors(out, model)),
        attention="".join(pictures),
    )
    files.write_text(path, page)
    return path


def _rows(rows: Iterable[Sequence[str]]) -> str:
    """The rows of a table, of cells that are HTML."""
    cells = ("".join(f"<td dir='auto'>{x}</td>" for x in row) for row in rows)
    return "".join(f"<tr>{row}</tr>" for row in cells)


def _filled(filling: Filling) -> list[str]:
    sentence, word, best = filling
    shown = []
    for piece, p in best:
        is_right = piece in (word.lower(), word)
        cell = "<b>{}</b> {:.0%}" if is_right else "{} {:.0%}"
        shown.append(cell.format(html.escape(piece), p))
    return [html.escape(sentence), " &nbsp; ".join(shown), html.escape(word)]


def _neighbors(out: Path, model: "bert.Model") -> list[list[str]]:
    """Frequent whole words of the training text, and their neighbors."""
    tokenizer = model.loaded.tokenizer
    counts: collections.Counter[str] = collections.Counter()
    for line in files.read_lines(f"{out}/train.txt"):
        counts.update(tokenizer.tokenize(line))
    frequent = [word for word, count in counts.most_common() if count >= 5]
    words = [x for x in frequent if re.fullmatch(r"[^\W\d_](\w*)", x)]
    ids = tokenizer.convert_tokens_to_ids(words)
    table = np.array(model.loaded.encoder.get_embedding_table())[ids]
    table -= table.mean(0)
    table /= np.linalg.norm(table, axis=1, keepdims=True) + 1e-9
    # Words of more than three letters first, but for scripts without them.
    longer = [i for i, word in enumerate(words) if len(word) > 3]
    is_enough = len(longer) > _SKIPPED + _NUM_WORDS
    chosen = longer[_SKIPPED:] if is_enough else [*range(len(words))]
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
        heads = range(len(maps))
        attention_picture.draw(path, maps, tokens, title=title, heads=heads)
        data = base64.b64encode(Path(path).read_bytes()).decode()
    return f"<p><img alt='attention' src='data:image/png;base64,{data}'></p>"
