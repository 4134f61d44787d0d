import pytest

from data.tasks import get_task
from tests.data.tasks.fixtures import write_files


@pytest.fixture
def table(tmp_path):
    def make(contents, name="csv", **options):
        return get_task(name, write_files(tmp_path, contents), **options)

    return make


def train(task):
    return [
        (example.text_a, example.label) for example in task.examples("train")
    ]


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_the_separator_is_found_by_the_names_of_the_columns(table, separator):
    # Cells hold the other separators, quotes and line breaks.
    rows = [
        ["id", "text", "label"],
        ["1", '"a,;|""\t\nb"', '"x, y"'],
        ["2", "c", "z"],
    ]
    data = "\ufeff" + "".join(separator.join(row) + "\r\n" for row in rows)
    task = table({"train.csv": data})
    assert train(task) == [('a,;|"\t\nb', "x, y"), ("c", "z")]


NUMBERED = {"text_columns": ["-1"], "label_column": "0"}


@pytest.mark.parametrize(
    ("data", "rows"),
    [
        ("yes;a\nno;b, c\n", [("a", "yes"), ("b, c", "no")]),
        ("Well, yes;a\nno;b\n", [("a", "Well, yes"), ("b", "no")]),
        # The text of the first row has a line break and the other separators.
        ('yes;"a,\n|c"\n"no, no";b\n', [("a,\n|c", "yes"), ("b", "no, no")]),
        ('1,0,"a;b"\n0,1,c\n', [("a;b", "1"), ("c", "0")]),
    ],
)
def test_the_separator_of_columns_by_number_gives_every_row_one_width(
    table, data, rows
):
    assert train(table({"train.csv": data}, **NUMBERED)) == rows


@pytest.mark.parametrize(
    ("data", "columns"),
    [
        ("words;a\tb\nx;y\tz\n", {}),
        ("yes;a\tb\nno;y\tz\n", NUMBERED),
        ("yes;a\tb\n", NUMBERED),
    ],
)
def test_two_separators_that_fit_are_an_error_unless_one_is_given(
    table, data, columns
):
    fault = "train.csv: semicolons and tabs each give .*--separator=tab"
    with pytest.raises(ValueError, match=fault):
        train(table({"train.csv": data}, **columns))
    for separator in ";", "semicolon":
        names = NUMBERED | {"labels": ["yes", "no", "words", "x"]}
        task = table({"train.csv": data}, separator=separator, **names)
        assert "\t" in train(task)[0][0]


def test_other_sets_have_the_separator_of_the_train_set(table):
    files = {
        "train.csv": "a, b;yes\nc;no\n",
        "dev.csv": "d, e;yes\n",
        "test.csv": "f, g;?\nh, i;?\n",
    }
    columns = {"text_columns": ["0"], "label_column": "1"}

    def texts(set_name, **options):
        task = table(files, **columns, **options)
        return [example.text_a for example in task.examples(set_name)]

    assert texts("test") == ["f, g", "h, i"]
    assert texts("dev") == ["d, e"]
    # A set of one column that has several by another separator.
    files["test.csv"] = "f|?\ng|?\n"
    fault = "test.csv: semicolons .*several by bars.*--separator=semicolon"
    with pytest.raises(ValueError, match=fault):
        texts("test")
    assert texts("test", separator="semicolon") == ["f|?", "g|?"]
    # A file whose columns tell its own separator has that.
    files["dev.csv"] = "d,yes\n"
    assert texts("dev") == ["d"]


@pytest.mark.parametrize("separator", ["commas", "\\t", '"', "\n"])
def test_what_is_no_separator_is_refused(table, separator):
    with pytest.raises(ValueError, match="--separator=.*must be comma, semi"):
        table({}, separator=separator)


@pytest.mark.parametrize(
    ("name", "data", "columns", "message"),
    [
        ("train.csv", "text,text,label\na,b,x\n", {}, "several columns 'text'"),
        ("train.jsonl", '{"text": "a", "text": "b"}\n', {}, "'text' is twice"),
        (
            "train.jsonl",
            '{"0": "a", "-1": "x"}\n{"label": "x", "0": "b"}\n',
            {"text_columns": ["0"], "label_column": "-1"},
            "line 2: there is no column '-1'; .*in tsv and csv files number",
        ),
        ("train.csv", "a\nb\n", NUMBERED, "-1 and 0 are the .*--separator"),
        # A missing one is named with its flag.
        (
            "train.csv",
            "review,label\na,x\n",
            {},
            "there is no column 'text'; it has review.*--text_col",
        ),
        (
            "train.jsonl",
            '{"text": "a"}\n',
            {},
            "there is no column 'label'; it has text. .*--label_column",
        ),
    ],
)
def test_columns_that_are_missing_or_not_told_apart_are_refused(
    table, name, data, columns, message
):
    with pytest.raises(ValueError, match=message):
        train(table({name: data}, labels=["x"], **columns))


def test_a_header_of_columns_by_number_is_warned_of(table, caplog):
    rows = "x,a\ny,b\nx,c\n"
    assert table({"train.csv": rows}, **NUMBERED).labels == ("x", "y")
    assert not caplog.text
    task = table({"train.csv": f"label,text\n{rows}"}, **NUMBERED)
    assert task.labels == ("label", "x", "y")
    assert "train.csv, line 1: the label 'label' is in no other" in caplog.text
    assert "--label_column" in caplog.text


def test_a_table_in_the_wrong_format_names_its_separator(table):
    files = {"train.tsv": "text;label\na;x\n"}
    fault = r"semicolons: if .*\.csv, or give --separator=semicolon"
    with pytest.raises(ValueError, match=fault):
        train(table(files, "tsv", labels=["x"]))
    assert train(table(files, "tsv", separator="semicolon")) == [("a", "x")]


@pytest.mark.parametrize("name", ["tsv", "csv", "jsonl"])
def test_the_name_of_the_task_decides_between_files(table, name):
    files = {
        "train.tsv": "text\tlabel\nin tsv\tx\n",
        "train.csv": "text,label\nin csv,x\n",
        "train.jsonl": '{"text": "in jsonl", "label": "x"}\n',
    }
    task = table(files, name)
    assert train(task) == [(f"in {name}", "x")]
    assert task.name == name


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("tsv", 'text\tlabel\n"a\tx\n'),
        ("csv", 'text;label\n"""a";x\n'),
        ("jsonl", '{"text": "\\"a", "label": "x"}\n'),
    ],
)
def test_the_name_of_the_task_is_the_format_of_other_files(table, name, data):
    task = table({"train.txt": data}, name, train_file="train.txt")
    assert train(task) == [('"a', "x")]


ROWS = "text,label\n" + "".join(f"t{i},{'ab'[i % 2]}\n" for i in range(20))


def test_a_share_of_the_train_set_is_the_dev_set(table, logged):
    rows = ROWS + ROWS.removeprefix("text,label\n") * 2
    task = table({"train.csv": rows}, dev_share=0.2)
    train_set, dev_set = (
        [example.text_a for example in task.examples(set_name)]
        for set_name in ("train", "dev")
    )
    assert dev_set
    texts = [f"t{i}" for i in range(20)]
    assert sorted(train_set + dev_set) == sorted(3 * texts)
    # Copies of a text are in one set.
    assert not {*train_set} & {*dev_set}
    assert f"The dev set is {len(dev_set)} of 60 training rows" in logged.text


def test_a_label_of_the_dev_share_alone_is_known(table):
    files = {"train.csv": "text,label\n" + "x,a|b\ny,b\nz,a\n" * 4}
    labels = {"kind": "multilabel", "label_separator": "|"}
    assert table(files, dev_share=0.5, **labels).labels == ("a", "b")
    numbers = "text,label\n" + "".join(f"t{i},{i / 2}\n" for i in range(10))
    task = table({"train.csv": numbers}, dev_share=0.3, kind="regression")
    assert 0 < len(task.gold("dev")) < 10


def test_a_train_file_elsewhere_has_no_dev_file_here(table, tmp_path):
    (tmp_path / "mine.csv").write_text(ROWS, "utf-8")
    options = {"train_file": str(tmp_path / "mine.csv"), "dev_share": 0.2}
    folder = write_files(tmp_path / "data", {"dev.csv": ROWS})
    assert 0 < len(train(get_task("csv", folder, **options))) < 20
    with pytest.raises(ValueError, match="there is a file of it, .*dev.csv"):
        table({"dev.csv": ROWS}, **options)


SHARE = {"dev_share": 0.1}
TWICE = "columns text, .*give each once"


@pytest.mark.parametrize(
    ("files", "options", "message"),
    [
        ({}, {"dev_share": 0.0}, "--dev_share=0.0; it must be above 0 and bel"),
        ({}, {"dev_share": 1.0}, "--dev_share=1.0; it must be above 0 and bel"),
        ({"dev.tsv": ROWS}, SHARE, "of it, .*dev.tsv; leave .*, or rename"),
        ({}, SHARE | {"dev_file": "d"}, "of it, d; leave .*, or --dev_file"),
        ({}, {"kind": "pair", "text_columns": ["text"] * 2}, TWICE),
        ({}, {"label_column": "text"}, TWICE),
    ],
)
def test_options_that_do_not_fit_are_refused(table, files, options, message):
    with pytest.raises(ValueError, match=message):
        table({"train.csv": ROWS, **files}, **options)


def test_a_file_without_line_feeds_is_said(table):
    task = table({"train.csv": "text,label\ra,x\rb,y\r"})
    with pytest.raises(ValueError, match="train set is empty.*carriage return"):
        list(task.examples("train"))


def test_a_missing_dev_file_names_the_share(table):
    task = table({"train.csv": ROWS})
    remedies = "--dev_file. Is --data_dir=.* Or draw it .*--dev_share=0.1"
    with pytest.raises(FileNotFoundError, match=f"none of dev.csv.*{remedies}"):
        list(task.examples("dev"))


@pytest.mark.parametrize(
    ("kind", "row", "labels"),
    [
        ("single", '{"text": "a"}', ("x", "y")),
        ("multilabel", '{"text": "a"}', ("x", "y")),
        ("tagging", '{"words": "a b"}', ("B-x", "O")),
        ("choice", '{"text": "a", "c": ["b", "d"]}', ("0", "1")),
        ("regression", '{"text": "a"}', ()),
    ],
)
def test_labels_of_a_model_stand_in_for_the_train_set(table, kind, row, labels):
    choice = {"choice_columns": ["c"]} if kind == "choice" else {}
    task = table({"test.jsonl": row}, "jsonl", kind=kind, **choice)
    if labels:
        with pytest.raises(FileNotFoundError, match="none of train.jsonl"):
            task.labels  # noqa: B018
    files = {"train.jsonl": "not a table", "test.jsonl": row}  # not opened
    task = table(files, "jsonl", kind=kind, **choice)
    task.model_labels = labels
    assert task.labels == labels
    (example,) = task.examples("test")
    assert example.guid == "test-0"


def faults(table, rows, **options):
    """The lines of the error, the first of which counts the rows."""
    task = table({"train.csv": f"text,label\n{rows}"}, **options)
    with pytest.raises(ValueError) as error:
        list(task.examples("train"))
    return str(error.value).splitlines()


def test_all_bad_rows_are_in_one_error(table):
    bad = [f"t{i},{'z' if i % 2 else 'a'}\n" for i in range(60)]
    first, *lines = faults(table, "".join(bad), labels=("a",))
    assert first == "30 rows are wrong, the first:"
    assert len(lines) == 20
    assert "train.csv, line 3: column 'label' is 'z'" in lines[0]
    # Rows of another width are among them.
    first, *lines = faults(table, "x\ny,z\nq,a,b\n", labels=("a",))
    assert first.startswith("3 rows are wrong")
    assert "line 2: 1 columns, expected 2" in lines[0]
    assert "line 3: column 'label' is 'z'" in lines[1]
    assert "line 4: 3 columns, expected 2" in lines[2]
    # The labels are looked for in all rows, too.
    for rows in ("x,a\ny,b\nz\nq,a,b\n", "x,a\ny,\nz,\n"):
        assert faults(table, rows)[0].startswith("2 rows are wrong")


def test_rows_with_empty_cells_are_left_out_if_asked(table, caplog):
    content = 'text,label\none,a\n,a\nthree,\n"",\nfive,b\n'
    task = table({"train.csv": content, "test.csv": content}, drop_missing=True)
    assert train(task) == [("one", "a"), ("five", "b")]
    assert task.labels == ("a", "b")
    assert "--drop_missing leaves out 3 rows, the first is line 3" in (
        caplog.text
    )
    list(task.examples("train"))
    assert caplog.text.count("train.csv: --drop_missing") == 1
    # The labels of a test set may be missing.
    texts = [example.text_a for example in task.examples("test")]
    assert texts == ["one", "three", "five"]


def test_rows_of_json_may_lack_a_column_if_asked(table):
    lines = ['{"text": "a", "label": "x"}', '{"text": "b"}', '{"label": "x"}']
    others = ['{"text": 3, "label": "x"}', "no JSON"]
    content = {"train.jsonl": "\n".join([*lines, *others])}
    with pytest.raises(ValueError) as error:
        train(table(content, "jsonl", labels=["x"]))
    first, *rest = str(error.value).splitlines()
    assert first == "4 rows are wrong, the first:" and len(rest) == 4
    for number, line in enumerate(rest, start=2):
        assert f"train.jsonl, line {number}: " in line
    content = {"train.jsonl": "\n".join(lines)}
    task = table(content, "jsonl", labels=["x"], drop_missing=True)
    assert train(task) == [("a", "x")]
