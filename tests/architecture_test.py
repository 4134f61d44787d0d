"""Holds the structure: which file may import which, tables of contents, sizes.

        programs   benchmarks   demo   tests
              \\        |        /     /
               -->  training  <-------
                     /      \\
                  data  <-  modeling

`modeling` imports of `data` only text, storage and settings, for the folders of
models; `data` never imports `modeling`.

The docstring of each package is its table of contents, a line for each file or
folder: a name, two spaces or more, what it holds. The order of the lines is the
order of imports: a file imports only those above it.
"""

import ast
import functools
import io
import pathlib
import re
import tokenize

from tests.support.docs_support import imports_in
from tests.support.fork_server import ROOT

BELOW_MODELING = ("data.text", "data.storage", "data.settings")
MAY_IMPORT = {
    "data": {"data"},
    "modeling": {"modeling", *BELOW_MODELING},
    "training": {"training", "data", "modeling"},
}
MOST_ENTRIES = 17
# From a program by way of trials, one run and a training step to a record file.
LONGEST_CHAIN = 13
MOST_CODE = 40  # lines of a function
# Lines of code of each package, and of all docstrings. They may fall; a commit
# that raises one says what for.
MOST_LINES = {
    "data": 9_344,
    "training": 10_755,
    "modeling": 3_837,
    "studies": 1_370,
    "demo": 380,
    "programs": 716,
}
MOST_DOCSTRINGS = 8_200
DEFINITION = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
LIBRARY = sorted(
    path for top in MAY_IMPORT for path in (ROOT / top).rglob("*.py")
)
PACKAGES = [path.parent for path in LIBRARY if path.name == "__init__.py"]
STUDIES = sorted((ROOT / "studies").rglob("*.py"))
MODULE = ROOT / "bert.py"  # for `import bert`; the programs may use it, too
PROGRAMS = sorted({*ROOT.glob("*.py")} - {MODULE})


def module_of(path: pathlib.Path) -> str:
    """data/storage/files.py -> data.storage.files."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def contents(package: pathlib.Path) -> list[str]:
    """Names in the table of a package's docstring; folders end in /."""
    tree = ast.parse((package / "__init__.py").read_text("utf-8"))
    lines = (ast.get_docstring(tree) or "").splitlines()
    rows = [re.match(r"([a-z0-9_]+/?)  +\S", line) for line in lines]
    return [row[1] for row in rows if row]


def in_order(package: pathlib.Path) -> list[str]:
    """Modules of a package in the order of its table, then the package."""
    modules = []
    for name in contents(package):
        if name.endswith("/"):
            modules += in_order(package / name)
        else:
            modules.append(module_of(package / f"{name}.py"))
    return [*modules, module_of(package / "__init__.py")]


@functools.cache
def order() -> list[str]:
    """All modules of the library, each after those it may import."""
    return [
        module
        for top in ("data", "modeling", "training")
        for module in in_order(ROOT / top)
    ]


@functools.cache
def imports_of(path: pathlib.Path) -> set[str]:
    """Full names of everything a file imports; `from a import b` is a.b."""
    return {*imports_in(ast.parse(path.read_text("utf-8")))}


@functools.cache
def ours(path: pathlib.Path) -> set[str]:
    """The modules of the library that a file imports."""
    modules = {module_of(path) for path in LIBRARY}
    found = set()
    for name in imports_of(path):
        if name.split(".")[0] not in MAY_IMPORT:
            continue
        candidates = [name, name.rpartition(".")[0]]
        candidates += [f"{c}.__init__" for c in candidates]
        (module, *_) = [c for c in candidates if c in modules] or [name]
        found.add(module)
    return found


def test_docstring_of_a_package_is_its_table_of_contents():
    wrong = {}
    for package in PACKAGES:
        there = {path.stem for path in package.glob("*.py")} - {"__init__"}
        there |= {f"{path.parent.name}/" for path in package.glob("*/*.py")}
        listed = contents(package)
        if sorted(listed) != sorted(there) or len(there) > MOST_ENTRIES:
            wrong[module_of(package)] = there ^ {*listed} or len(there)
    assert not wrong


def test_imports_go_one_way():
    assert not [
        f"{module_of(path)} imports {imported}"
        for path in LIBRARY
        for imported in ours(path)
        if not any(
            f"{imported}.".startswith(f"{allowed}.")
            for allowed in MAY_IMPORT[module_of(path).split(".")[0]]
        )
    ]


def test_a_file_imports_what_stands_above_it_in_the_tables_of_contents():
    wrong, places = [], {name: i for i, name in enumerate(order())}
    for path in LIBRARY:
        place = places[module_of(path)]
        found = {name for name in ours(path) if places.get(name, place) < place}
        wrong += [f"{path} imports {name}" for name in ours(path) - found]
    places = {name: i for i, name in enumerate(in_order(ROOT / "studies"))}
    for path in STUDIES:
        place = places[module_of(path)]
        for name in imports_of(path):
            if {name, name.rpartition(".")[0]} & {*list(places)[place:]}:
                wrong.append(f"{path} imports {name}")
    assert not wrong


@functools.cache
def chain(module: str) -> tuple[str, ...]:
    """The longest chain of files that starts with one and goes by imports."""
    path = ROOT.joinpath(*module.split(".")).with_suffix(".py")
    return (module, *max(map(chain, ours(path)), key=len, default=()))


def test_chains_of_imports_are_short():
    chains = [chain(module_of(path)) for path in [*LIBRARY, *PROGRAMS, MODULE]]
    longest = max(chains, key=len)
    assert len(longest) <= LONGEST_CHAIN, " > ".join(longest)


def test_nothing_imports_a_program():
    programs = {path.stem for path in PROGRAMS}
    for path in ROOT.rglob("*.py"):
        if any(part.startswith(".venv") for part in path.parts):
            continue
        first_parts = {name.split(".")[0] for name in imports_of(path)}
        assert not first_parts & programs, path
        if path in LIBRARY:
            assert MODULE.stem not in first_parts, path


def test_flags_end_at_the_programs():
    for path in LIBRARY:
        if module_of(path) in ("training.config.flags", "training.program"):
            continue
        assert not any(
            name.startswith("absl.flags") for name in imports_of(path)
        ), path


def test_data_knows_no_model():
    for path in LIBRARY:
        if path.is_relative_to(ROOT / "data"):
            assert not any(
                name.split(".")[0] == "keras" or "tf_keras" in name
                for name in imports_of(path)
            ), path


def test_importing_a_program_defines_no_flag():
    # absl refuses a flag that is defined twice: two programs could never be
    # used in one process.
    for path in PROGRAMS:
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
                assert "DEFINE" not in ast.unparse(node), path


def test_nothing_is_imported_from_a_test_file():
    # What two files need is in a support module. Scripts in strings count too.
    found = re.compile(r"^(?:from|import) .*_test\b", re.MULTILINE)
    assert not [
        path
        for top in ("tests", "benchmarks", "demo", "studies", "examples")
        for path in (ROOT / top).rglob("*.py")
        if found.search(path.read_text("utf-8"))
    ]


def test_files_stay_readable():
    sizes = {
        path: len(path.read_text("utf-8").splitlines())
        for path in [*LIBRARY, *PROGRAMS, *STUDIES, MODULE]
    }
    assert not {path: size for path, size in sizes.items() if size > 400}


def lines_of_docstrings(source: str) -> set[int]:
    """Numbers of the lines of all docstrings."""
    lines = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, DEFINITION) and ast.get_docstring(node):
            text = node.body[0]
            lines.update(range(text.lineno, text.end_lineno + 1))
    return lines


def lines_of_code(source: str) -> set[int]:
    """Numbers of the lines that are not blank, comment or docstring."""
    no_code = (
        *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE),
        *(tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER),
    )
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in no_code:
            lines.update(range(token.start[0], token.end[0] + 1))
    return lines - lines_of_docstrings(source)


def test_packages_do_not_grow():
    code, docstrings = dict.fromkeys(MOST_LINES, 0), 0
    demo = sorted((ROOT / "demo").rglob("*.py"))
    for path in [*LIBRARY, *PROGRAMS, *STUDIES, *demo, MODULE]:
        source = path.read_text("utf-8")
        top = path.relative_to(ROOT).parts[0]
        code[top if top in code else "programs"] += len(lines_of_code(source))
        docstrings += len(lines_of_docstrings(source))
    assert not {n: c for n, c in code.items() if c > MOST_LINES[n]}
    assert docstrings <= MOST_DOCSTRINGS


def long_functions(source: str) -> list[str]:
    """Functions of more than `MOST_CODE` lines, with their number of lines."""
    functions = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno - node.lineno >= MOST_CODE
    ]
    lines = lines_of_code(source) if functions else set()
    sizes = [
        (node.name, len(lines & {*range(node.lineno, node.end_lineno + 1)}))
        for node in functions
    ]
    return [f"{name}: {size}" for name, size in sizes if size > MOST_CODE]


def test_functions_are_short():
    folders = ("demo", "benchmarks", "tests", "examples")
    paths = [path for top in folders for path in (ROOT / top).rglob("*.py")]
    paths += [*LIBRARY, *PROGRAMS, *STUDIES, MODULE]
    assert not {
        str(path.relative_to(ROOT)): functions
        for path in paths
        if (functions := long_functions(path.read_text("utf-8")))
    }


def test_only_code_counts_as_lines_of_a_function():
    def function(num_lines):
        body = "    a = (\n        1\n    )\n" + "    a = 1\n" * num_lines
        return f'def f():\n    """One.\n\n    Two.\n    """\n    # No\n\n{body}'

    assert long_functions(function(MOST_CODE - 4)) == []
    assert long_functions(function(MOST_CODE - 3)) == [f"f: {MOST_CODE + 1}"]


IMPORT = re.compile(
    r"^from ((?:data|modeling|training)\S*) import \(?\s*(\w+)", re.MULTILINE
)


def test_scripts_in_strings_import_what_exists():
    # No linter reads the programs that tests start with `python -c`.
    imported = {
        found
        for path in (ROOT / "tests").rglob("*_test.py")
        for found in IMPORT.findall(path.read_text("utf-8"))
    }
    wrong = []
    for module, name in sorted(imported):
        place = ROOT / module.replace(".", "/")
        if not place.with_suffix(".py").exists():
            names = {entry.stem for entry in place.iterdir()}
            names |= {*re.findall(r"\w+", (place / "__init__.py").read_text())}
            if name not in names:
                wrong.append(f"{module} has no {name}")
    assert not wrong
