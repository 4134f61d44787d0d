"""What the demo chooses for a text, and which texts it refuses."""

import pytest

from demo import sizes
from training.config import recipes

ENGLISH = "A café opened beside the old mill near the river today."


def write(tmp_path, text, name="text.txt"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


@pytest.mark.parametrize(
    ("text", "lower"),
    [
        ("Işık çok güzel, şehir ve ağaç da öyle.", False),
        ("नदी के पास पुरानी चक्की है", False),  # vowel signs are marks
        ("The old mill by the river. " * 50 + ENGLISH, True),
        ("老磨坊在河边", True),
    ],
)
def test_accents_decide_the_case(tmp_path, text, lower):
    chosen = sizes.of_text(write(tmp_path, text), 5000, 0)
    assert chosen.do_lower_case is lower
    assert ("dropped" in chosen.reason) is lower


def test_the_vocabulary_has_room_for_all_characters(tmp_path):
    path = write(tmp_path, "abc de f")
    assert sizes.of_text(path, 5000, 0).vocab_size == 2 * 6 + 500
    path = write(tmp_path, "abc de f " * 20_000)
    assert sizes.of_text(path, 5000, 0).vocab_size == 60_000 // 20
    assert sizes.of_text(path, 1000, 0).vocab_size == 1000
    chinese = "".join(map(chr, range(0x4E00, 0x4E00 + 900)))
    assert sizes.of_text(write(tmp_path, chinese), 1000, 0).vocab_size == 1900


def test_minutes_choose_the_model(tmp_path):
    path = write(tmp_path, "abc de f " * 20_000)
    quick, chosen = (sizes.of_text(path, None, x) for x in (0, 15))
    assert quick.model.vocab_size == 5000
    assert chosen.model == recipes.best_sizes(15, 60_000)
    assert str(chosen.model) in chosen.reason
    assert quick.vocab_size == chosen.vocab_size == 60_000 // 20


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "0 sentences .* at least 200"),
        ("One line.\n", "1 sentences .* at least 200"),
        ("[MASK] [MASK]\n" * 500, "holds no words"),
        (b"a\n\xff\xfe\n", "line 2"),
    ],
)
def test_texts_that_teach_nothing_are_refused(tmp_path, text, message):
    path = write(tmp_path, text)
    with pytest.raises(ValueError, match=message) as error:
        sizes.check(path)
    assert path in str(error.value)
