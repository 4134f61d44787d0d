"""Writes an HTML page that shows many items and needs no network.

The page is `page.html` with the items as JSON, and a script that shows an item.
Scripts insert all texts as text nodes, so that they are never run as code.
"""

import contextlib
import html
import itertools
import json
import pathlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from data.storage import files

_TEMPLATE = pathlib.Path(__file__).with_name("page.html")
# Characters that could end the page's script; JSON allows them as escapes.
_ESCAPES = str.maketrans({c: f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"})


@contextlib.contextmanager
def open_page(
    path: str,
    title: str,
    script: pathlib.Path,
    facts: Mapping[str, Any] | None = None,
) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """Yields a function that adds a group of items, as JSON can hold them.

    The page at `path` appears complete or not at all; `script` is the path of
    the script that defines `page`, see `page.html`; its {{facts}} are `facts`.
    """
    before, after = _TEMPLATE.read_text("utf-8").split("{{items}}")
    before = before.replace("{{title}}", html.escape(title))
    facts = json.dumps(facts, ensure_ascii=False).translate(_ESCAPES)
    code = script.read_text("utf-8").replace("{{facts}}", facts)
    after = after.replace("{{script}}", code)
    separators = itertools.chain([""], itertools.repeat(","))
    with files.open_whole(path) as file:

        def add(group: Mapping[str, Any]) -> None:
            text = json.dumps(group, ensure_ascii=False).translate(_ESCAPES)
            file.write(f"{next(separators)}\n{text}".encode("utf-8", "replace"))

        file.write(before.encode("utf-8", "replace"))
        yield add
        file.write(after.encode("utf-8", "replace"))
