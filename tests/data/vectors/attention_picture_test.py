import numpy as np
import pytest
from absl import logging
from matplotlib import image
from matplotlib.axes import Axes

from data.vectors import attention_picture
from tests.support.tiers import rare


def attention_of(num_heads, size):
    """Each wordpiece looks at the one `head` places before it, and a little
    at all."""
    maps = [
        0.9 * np.roll(np.eye(size), -head, axis=1) + 0.1 / size
        for head in range(num_heads)
    ]
    return np.stack(maps).astype(np.float32)


def draw(path, num_heads, tokens, title="Layer 1"):
    attention_picture.draw(
        str(path),
        attention_of(num_heads, len(tokens)),
        tokens,
        title=title,
        heads=range(num_heads),
    )
    return image.imread(path)[..., :3]


def dark(pixels):
    """Pixels of the darkest blue: high attention, no text, no paper."""
    return (pixels[..., 2] > pixels[..., 0] + 0.25) & (pixels[..., 0] < 0.2)


def test_one_head(tmp_path):
    tokens = ["[CLS]", "the", "##re", "$", "$", "a", "b", "[SEP]"]
    pixels = draw(tmp_path / "one.png", 1, tokens, "cost $5 and $6")
    rows, columns = np.nonzero(dark(pixels)[:, : pixels.shape[1] * 3 // 4])
    # The diagonal of head 0: from the upper left to the lower right, an
    # eighth of the map.
    assert np.corrcoef(rows, columns)[0, 1] > 0.95
    area = np.ptp(rows) * np.ptp(columns)
    assert 0.09 < len(rows) / area < 0.16
    assert [path.name for path in tmp_path.iterdir()] == ["one.png"]


def test_all_heads_on_a_page(tmp_path):
    tokens = [f"t{i}" for i in range(10)]
    page = draw(tmp_path / "page.png", 5, tokens)
    assert page.shape[1] > 1.2 * draw(tmp_path / "one.png", 1, tokens).shape[1]
    # Five maps in two rows of three places: the last stays white.
    height, width, _ = page.shape
    places = dark(page)[:, : width * 17 // 20]
    counts = [
        # The middle of a place: maps are not quite a third of the page.
        np.array_split(columns, 4, axis=1)[1].sum()
        for rows in np.array_split(places, 2)
        for columns in np.array_split(rows, 3, axis=1)
    ]
    assert min(counts[:5]) > 300
    assert counts[5] == 0


@pytest.mark.parametrize(("num_heads", "size"), [(12, 2), (1, 2), rare(1, 128)])
def test_any_length_gives_a_page_of_bearable_size(tmp_path, num_heads, size):
    pixels = draw(tmp_path / "page.png", num_heads, ["[CLS]"] * size)
    assert 200 < min(pixels.shape[:2]) <= max(pixels.shape[:2]) < 5000


def test_characters_without_a_glyph_are_told(tmp_path, monkeypatch):
    told = []
    monkeypatch.setattr(logging, "warning", lambda text, *_: told.append(text))
    draw(tmp_path / "plain.png", 1, ["a", "b"])
    assert not told
    # U+E123, of private use: in no font.
    draw(tmp_path / "boxes.png", 1, ["a", "\ue123"])
    assert len(told) == 1 and "drawn as boxes" in told[0]


def test_uniform_attention_is_pale_and_named(tmp_path, monkeypatch):
    titles = []
    set_title = Axes.set_title

    def keep(self, label, **options):
        titles.append(label)
        return set_title(self, label, **options)

    monkeypatch.setattr(Axes, "set_title", keep)
    tokens = [f"t{i}" for i in range(12)]
    maps = np.full((2, 12, 12), 1 / 12, np.float32)
    path = str(tmp_path / "a.png")
    attention_picture.draw(path, maps, tokens, title="", heads=[0, 1])
    assert titles == ["head 0: nearly uniform", "head 1: nearly uniform"]
    pixels = image.imread(path)[..., :3]
    middle = pixels[:, : pixels.shape[1] * 3 // 4]
    # Blue, but light: the color bar alone reaches the darkest blue.
    assert not dark(middle).any()
    draw(tmp_path / "b.png", 1, tokens)
    assert titles[-1] == "head 0"
