"""README, docs/ and the other pages: code, links and names are true.

Names in Python are looked up in the sources, so that TensorFlow is not loaded.
"""

import ast
import importlib.util
import re

from tests.support.docs_support import (
    MODULE,
    ROOT,
    TOUR,
    TOUR_OF_TRAINING,
    blocks,
    defined,
    imports_in,
    on_pages,
    prose,
)

LIBRARY = ("data", "modeling", "training")
FOLDERS = (
    *LIBRARY,
    *("benchmarks", "configs", "demo", "docs", "examples", "studies", "tests"),
)
# Of the original alone, and of every package.
NOT_HERE = {
    "bert.py",  # a file, not a name in the module
    "run_classifier_with_tfhub.py",
    "modeling.get_assignment_map_from_checkpoint",
    "__init__.py",
}


def slugs(page):
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.M)
    kept = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings]
    return {heading.replace(" ", "-") for heading in kept}


def test_links_lead_to_files_and_headings():
    def leads(page, link):
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not (target.exists() and target.is_relative_to(ROOT)):
            return False
        return not anchor or anchor in slugs(target)

    def broken(page):
        for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
            is_ours = not link.startswith(("http:", "https:"))
            if is_ours and not leads(page, link):
                yield link

    assert not on_pages(broken)


def test_readme_links_every_page_of_docs():
    text = (ROOT / "README.md").read_text("utf-8")
    for page in ROOT.glob("docs/*.md"):
        assert f"(docs/{page.name})" in text, page


def test_files_that_a_page_names_exist():
    def named(page):
        return [
            name
            for name in re.findall(r"`([\w./-]+)`", prose(page))
            if name.endswith(".py")
            or ("/" in name and name.split("/")[0] in FOLDERS)
        ]

    def missing(page):
        for name in {*named(page)} - NOT_HERE:
            places = (ROOT / name, page.parent / name)
            if not any(place.exists() for place in places):
                yield name

    assert not on_pages(missing)
    assert len(named(TOUR)) > 15
    assert len(named(TOUR_OF_TRAINING)) > 30


def test_names_that_the_tour_of_training_gives_files_are_in_them():
    text = prose(TOUR_OF_TRAINING)
    listed = re.findall(r"`([\w/]+\.py)`: ((?:`[\w.]+`(?:, )?)+)", text)

    def missing():
        for name, its_names in listed:
            places = (TOUR_OF_TRAINING.parent / name, ROOT / name)
            (path,) = [place for place in places if place.exists()]
            found = defined(path)
            yield from (
                f"{name}: {x}"
                for x in re.findall(r"`(\w+)", its_names)
                if x not in found
            )

    assert len(listed) > 15
    assert not [*missing()]


def resolves(dotted):
    """Whether a dotted name is one of our modules, or a name in one."""
    place = ROOT
    parts = dotted.split(".")
    for number, part in enumerate(parts):
        if (place / f"{part}.py").exists():
            rest = parts[number + 1 :]
            return not rest or rest[0] in defined(place / f"{part}.py")
        if not (place / part / "__init__.py").exists():
            package = place / "__init__.py"
            return package.exists() and part in defined(package)
        place /= part
    return True


def python_names(page):
    """Full names of ours in the prose of a page."""
    text = prose(page)
    # In the tour `bert.x` is modeling/bert.py.
    tops = "|".join(LIBRARY if page == TOUR else (*LIBRARY, MODULE))
    names = re.findall(rf"`((?:{tops})\.[\w.]+)`", text)
    # `module`: `name`, `name`
    listed = rf"`(?:from \S+ import )?((?:{tops})\.[\w.]+)`: ((?:`\w+`,? ?)+)"
    for module, its_names in re.findall(listed, text):
        names += [f"{module}.{name}" for name in re.findall(r"\w+", its_names)]
    imported = re.findall(r"`from (\S+) import (\w+)", text)
    return {*names, *map(".".join, imported)} - NOT_HERE


def names_of_the_tour():
    """What the tour names; it leaves `modeling.` out."""
    names = re.findall(r"`([a-z_.]+\.[A-Z]?[a-z_]\w+[\w.]*)`", prose(TOUR))
    files = r"\.(py|json|txt|ckpt|saf\w+)$"
    return [f"modeling.{x}" for x in names if not re.search(files, x)]


def test_python_names_in_a_page_resolve():
    def unknown(page):
        return [name for name in python_names(page) if not resolves(name)]

    assert not on_pages(unknown)
    assert len(names_of_the_tour()) >= 14
    assert not [name for name in names_of_the_tour() if not resolves(name)]
    assert not any(map(resolves, ["data.none", "data.tasks.None", "none.x"]))


def test_python_in_a_page_compiles_and_its_imports_resolve():
    def is_there(name):
        top = name.split(".")[0]
        if top in (*LIBRARY, MODULE):
            return resolves(name)
        # FAISS is optional, and is in no environment of ours.
        return top == "faiss" or importlib.util.find_spec(top)

    def unknown(page):
        for code in blocks(page, "python"):
            names = imports_in(ast.parse(code))
            yield from (name for name in names if not is_there(name))

    assert not on_pages(unknown)


def test_readme_is_short():
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 250


def folders_in_tree(page):
    """The folders that the tree on a page names."""
    (tree,) = [
        block
        for block in blocks(ROOT / page, "")
        if block.startswith("build_vocab.py")
    ]
    named, top = [], ""
    for indent, folder in re.findall(r"^( *)(\w+/)  +\S", tree, re.M):
        top = top if indent else folder
        named.append(top + folder if indent else folder)
    return sorted(named)


def test_the_tree_of_folders_names_those_that_there_are():
    packages = {
        f"{path.parent.relative_to(ROOT)}/"
        for name in LIBRARY
        for pattern in ("__init__.py", "*/__init__.py")
        for path in (ROOT / name).glob(pattern)
    }
    top = {f"{f}/" for f in (*LIBRARY, *FOLDERS)}
    assert folders_in_tree("CONTRIBUTING.md") == sorted(packages | top)
