"""README, docs/ and the other pages: commands, code, links and names are true.

Nothing is run. Commands are parsed by their program's own flags; names in
Python are looked up in the sources, so that TensorFlow is not loaded.
"""

import ast
import functools
import importlib.util
import pathlib
import re
import shlex

import pytest

from tests.support import flags_support

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODULE = "bert"  # beside the programs, for `import bert`
PROGRAMS = sorted({path.stem for path in ROOT.glob("*.py")} - {MODULE})
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
LIBRARY = ("data", "modeling", "training")
FOLDERS = (
    *LIBRARY,
    "benchmarks",
    "configs",
    "demo",
    "docs",
    "examples",
    "studies",
    "tests",
)
MOST_README_LINES = 250
# Of the original alone, and of every package.
NOT_HERE = {
    "bert.py",  # a file, not a name in the module
    "run_classifier_with_tfhub.py",
    "modeling.get_assignment_map_from_checkpoint",
    "__init__.py",
}
# Flags of absl, TensorBoard, pytest, Docker and Slurm.
OTHERS_FLAGS = {"helpfull", "version", "logdir", "all", "slow", "real_data"} | {
    "batching_parameters_file",
    "durations",
    "enable_batching",
    "gpu",
    "gpus",
    "signal",
}


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


def shell_lines(text):
    """The commands of a block of shell, each as a list of words."""
    pending = ""
    for line in text.replace("\\\n", " ").splitlines():
        pending += line + "\n"
        try:
            words = shlex.split(pending, comments=True)
        except ValueError:  # a quotation continues
            continue
        pending = ""
        yield words
    assert not pending, f"a quotation does not end: {pending}"


def our_commands(text):
    """(program, flags, whether all flags are there) of our programs' starts."""
    for words in shell_lines(text):
        for number, word in enumerate(words):
            name = pathlib.PurePath(word).name.removesuffix(".py")
            starts = number and words[number - 1].endswith(
                ("python", "python3")
            )
            if not starts or not word.endswith(".py"):
                continue
            if name in PROGRAMS:
                given = [w for w in words[number + 1 :] if w != "..."]
                yield name, given, len(given) == len(words) - number - 1
            else:
                assert (ROOT / word).exists(), f"{word} is not there"


def docstring_commands(program):
    text = ast.get_docstring(ast.parse((ROOT / f"{program}.py").read_text()))
    indented = re.findall(r"^  +.*(?:\n.+)*", text, re.M)
    return "\n".join(t for t in indented if t.lstrip().startswith("python "))


@pytest.fixture(scope="module")
def commands():
    """Every start of one of our programs: (page, program, flags, whole)."""
    sources = [
        (page_id(page), block)
        for page in PAGES
        for block in blocks(page, "shell")
    ]
    sources += [(f"{p}.py", docstring_commands(p)) for p in PROGRAMS]
    return [
        (page, *command)
        for page, text in sources
        for command in our_commands(text)
    ]


@pytest.fixture(scope="module")
def parsed(commands):
    """Program -> its default flags, and the flags of each command."""
    result = {}
    for program in PROGRAMS:
        mine = [command for command in commands if command[1] == program]
        result[program] = flags_support.parse(
            program, [command[2:] for command in mine], ROOT
        )
        result[program]["pages"] = [command[0] for command in mine]
    return result


def of_page(parsed, program, page):
    rows = parsed[program]
    return [
        given
        for given, where in zip(rows["parsed"], rows["pages"], strict=True)
        if where == page
    ]


def test_every_command_is_one_that_its_program_takes(commands, parsed):
    # Parsing refuses it otherwise, in the fixture.
    for program in PROGRAMS:
        assert f"{program}.py" in parsed[program]["pages"], program
    in_pages = [c for c in commands if c[0].endswith(".md")]
    assert len(in_pages) > 20
    for _, _, given, _ in in_pages:
        for config in re.findall(r"configs/[\w.-]+", " ".join(given)):
            assert (ROOT / config).exists(), config


def test_the_command_finder_finds_and_refuses():
    text = "# a\nX='a\nb'  # c\nx/python run_squad.py \\\n --a='b c' ...\n"
    assert list(our_commands(text)) == [("run_squad", ["--a=b c"], False)]
    with pytest.raises(AssertionError, match="run_glue.py is not there"):
        list(our_commands("python run_glue.py"))


@pytest.mark.parametrize(
    "program, given, error",
    [
        ("build_vocab", "--no_such_flag", "no_such_flag"),
        ("build_vocab", "--input_file=x", "output_file"),
        ("build_vocab", "--input_file=x --output_file=y z", "not a flag"),
        (
            "create_pretraining_data",
            "--input_file=x --output_file=y --vocab_file=z --compression=gzip",
            "is for --num_processes",
        ),
        (
            "run_squad",
            "--bert_config_file=x --vocab_file=y --output_dir=z --do_train",
            "`train_file` must be specified",
        ),
    ],
)
def test_wrong_commands_are_refused(program, given, error):
    with pytest.raises(AssertionError, match=error):
        flags_support.parse(program, [[given.split(), True]], ROOT)


def test_phases_of_a_recipe_fit_each_other_and_their_records(parsed):
    page = "docs/recipes.md"
    records = {
        given["output_file"]: given
        for given in of_page(parsed, "create_pretraining_data", page)
    }
    runs = {
        given["output_dir"]: given
        for given in of_page(parsed, "run_pretraining", page)
    }
    assert (len(records), len(runs)) == (4, 6)
    for run in runs.values():
        made = records[run["input_file"]]
        for name in ("max_seq_length", "max_predictions_per_seq"):
            assert run[name] == made[name]
        before = runs.get(run.get("continue_from"))
        if before:
            assert before["stop_at_step"] == 0.9 * before["num_train_steps"]
            for name in (
                "num_train_steps",
                "num_warmup_steps",
                "learning_rate",
                "bert_config_file",
                "train_batch_size",
            ):
                assert run.get(name) == before.get(name)
    continued = [run for run in runs.values() if "continue_from" in run]
    started = [run for run in runs.values() if "init_checkpoint" in run]
    assert len(continued) == 1
    assert [run["init_checkpoint"] in runs for run in started] == [True]


def on_pages(find):
    """(page, what `find` returns) of everything that it finds on a page."""
    return [(page_id(page), found) for page in PAGES for found in find(page)]


def test_every_flag_that_a_page_names_exists(parsed):
    ours = {name for rows in parsed.values() for name in rows["defaults"]}
    benchmarks = "".join(
        path.read_text("utf-8") for path in ROOT.glob("benchmarks/**/*.py")
    )

    def exists(name):
        return (
            name in ours
            or name.removeprefix("no") in ours
            or name in OTHERS_FLAGS
            or f'"--{name}"' in benchmarks
            or f'"{name}"' in benchmarks
            or re.search(rf"^ +{name}: .* = setting\(", benchmarks, re.M)
        )

    def unknown(page):
        names = re.findall(r"(?<![\w-])--([a-z][\w-]*\w)", prose(page))
        return [name for name in names if not exists(name)]

    assert not on_pages(unknown)


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


def test_make_targets_that_pages_name_exist():
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = set(re.findall(r"^([a-z][\w-]*):", makefile, re.M))
    named = [
        target
        for page in PAGES
        for target in re.findall(
            r"(?:^|^    |`)make ([a-z][\w-]*)",
            page.read_text("utf-8"),
            re.M,
        )
    ]
    assert len(named) > 5
    assert set(named) <= targets


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


def test_the_lookup_of_names():
    for name in ("data.tasks", "data.tasks.Task", "modeling.BertModel"):
        assert resolves(name), name
    for name in ("data.nothing", "data.tasks.Nothing", "nothing.x"):
        assert not resolves(name), name


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


def imports_in(code):
    """Full names that Python code imports."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_python_in_a_page_compiles_and_its_imports_resolve():
    def is_there(name):
        top = name.split(".")[0]
        if top in (*LIBRARY, MODULE):
            return resolves(name)
        # FAISS is optional, and is in no environment of ours.
        return top == "faiss" or importlib.util.find_spec(top)

    def unknown(page):
        for code in blocks(page, "python"):
            yield from (x for x in imports_in(code) if not is_there(x))

    assert not on_pages(unknown)


def test_readme_is_short():
    lines = (ROOT / "README.md").read_text("utf-8").splitlines()
    assert len(lines) <= MOST_README_LINES


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
