"""The table of rows, the workers' protocol, and what benchmarks count."""

import dataclasses
import re
import sys

import pytest

from benchmarks import programs, rows
from benchmarks.ours import arithmetic
from benchmarks.peers import compare, protocol, sentence_vectors
from benchmarks.peers.cases import CASES, ORIGINAL
from data.tasks.examples import TextExample
from modeling import BertConfig

pytestmark = pytest.mark.all

WORKER = """
import os
import sys
sys.path.insert(0, {root!r})
from benchmarks.peers.protocol import serve


def make(case):
    assert os.listdir(case["folder"]) == ["log"]  # it is this side's own
    open(case["folder"] + "/file", "w").close()
    print("a library's message")
    calls = []

    def way():
        calls.append(1)
        return [len(calls)]

    return {{"a": way, "=sum": lambda: sum(calls), "=bad": lambda: 1 / 0}}, "x"


serve(make)
"""


@pytest.fixture
def measure(tmp_path, monkeypatch):
    """Measures a side and a peer, which are the worker above."""
    script = tmp_path / "worker.py"
    script.write_text(WORKER.format(root=str(programs.ROOT)))
    # As a folder, the peer's name has a slash.
    sides = dict.fromkeys(("ours", ORIGINAL), (script, sys.executable))
    monkeypatch.setattr(compare, "_sides", lambda targets: sides)
    case = CASES["pretraining_base_float32"]

    def measure(*asks):
        asked = dataclasses.replace(case, asks=asks)
        return compare._measure(asked, compare.Options(turns=2), {})

    return measure


def test_sides_are_timed_in_turns_after_a_warm_up(measure):
    seconds, facts, _, answers = measure("=sum")
    assert seconds == dict.fromkeys(("ours", ORIGINAL), {"a": [2, 3]})
    assert facts == dict.fromkeys(("ours", ORIGINAL), "x")
    assert answers == {"=sum": 3}


def test_the_error_of_a_side_is_shown(measure):
    with pytest.raises(RuntimeError, match="failed:(.|\n)*ZeroDivisionError"):
        measure("=bad")


def test_a_side_that_does_not_start_shows_its_log(tmp_path):
    script = tmp_path / "worker.py"
    script.write_text("raise SystemExit('no such library')")
    request = {"folder": str(tmp_path), "threads": 1}
    with pytest.raises(RuntimeError, match="failed:\nno such library"):
        protocol.Worker(script, sys.executable, request)


def test_a_case_without_its_data_is_refused():
    with pytest.raises(ValueError, match="latency cases read data: give"):
        case = compare.alone(CASES["latency_base_16"])
        compare.result(case, compare.Options())


def test_a_missing_peer_is_refused_with_its_command(monkeypatch, tmp_path):
    monkeypatch.setattr(compare, "python_of", lambda name: tmp_path / name)
    options, case = compare.Options(), CASES["pretraining_base_float32"]
    with pytest.raises(ValueError, match="not exist; run `make peers`"):
        compare.result(case, options)


def test_a_program_that_fails_is_shown(tmp_path):
    with pytest.raises(RuntimeError, match="ended with 1, expected success:"):
        programs.run_program("build_vocab.py")
    log = tmp_path / "a" / "b.log"
    with pytest.raises(RuntimeError, match=f"success; {log} has:\n"):
        programs.run_with_log(log, "-c", "raise ValueError('a')", b=1, c=None)
    assert "ValueError: a" in log.read_text()
    missing = "expected success and 'a line' in its log:"
    with pytest.raises(RuntimeError, match=missing):
        programs.seconds_to("a line", "-c", "pass")


def test_the_last_table_has_rows_that_there_are_in_their_order():
    page = programs.ROOT / "benchmarks/README.md"
    table = page.read_text("utf-8").partition("## The last table")[2]
    names = re.findall(r"^\| (\w+) \|.*\| (?:yes|no) \|$", table, re.M)
    assert names == [name for name in rows.ROWS if name in names]
    # Since then these have been added.
    added = {f"peers_encoding_minilm_{x}" for x in ("float32", "bfloat16")}
    assert rows.ROWS.keys() - names == added | {"step_by_objective"}


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("pretraining_base_bfloat16", "65% at its own shapes"),
        ("tokenizing_python", "tokenizers 3, 8 MB/s"),
        ("latency_base_16", "transformers 1"),
    ],
)
def test_a_target_is_told_in_words(name, target):
    assert compare.targets(CASES[name]).endswith(target)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_every_side_of_a_case_knows_its_kind(case):
    folder = programs.ROOT / "benchmarks"
    sides = {
        "ours": "ours/*.py",
        "tf-models-official": "peers/model_garden.py",
        ORIGINAL: "peers/original.py",
    }
    for side in ["ours", *case.targets]:
        paths = folder.glob(sides.get(side, "peers/theirs.py"))
        code = "".join(path.read_text("utf-8") for path in paths)
        assert re.search(rf"^def {case.kind}\(case\):", code, re.M)


def test_what_starting_costs_is_in_no_rate_of_records():
    points = [
        {
            "text_mb": size,
            "processes": processes,
            "seconds": 3 * processes + size / processes,
            "examples": 1000 * size,
            "peak_mb": 100 * processes + size,
        }
        for size in (10, 20, 40)
        for processes in (1, 2)
    ]
    assert rows.records_growth(points) == {
        "rates": [1000, 2000],
        "cost": 1,
        "memory": pytest.approx(140 / 120),
    }


@pytest.mark.parametrize(
    ("predictions", "training", "flops"),
    [
        # Two whole blocks and one that is read at 1 + P places; 12,000 for the
        # scores of the vocabulary. A gradient has twice as many.
        (0, False, 2 * 163_840 + 29_440),
        (3, True, 3 * (2 * 163_840 + 56_320 + 12_000)),
    ],
)
def test_the_products_of_a_step_are_counted(predictions, training, flops):
    config = BertConfig(
        vocab_size=50,
        hidden_size=8,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=32,
    )
    kinds = arithmetic.products(config, 5, 16, predictions, training=training)
    assert arithmetic.flops(kinds) == flops


def test_both_sides_train_vectors_on_the_rows_of_glue(tmp_path):
    folder = tmp_path / "glue/STS-B"
    folder.mkdir(parents=True)
    names = "index genre filename year old_index source1 source2".split()
    header = [*names, "sentence1", "sentence2", "score"]
    row = [*"0abcdef", "A man runs.", "A man walks.", "2.500"]
    text = "".join("\t".join(cells) + "\n" for cells in (header, row))
    (folder / "train.tsv").write_text(text)
    found = sentence_vectors.examples("sts", "train", tmp_path)
    # The scores of STS-B are 0 to 5, those of a cosine 0 to 1.
    assert found == [TextExample(("A man runs.", "A man walks."), 0.5)]
    given = {"data": str(tmp_path), "output_dir": str(tmp_path / "out")}
    options = sentence_vectors.Options(**given, checkpoint="", tasks=("sts",))
    written = tmp_path / "out/sts_train.jsonl"
    for train in text, text.replace("runs", "ran"):
        (folder / "train.tsv").write_text(train)
        with pytest.raises((ValueError, OSError), match="dev.tsv|another sts_"):
            sentence_vectors.measure(options, "sts")
        assert "A man runs." in written.read_text()


def test_an_unknown_task_of_vectors_is_refused():
    given = {"data": "a", "checkpoint": "b", "output_dir": "c"}
    with pytest.raises(ValueError, match="--tasks=x: x is not one of sts, sq"):
        sentence_vectors.Options(**given, tasks=("x",))
