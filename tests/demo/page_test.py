"""The demo's page: what it shows, and that texts stay texts."""

import pathlib

import numpy as np

from demo import page
from tests.support.pages_support import HOSTILE


class FakeModel:
    """Vectors in which `mill` and `corn` are alike; uniform attention."""

    def __init__(self):
        self.loaded = self.encoder = self.tokenizer = self

    def tokenize(self, line):
        return line.split()

    def convert_tokens_to_ids(self, words):
        return [["mill", "river", "corn", "stone"].index(w) for w in words]

    def get_embedding_table(self):
        return np.array([[1, 0, 0], [0, 1, 0], [0.9, 0.1, 0], [0, 0, 1.0]])

    def attention(self, text, layer):
        assert "[MASK]" in text
        return ["[CLS]", "[MASK]", "[SEP]"], np.full((1, 3, 3), 1 / 3)


def test_masks_neighbors_and_attention(tmp_path, monkeypatch):
    monkeypatch.setattr(page.bert, "load", lambda *_, **__: FakeModel())
    monkeypatch.setattr(page, "_SKIPPED", 0)
    (tmp_path / "train.txt").write_text("mill river corn stone\n" * 5)
    best = [("Mill", 0.5), ("<b>", 0.25)]
    sentence = f"The [MASK]. {HOSTILE}"
    path = page.write(tmp_path, ["1 < 2"], [(sentence, "Mill", best)], False)
    text = pathlib.Path(path).read_text("utf-8")
    assert "<b>Mill</b> 50%" in text and "&lt;b&gt; 25%" in text
    assert "1 &lt; 2" in text and "<script" not in text
    assert "<td dir='auto'>mill</td><td dir='auto'>corn " in text
    assert text.count("src='data:image/png;base64,") == 2
