import numpy as np
import pytest

from data.pretraining import queries


def test_a_literal_mask_is_one_wordpiece(tokenizer):
    query = queries.make_query("the [MASK][MASK] .", tokenizer)
    the, dot = tokenizer.vocab["the"], tokenizer.vocab["."]
    assert query.input_ids == [2, the, 4, 4, dot, 3]
    assert query.masked_positions == [2, 3]
    assert not query.is_pair


def test_a_pair_has_two_segments_and_padding(tokenizer):
    pairs = [
        queries.make_query(text, tokenizer)
        for text in ("the . ||| the [MASK] .", "[MASK]")
    ]
    batch = queries.query_batch(pairs, max_seq_length=10, max_predictions=2)
    the, dot = tokenizer.vocab["the"], tokenizer.vocab["."]
    # [CLS] 2, [SEP] 3, [MASK] 4 in the golden vocabulary.
    assert batch["input_ids"].tolist() == [
        [2, the, dot, 3, the, 4, dot, 3, 0, 0],
        [2, 4, 3, 0, 0, 0, 0, 0, 0, 0],
    ]
    assert batch["input_mask"].sum(axis=1).tolist() == [8, 3]
    assert batch["segment_ids"].tolist() == [
        [0, 0, 0, 0, 1, 1, 1, 1, 0, 0],
        [0] * 10,
    ]
    assert batch["masked_lm_positions"].tolist() == [[5, 0], [1, 0]]


def test_answers_are_the_best_words_in_order():
    answer = queries.answer(
        queries.Query("t", [2, 4, 3], [0, 0, 0], [1]),
        np.array([[0.1, 0.6, 0.3], [1.0, 0.0, 0.0]]),
        np.array([0.25, 0.75]),
        {0: "a", 1: "b", 2: "c"},
        top_k=2,
    )
    # The second row is filler; a single sentence has no pair to judge.
    assert answer == {"text": "t", "masks": [[["b", 0.6], ["c", 0.3]]]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nothing asked\n", "line 1: neither .MASK. nor a pair"),
        ("[MASK]\n\n" + "the " * 30 + "[MASK]\n", "line 3: 33 wordpieces, but"),
        ("\n \n", "no line with text"),
    ],
)
def test_bad_queries_are_named(tokenizer, tmp_path, text, message):
    (tmp_path / "q.txt").write_text(text)
    with pytest.raises(ValueError, match=f"q.txt.*{message}"):
        queries.read_queries(
            str(tmp_path / "q.txt"), tokenizer, max_seq_length=32
        )
