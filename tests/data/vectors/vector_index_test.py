import json
import pathlib
import shutil

import numpy as np
import pytest

from data.vectors import vector_index
from data.vectors.text_rows import read_texts
from data.vectors.vector_index import Index, open_index, texts_of, write_facts

MODEL = {"weights_sha256": "a", "pooling": "mean", "max_seq_length": 8}


def nearest(questions, vectors, k, *, is_unit=True, left_out=()):
    texts = ["" if i in left_out else "a" for i in range(len(vectors))]
    for found in Index(vectors, texts, is_unit).search(questions, k):
        scores, places = ([x[name] for x in found] for name in ("score", "row"))
        yield np.array(scores), np.array(places, int)


def whole_product(questions, vectors, k):
    """All cosines at once; of equal ones the first vector."""
    questions = questions / np.linalg.norm(questions, axis=1, keepdims=True)
    cosines = questions @ vectors.T / np.linalg.norm(vectors, axis=1)
    return cosines, np.argsort(-cosines, axis=1, kind="stable")[:, :k]


@pytest.mark.parametrize("k", [1, 3, 7, 40])
@pytest.mark.parametrize("is_unit", [True, False])
def test_nearest_equals_the_whole_product(monkeypatch, k, is_unit):
    monkeypatch.setattr(vector_index, "_ROWS", 7)  # 29 vectors: 5 blocks
    monkeypatch.setattr(vector_index, "_SCORES", 14)  # 2 questions at once
    rng = np.random.default_rng(1)
    vectors = rng.normal(size=(29, 6)).astype(np.float32)
    if is_unit:
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    questions = rng.normal(size=(5, 6)).astype(np.float32)
    cosines, places = whole_product(questions, vectors, k)
    found = list(nearest(questions, vectors, k, is_unit=is_unit))
    for row, place, (scores, got) in zip(cosines, places, found, strict=True):
        assert got.tolist() == place.tolist()
        np.testing.assert_allclose(scores, row[place], atol=1e-6)


def test_of_equal_scores_the_first_vector_is_found(monkeypatch):
    monkeypatch.setattr(vector_index, "_ROWS", 4)
    vectors = np.tile(np.eye(2, dtype=np.float32), (5, 1))  # 0, 2, 4: equal
    ((scores, places),) = nearest(vectors[:1], vectors, 4)
    assert places.tolist() == [0, 2, 4, 6]
    assert scores.tolist() == [1, 1, 1, 1]


def test_vectors_that_are_left_out_are_never_found():
    vectors = np.eye(3, dtype=np.float32)
    ((scores, places),) = nearest(vectors[:1], vectors, 3, left_out=(0, 2))
    assert places.tolist() == [1]
    assert scores.tolist() == [0]


@pytest.mark.parametrize(
    ("name", "content", "column"),
    [
        ("a.txt", "one, two\n\nthree\n", ""),
        ("a.csv", 'text,n\n"one, two",1\n"",2\nthree,3\n', ""),
        ("a.jsonl", '{"q": "one, two"}\n{"q": ""}\n{"q": "three"}\n', "q"),
    ],
)
def test_every_line_is_a_text_an_empty_one_too(tmp_path, name, content, column):
    path = tmp_path / name
    path.write_text(content)
    assert list(read_texts(str(path), column)) == ["one, two", "", "three"]


def test_a_column_of_a_file_of_lines_is_refused(tmp_path):
    (tmp_path / "a.txt").write_text("one\n")
    with pytest.raises(ValueError, match="--text_columns=q"):
        next(read_texts(str(tmp_path / "a.txt"), "q"))


@pytest.fixture
def index(tmp_path):
    """An index of two texts, as --do_encode writes it."""
    texts, path = tmp_path / "texts.txt", str(tmp_path / "texts.npy")
    texts.write_text("one\ntwo\n")
    np.save(path, np.eye(2, dtype=np.float32))
    write_facts(path, MODEL, texts_of(str(texts), ""), count=2, is_unit=True)
    return path


def test_an_index_finds_its_texts(index):
    question = np.array([[1.0, 2.0]], np.float32)
    ((best, second),) = open_index(index, MODEL).search(question, 5)
    assert (best["row"], best["text"]) == (1, "two")
    assert best["score"] == pytest.approx(2 / 5**0.5)
    assert second["text"] == "one"


def test_an_index_that_was_moved_finds_the_texts_beside_it(index, tmp_path):
    moved = tmp_path.rename(tmp_path.with_name("moved"))
    assert open_index(str(moved / "texts.npy"), MODEL).texts[0] == "one"
    (moved / "texts.txt").unlink()
    with pytest.raises(FileNotFoundError, match="texts.npy has.*--do_encode"):
        open_index(str(moved / "texts.npy"), MODEL)


def test_a_copy_has_its_own_texts_if_the_first_change(index, tmp_path):
    copy = shutil.copytree(tmp_path, tmp_path / "copy")
    (tmp_path / "texts.txt").write_text("one\nsix\n")
    assert open_index(str(copy / "texts.npy"), MODEL).texts[0] == "one"


def test_an_index_of_another_model_is_refused(index):
    other = {"weights_sha256": "b", "pooling": "cls", "max_seq_length": 16}
    changed = r"max_seq_length 8 -> 16; pooling mean -> cls; weights \(sha256"
    fault = f"--index_file.*{changed}.*--do_encode"
    with pytest.raises(ValueError, match=fault):
        open_index(index, other)


def test_texts_that_were_changed_are_refused(index, tmp_path):
    (tmp_path / "texts.txt").write_text("one\nsix\n")
    with pytest.raises(ValueError, match="changed since.*--do_encode"):
        open_index(index, MODEL)


def test_vectors_that_nothing_describes_are_refused(index):
    np.save(f"{index}-other.npy", np.eye(2))
    with pytest.raises(FileNotFoundError, match="--do_encode"):
        open_index(f"{index}-other.npy", MODEL)


@pytest.mark.parametrize("lost", ["made_from", "count", "is_unit", "sha256"])
def test_damaged_facts_are_refused(index, lost):
    path = pathlib.Path(vector_index.manifests.path_of([index]))
    facts = json.loads(path.read_text())
    (facts if lost in facts else facts["texts"]).pop(lost)
    path.write_text(json.dumps(facts))
    with pytest.raises(ValueError, match=f"no {lost}.*--do_encode"):
        open_index(index, MODEL)


@pytest.mark.parametrize(
    ("name", "value"),
    [("made_from", []), ("is_unit", "false"), ("file", 3), ("column", None)],
)
def test_facts_of_another_type_are_refused(index, name, value):
    path = pathlib.Path(vector_index.manifests.path_of([index]))
    facts = json.loads(path.read_text())
    (facts if name in facts else facts["texts"])[name] = value
    path.write_text(json.dumps(facts))
    with pytest.raises(ValueError, match="json is damaged: .*--do_encode"):
        open_index(index, MODEL)
