"""The table of neighbors on the demo's page."""

from types import SimpleNamespace

import numpy as np

from demo import page


def test_a_few_long_words_do_not_hide_the_words_of_another_script(tmp_path):
    words = [chr(0x4E00 + i) for i in range(60)] + ["http", "news"]
    (tmp_path / "train.txt").write_text(f"{' '.join(words)}\n" * 5, "utf-8")
    tokenizer = SimpleNamespace(
        tokenize=str.split, convert_tokens_to_ids=lambda x: [*range(len(x))]
    )
    encoder = SimpleNamespace(get_embedding_table=lambda: np.eye(len(words)))
    loaded = SimpleNamespace(tokenizer=tokenizer, encoder=encoder)
    rows = page._neighbors(tmp_path, SimpleNamespace(loaded=loaded))
    assert len(rows) == page._NUM_WORDS
    assert {word for word, _ in rows} <= {*words}
