"""--do_encode and --do_search of run_sentence_vectors.py, and from Python."""

import io

import numpy as np
import pytest
import tensorflow as tf

import bert
from data.vectors import text_rows
from modeling.checkpoints.tf1 import write_state
from modeling.checkpoints.vector_form import VectorForm
from tests.support.model_folders import write_released
from tests.support.run_files import json_lines_in
from training.config.run_options import DeviceOptions
from training.config.vector_options import EncodingOptions, FormOptions
from training.runs import encoding

LINES = ["one two three", "", "two", "three one " * 9, "four", "one two three"]


@pytest.fixture(scope="module")
def released(goldens, tmp_path_factory):
    """The golden model, as one of sentence vectors with prompts."""
    folder = tmp_path_factory.mktemp("released")
    write_released(goldens, folder)
    VectorForm(prompts={"query": "two "}, vector_sizes=(8,)).write(str(folder))
    return str(folder)


@pytest.fixture
def options(released, tmp_path):
    (tmp_path / "texts.txt").write_text("\n".join(LINES) + "\n")
    return EncodingOptions(
        do_encode=True,
        init_checkpoint=released,
        input_file=str(tmp_path / "texts.txt"),
        output_file=str(tmp_path / "texts.npy"),
        encode_batch_size=2,
        form=FormOptions(),
        device=DeviceOptions(),
    )


def mean_vectors(released, texts, **settings):
    """Means of the last layer, of length 1: not by `TextVectors`."""
    model = bert.load(released, **settings)
    means = model.encode(texts, pooling="mean", batch_size=1)
    return means / np.linalg.norm(means, axis=1, keepdims=True)


def test_vectors_are_in_the_order_of_the_file(released, options, monkeypatch):
    monkeypatch.setattr(text_rows, "_NUMBERS_OF_WINDOW", 1)
    encoding.run(options)
    vectors = np.load(options.output_file)
    assert vectors.dtype == np.float32
    expected = mean_vectors(released, LINES)
    np.testing.assert_allclose(vectors, expected, atol=2e-6)


def test_records_have_texts_and_vectors(released, options):
    path = options.output_file.replace("npy", "jsonl")
    encoding.run(options.replace(output_file=path, vector_size=8))
    rows = json_lines_in(path)
    assert [row["text"] for row in rows] == LINES
    expected = mean_vectors(released, LINES)[:, :8]
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(
        [row["vector"] for row in rows], expected, atol=2e-6
    )


def test_cut_and_empty_texts_are_counted(released, options, caplog):
    encoding.run(options.replace(max_seq_length=14))
    assert "1 of 6 texts were longer than --max_seq_length=14" in caplog.text
    assert "1 of 6 texts are empty" in caplog.text
    assert "--prompt_name" in caplog.text  # the model has prompts, none is used
    np.testing.assert_allclose(
        np.load(options.output_file),
        mean_vectors(released, LINES, max_seq_length=14),
        atol=2e-6,
    )


def test_a_form_that_the_model_was_not_trained_with_is_told(options, caplog):
    encoding.run(options.replace(form=FormOptions(normalize=True)))
    assert "was made with" not in caplog.text
    encoding.run(options.replace(form=FormOptions(pooling="cls")))
    assert "--pooling=cls, but the model of " in caplog.text


def test_the_strategy_of_the_flags_computes(options):
    device = DeviceOptions(distribution_strategy="mirrored")
    vectors = encoding.make_model(options.replace(device=device))
    extractor = vectors.sentence_extractor(options.encode_batch_size)
    assert isinstance(extractor._strategy, tf.distribute.MirroredStrategy)
    assert vectors.encode(["one", "two three"], batch_size=2).shape[0] == 2


def test_a_trained_run_computes_although_its_start_is_named(
    released, options, goldens, tmp_path, logged
):
    out = tmp_path / "out"
    write_released(goldens, out)
    VectorForm(pooling="cls").write(str(out))
    for path in out.glob("bert_model.ckpt.*"):
        path.rename(out / path.name.replace("bert_model.ckpt", "model.ckpt-1"))
    write_state(str(out), ["model.ckpt-1"])
    named = options.replace(output_dir=str(out))
    assert encoding.make_model(named).form.pooling == "cls"
    assert "--init_checkpoint is not used" in logged.text
    (out / "model.ckpt-1.index").unlink()
    assert encoding.make_model(named).form.pooling == "mean"
    assert f"--output_dir={out} is not used: it has no run" in logged.text


def test_texts_that_change_while_being_read_are_no_index(options, monkeypatch):
    read = encoding.files.sha256

    def change(path):
        found = read(path)
        with open(path, "w") as file:
            file.write("\n".join(LINES[::-1]) + "\n")
        return found

    monkeypatch.setattr(encoding.vector_index.files, "sha256", change)
    with pytest.raises(ValueError, match="stays as it is"):
        encoding.run(options)
    with pytest.raises(FileNotFoundError, match="--do_encode"):
        encoding.run(as_search(options))


def test_an_index_stays_whole_if_another_encoding_stops(options, monkeypatch):
    encoding.run(options)

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(encoding.TextVectors, "finished", stop)
        with pytest.raises(KeyboardInterrupt):
            encoding.run(options)
    search = as_search(options, input_file=options.input_file)
    encoding.run(search.replace(output_file=f"{options.output_file}.jsonl"))


def as_search(options, **changes):
    files = {"index_file": options.output_file}
    files |= dict.fromkeys(("input_file", "output_file"))
    return options.replace(do_encode=False, do_search=True, **files | changes)


def test_typed_questions_are_answered(options, monkeypatch, capsys, released):
    encoding.run(options)
    monkeypatch.setattr("sys.stdin", io.StringIO("one\n\nfour\n"))
    encoding.run(as_search(options, top_k=6))
    first, second = capsys.readouterr().out.strip().split("\n\n")
    # The model's prompt "two " is put before each question.
    question = mean_vectors(released, ["two one"])[0]
    scores = mean_vectors(released, LINES) @ question
    assert first.split("\n")[0] == "one"
    found = [line.split()[:2] for line in first.split("\n")[1:]]
    best = np.argsort(-scores.round(5), kind="stable")
    best = [i for i in best if LINES[i]]  # the empty text is not found
    assert [int(row) for _, row in found] == best
    assert float(found[0][0]) == pytest.approx(scores[best[0]], abs=1e-4)
    assert second.startswith("four\n")


def test_half_characters_of_a_text_can_be_printed():
    found = [{"score": 0.5, "row": 1, "text": "two \ud83d"}]
    assert "two \ufffd" in encoding._as_text("one", found)


def test_files_and_python_have_the_same_answers(options, tmp_path, released):
    encoding.run(options.replace(vector_size=8))
    questions = tmp_path / "questions.csv"
    questions.write_text("q,n\none,1\nfour,2\n")
    search = as_search(
        options,
        input_file=str(questions),
        text_columns=("q",),
        output_file=str(tmp_path / "found.jsonl"),
        top_k=2,
    )
    encoding.run(search)
    found = json_lines_in(tmp_path / "found.jsonl")
    assert [row["question"] for row in found] == ["one", "four"]
    model = bert.load(released)
    again = model.search(["one", "four"], options.output_file, top_k=2)
    assert [row["found"] for row in found] == again
    assert model.search(["one"], LINES, top_k=1)[0][0]["text"] in LINES


def test_questions_and_an_index_that_do_not_fit_are_refused(options, tmp_path):
    encoding.run(options)
    (tmp_path / "none.txt").write_text("\n \n")
    of_other = "--index_file.*another model"
    for changes, message in (
        ({"input_file": f"{tmp_path}/none.txt"}, "--input_file.*no questions"),
        ({"pooling": "cls"}, f"{of_other}.*pooling .*-> cls"),
        ({"normalize": False}, f"{of_other}.*normalize .*-> False"),
        ({"do_lower_case": False}, f"{of_other}.*do_lower_case .*-> False"),
    ):
        with pytest.raises(ValueError, match=message):
            encoding.run(as_search(options, **changes))
    np.save(options.output_file, -np.load(options.output_file))
    with pytest.raises(ValueError, match="changed since.*--do_encode"):
        encoding.run(as_search(options))


def test_a_search_never_writes_over_the_texts_of_its_index(options, tmp_path):
    (tmp_path / "texts.jsonl").write_text('{"text": "one"}\n')
    texts = str(tmp_path / "texts.jsonl")
    encoding.run(options.replace(input_file=texts))
    (tmp_path / "questions.txt").write_text("one\n")
    questions = str(tmp_path / "questions.txt")
    search = as_search(options, input_file=questions, output_file=texts)
    with pytest.raises(ValueError, match="--output_file.*--index_file"):
        encoding.run(search)
    assert json_lines_in(texts) == [{"text": "one"}]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"input_file": "none.txt"}, "none.txt: no such --input_file"),
        ({"vector_size": 7}, "--vector_size=7.* 8 "),
        ({"prompt_name": "passage"}, "'passage'.*query"),
        ({"max_seq_length": 100000}, "--max_seq_length=100000"),
        ({"text_columns": ("a",)}, "--text_columns=a"),
    ],
)
def test_wrong_flags_write_nothing(options, tmp_path, changes, message):
    with pytest.raises((ValueError, OSError), match=message):
        encoding.run(options.replace(**changes))
    assert [path.name for path in tmp_path.iterdir()] == ["texts.txt"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"do_search": True}, "--do_encode"),
        ({"init_checkpoint": None}, "--init_checkpoint"),
        ({"output_file": None}, "--output_file"),
        ({"output_file": "a.txt"}, "--output_file=a.txt.*npy"),
        ({"text_columns": ("a", "b")}, "--text_columns=a,b"),
        ({"do_encode": False, "do_search": True}, "--index_file"),
        (
            {"do_encode": False, "do_search": True, "index_file": "a.npy"}
            | {"output_file": None, "input_file": None, "text_columns": ("a",)},
            "^--text_columns needs --input_file",
        ),
    ],
)
def test_flags_that_contradict_each_other(options, changes, message):
    with pytest.raises(ValueError, match=message):
        options.replace(**changes)


def test_python_refuses_what_is_no_text_or_no_model_of_vectors(released):
    model = bert.load(released)
    with pytest.raises(ValueError, match=r"texts\[0\]"):
        model.encode([("one", "two")])
    for top_k in (0, 2.0):
        with pytest.raises(ValueError, match=f"top_k is {top_k}, expected 1"):
            model.search(["one"], ["two"], top_k=top_k)
    with pytest.raises(ValueError, match="--vector_size=0, but .* 32 or 8 num"):
        model.encode(["one"], vector_size=0)
    with pytest.raises(ValueError, match="kind='vectors'"):
        bert.load(released, kind="encoder").search(["one"], ["two"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"layers": (0,)}, "would ignore layers: without pooling, or with"),
        ({"layer_mix": "sum"}, "would ignore layer_mix: .* leave out the one"),
        ({"pooling": "cls", "vector_size": 8}, "would ignore pooling: .* vec"),
        ({"pooling": "cls", "prompt_name": ""}, "would ignore pooling: .* pro"),
    ],
)
def test_python_refuses_what_vectors_ignore(released, settings, message):
    with pytest.raises(ValueError, match=message):
        bert.load(released).encode(["one"], **settings)
