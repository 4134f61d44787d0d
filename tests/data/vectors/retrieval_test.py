"""Correlation and retrieval, beside sorting by hand; teachers' vectors."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from data.tasks.examples import TextExample
from data.vectors import retrieval, teacher_vectors

RNG = np.random.default_rng(3)


def test_spearman_of_cosines_at_each_size():
    scores = RNG.random(20).tolist()
    examples = [TextExample((f"a{i}", f"b{i % 7}"), s)
                for i, s in enumerate(scores)]  # fmt: skip
    pairs = retrieval.pair_set(examples)
    assert len(pairs.texts) == 27
    vectors = RNG.normal(size=(27, 6))
    place = {text: i for i, text in enumerate(pairs.texts)}
    expected = {}
    for name, size in (("spearman", 6), ("spearman_2", 2)):
        found = []
        for example in examples:
            a, b = (vectors[place[t]][:size] for t in example.texts)
            found.append(a @ b / np.sqrt((a @ a) * (b @ b)))
        expected[name] = spearmanr(scores, found).statistic
    assert retrieval.at_sizes(pairs, vectors, (6, 2)) == pytest.approx(expected)
    assert retrieval.names_at(pairs, (6, 2)) == [*expected]


def test_equal_scores_are_warned_of(caplog):
    retrieval.pair_set([TextExample(("a", "b"), 0.5)] * 2)
    assert "All 2 pairs to evaluate on have the score 0.5" in caplog.text


def test_ranks_of_right_texts():
    # 30 questions; the first two ask the same and have two right texts.
    examples = [TextExample((f"q{max(i, 1)}", f"d{i % 15}")) for i in range(30)]
    pairs = retrieval.pair_set(examples)
    vectors = RNG.normal(size=(len(pairs.texts), 5))
    place = {text: i for i, text in enumerate(pairs.texts)}
    unit = vectors / np.linalg.norm(vectors, axis=1)[:, None]
    right = {}
    for example in examples:
        right.setdefault(example.texts[0], set()).add(example.texts[1])
    ranks = []
    for query, documents in right.items():
        order = sorted(
            {e.texts[1] for e in examples},
            key=lambda d, q=query: -unit[place[q]] @ unit[place[d]],
        )
        ranks.append(1 + min(map(order.index, documents)))
    ranks = np.array(ranks)
    assert len(ranks) == 29
    assert pairs.evaluate(vectors) == pytest.approx(
        {
            "accuracy_at_1": (ranks == 1).mean(),
            "accuracy_at_10": (ranks <= 10).mean(),
            "mrr_at_10": np.where(ranks <= 10, 1 / ranks, 0).mean(),
        }
    )


def test_a_question_is_no_answer_to_itself():
    texts = ("a", "b"), ("b", "c"), ("d", "d")
    pairs = retrieval.pair_set(map(TextExample, texts))
    found = pairs.evaluate(np.array([[1, 0], [1, 0.1], [1, 0.3], [-1, 0]]))
    assert found["accuracy_at_1"] == 1


def test_a_text_twice_is_no_pair_to_find(caplog):
    texts = ("a", "b"), ("a", "a"), ("d", "d"), ("e", "c")
    pairs = retrieval.pair_set(map(TextExample, texts))
    assert list(pairs.texts) == ["a", "b", "e", "c"]
    # Each query is nearest to the other one's document.
    vectors = np.array([[1, 0], [0, 1], [0, 1], [1, 0]])
    assert pairs.evaluate(vectors)["accuracy_at_1"] == 0
    assert "2 of the pairs to evaluate on have the same text" in caplog.text
    with pytest.raises(ValueError, match="1 of the pairs .*twice, .*give"):
        retrieval.pair_set([TextExample(("d", "d"))])


@pytest.mark.parametrize("value", [1, np.nan])
def test_equal_vectors_find_nothing(value):
    examples = [TextExample((f"q{i}", f"d{i}")) for i in range(20)]
    found = retrieval.pair_set(examples).evaluate(np.full([40, 3], value))
    assert found == dict.fromkeys(retrieval.RETRIEVAL, 0.0)


def test_a_teacher_of_the_same_size_is_not_rotated():
    vectors = RNG.normal(size=(9, 4)).astype(np.float32)
    found = teacher_vectors.fitted(vectors, 4, rotate=False)
    np.testing.assert_array_equal(found, vectors)


@pytest.mark.parametrize("size", [4, 12])
def test_another_size_keeps_the_products_of_a_teachers_vectors(size):
    # Vectors of 9 numbers within a space of 4 dimensions.
    vectors = RNG.normal(size=(50, 4)) @ RNG.normal(size=(4, 9))
    found = teacher_vectors.fitted(vectors, size, rotate=False)
    assert found.shape == (50, size)
    np.testing.assert_allclose(
        found @ found.T, vectors @ vectors.T, rtol=1e-4, atol=1e-4
    )


def test_the_first_numbers_keep_as_much_as_any_can():
    vectors = RNG.normal(size=(50, 9)) * np.arange(1, 10)
    found = teacher_vectors.fitted(vectors, 9, rotate=True)
    left, values, _ = np.linalg.svd(vectors, full_matrices=False)
    best = left[:, :3] * values[:3] ** 2 @ left[:, :3].T
    np.testing.assert_allclose(
        found[:, :3] @ found[:, :3].T, best, rtol=1e-3, atol=1e-2
    )


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.ones([3, 4]), r"\[3, 4\], expected floats \[4, size\]"),
        (np.ones([4]), r"\[4\], expected floats"),
        (np.ones([4, 2], int), "int64.*expected floats"),
    ],
)
def test_a_teacher_that_does_not_fit_is_refused(tmp_path, array, message):
    path = str(tmp_path / "teacher.npy")
    np.save(path, array)
    with pytest.raises(ValueError, match=message):
        teacher_vectors.read_teacher(path, 4)


def test_a_teacher_that_is_no_array_is_refused(tmp_path):
    path = tmp_path / "teacher.npy"
    path.write_text("text")
    with pytest.raises(ValueError, match="--teacher_vectors"):
        teacher_vectors.read_teacher(str(path), 4)
    with pytest.raises(FileNotFoundError, match="--teacher_vectors"):
        teacher_vectors.read_teacher(str(tmp_path / "no.npy"), 4)


@pytest.mark.parametrize("value", [[1, np.nan], [0, 0]])
def test_a_teachers_nan_or_zeros_are_refused_with_their_row(value):
    vectors = np.ones([3, 2])
    vectors[1] = value
    with pytest.raises(ValueError, match="row 1 "):
        teacher_vectors.fitted(vectors, 2, rotate=False)
