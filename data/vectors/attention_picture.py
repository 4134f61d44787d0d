"""Draws the attention maps of one text.

Axes: N heads, S wordpieces.
"""

import math
import warnings
from collections.abc import Sequence

import numpy as np
from absl import logging
from matplotlib import font_manager
from matplotlib.figure import Figure

from data.storage import files

_INCHES_OF_TOKEN = 0.17  # on a page of several heads; alone, twice as many
_SMALLEST_PANEL, _LARGEST_PAGE = 1.8, 36.0  # inches
_POINTS_OF_INCH = 72
# Weights in units of uniform attention, 1 / S.
_UNIFORM = 2.0  # a map with less everywhere is called nearly uniform
_ROOM = 6.0  # the scale reaches at least so far
# The first lacks Chinese, Japanese and Korean; others are used if installed.
_FONTS = (
    *("DejaVu Sans", "Noto Sans CJK SC", "Noto Sans CJK JP"),
    *("WenQuanYi Micro Hei", "PingFang SC", "Microsoft YaHei"),
    "Arial Unicode MS",
)


def draw(
    path: str,
    attention: np.ndarray,
    tokens: Sequence[str],
    *,
    title: str,
    heads: Sequence[int],
) -> None:
    """Draws attention maps of the N heads as a PNG, all on one page.

    `attention` is float [N, S, S], from each of the S wordpieces (second axis,
    a row of the picture) to each wordpiece (third axis, a column).
    A map of nearly uniform weights is pale, and its title says so.
    """
    columns = math.ceil(math.sqrt(len(heads)))
    rows = math.ceil(len(heads) / columns)
    needed = _INCHES_OF_TOKEN * len(tokens) * (2 if len(heads) == 1 else 1)
    inches = min(max(_SMALLEST_PANEL, needed), _LARGEST_PAGE / columns)
    points = min(11.0, 0.75 * _POINTS_OF_INCH * inches / len(tokens))
    size = columns * inches + 2.2, rows * (inches + 0.3) + 1.5
    figure = Figure(size, dpi=110, layout="compressed")
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    # One scale for all heads, so that they can be compared. It has room above
    # uniform attention, which would be dark otherwise.
    uniform = 1 / len(tokens)
    darkest = min(1.0, max(float(attention.max()), _ROOM * uniform))
    for i, (head, weights) in enumerate(zip(heads, attention, strict=True)):
        image = panels[i].imshow(weights, vmin=0.0, vmax=darkest, cmap="Blues")
        note = ": nearly uniform" if weights.max() < _UNIFORM * uniform else ""
        panels[i].set_title(f"head {head}{note}", fontsize=9)
        is_left, is_lowest = i % columns == 0, i + columns >= len(heads)
        _label(panels[i], tokens, points, left=is_left, below=is_lowest)
    for panel in panels[len(heads) :]:
        panel.set_visible(False)
    figure.colorbar(
        image, ax=panels.tolist(), label="attention", fraction=0.04, pad=0.02
    )
    # Without parse_math=False, text between two dollar signs is a formula.
    figure.suptitle(title, fontsize=11, parse_math=False)
    _save(figure, path)


def _label(panel, tokens, points, *, left, below):
    """Adds the wordpieces to the axes of a map."""
    installed = set(font_manager.get_font_names())
    fonts = [name for name in _FONTS if name in installed]
    style = {"fontsize": points, "family": fonts, "parse_math": False}
    places = range(len(tokens))
    panel.set(xticks=[], yticks=[])
    if below:
        panel.set_xticks(places, tokens, rotation=90, **style)
    if left:
        panel.set_yticks(places, tokens, **style)
    panel.tick_params(length=0)


def _save(figure, path):
    """Writes the PNG; warns if a character has no glyph."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with files.open_whole(path) as file:
            figure.savefig(file, format="png", bbox_inches="tight")
    if any("Glyph" in str(warning.message) for warning in caught):
        logging.warning(
            f"{path}: some characters are drawn as boxes, because no installed "
            "font has them; install one, for example Noto Sans CJK."
        )
