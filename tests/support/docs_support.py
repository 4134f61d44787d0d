"""The pages of the documentation, and what is read from them."""

import ast
import functools
import re

from tests.support.fork_server import ROOT

MODULE = "bert"  # beside the programs, for `import bert`
TOUR = ROOT / "modeling/README.md"
TOUR_OF_TRAINING = ROOT / "training/README.md"
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/*.md"),
        *ROOT.glob("benchmarks/**/*.md"),
        TOUR,
        TOUR_OF_TRAINING,
        ROOT / "tests/goldens/README.md",
    ]
)


def page_id(path):
    return str(path.relative_to(ROOT))


def blocks(path, language):
    """A page's blocks of code in a language; "" = in none."""
    found = re.findall(
        r"^```(\w*)\n(.*?)^```$", path.read_text("utf-8"), re.M | re.S
    )
    return [code for its_language, code in found if its_language == language]


def prose(path):
    """A page without its blocks of code."""
    text = path.read_text("utf-8")
    return re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)


def on_pages(find):
    """(page, what `find` returns) of everything that it finds on a page."""
    return [(page_id(page), found) for page in PAGES for found in find(page)]


def imports_in(tree):
    """Full names that Python code imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{ast.unparse(node)}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@functools.cache
def defined(path):
    """Names at the top of a Python file, and those that it imports lazily."""
    names = set()
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = getattr(node, "targets", None) or [node.target]
            names |= {ast.unparse(target) for target in targets}
            if ast.unparse(targets[0]) == "_MODULES":
                names |= set(ast.literal_eval(node.value))
    return names
