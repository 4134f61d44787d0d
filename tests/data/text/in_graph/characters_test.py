"""The table of characters against BasicTokenizer, which the goldens hold."""

import functools

import hypothesis
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies

from data.text import tokenization
from data.text.in_graph import characters as characters_in_graph
from tests.support.tiers import rare

# Marks of several combining classes that are kept (Mc), or dropped (Mn), some
# of class 0; what NFD makes such marks of; jamo, syllables, cased characters
# and ignored ones around sigmas.
NEIGHBOURS = (
    "Σ Σσaʰİ'.\u00ad\u200b\u0301\u0345中!\n\u2028"
    "\u302e\U00016ff0\U0001d165\U0001d16d\U0001d15e\U0001d160\u1b44\u093f"
    "\u0316\u20dd\u0b82\u0bca한가\u1100\u1161é\u0378"
)


basic_tokenizer = functools.cache(tokenization.BasicTokenizer)


@functools.cache
def cutter(do_lower_case):
    table = characters_in_graph.CharacterTable(do_lower_case)
    signature = [tf.TensorSpec([None], tf.int32)]
    return tf.function(table.cut, input_signature=signature)


def cut_in_graph(text, do_lower_case):
    """Returns the letters of all words, and the number in each word."""
    codes = np.frombuffer(text.encode("utf-32-le"), np.int32)
    letters, _, _, words = cutter(do_lower_case)(codes)
    letters = letters.numpy().tobytes().decode("utf-32-le")
    return letters, np.diff(words).tolist()


def cut_in_python(text, do_lower_case):
    words = basic_tokenizer(do_lower_case).tokenize(text)
    return "".join(words), list(map(len, words))


# Planes of 65,536 code points: those with characters, and the other ones.
PLANES = [(0, 1, 2, 3, 14), (*range(4, 14), 15, 16)]


@pytest.mark.parametrize("planes", [PLANES[0], rare(PLANES[1])])
@pytest.mark.parametrize("do_lower_case", [True, rare(False)])
def test_no_code_point_differs(do_lower_case, planes):
    halves = [plane << 16 | half for plane in planes for half in (0, 0x8000)]
    for first in halves:
        characters = [
            chr(i)
            for i in range(first, first + 0x8000)
            if not 0xD800 <= i <= 0xDFFF
        ]
        # The full stops tell the texts apart when the words are compared.
        text = " . ".join(f"{x} . a{x}b" for x in characters) + "\n"
        in_graph = cut_in_graph(text, do_lower_case)
        assert in_graph == cut_in_python(text, do_lower_case), hex(first)


@hypothesis.given(strategies.text(NEIGHBOURS), strategies.booleans())
def test_neighbours_act_as_in_python(text, do_lower_case):
    in_graph = cut_in_graph(text + "\n", do_lower_case)
    assert in_graph == cut_in_python(text, do_lower_case)


@pytest.mark.parametrize(
    ("text", "letters"),
    [
        ("ΑΣ ΑΣ", "αςας"),
        ("ΑΣΑ Σ Σα ΣΣ", "ασασσασς"),
        ("Α'Σ ΑΣ'Α", "α'ςασ'α"),  # case looks through '
        ("Α!Σ ΑΣ!Α", "α!σας!α"),
        ("Α\u0301Σ ΑΣ\u0301Α", "αςασα"),
        ("Α\u200bΣ ΑΣ\u200bΑ", "αςασα"),
        ("Α中Σ ΑΣ中Α", "α中σας中α"),
    ],
)
def test_final_sigmas(text, letters):
    assert text.lower().count("ς") == letters.count("ς")
    assert cut_in_graph(text + "\n", True)[0] == letters


def test_kept_marks_change_places_within_one_base():
    def letters(text, do_lower_case=True):
        return cut_in_graph(text, do_lower_case)[0]

    # Class 224 is after class 6 in NFD, also where a deleted character
    # was between them, unless one of class 0 is (here U+0B82, a mark that is
    # dropped later).
    assert letters("a\u302e\U00016ff0 ") == "a\U00016ff0\u302e"
    assert letters("a\u302e\u200b\U00016ff0 ") == "a\U00016ff0\u302e"
    assert letters("a\u302e\u0b82\U00016ff0 ") == "a\u302e\U00016ff0"
    assert letters("a\u302e\U00016ff0 ", False) == "a\u302e\U00016ff0"


def test_letters_know_the_characters_they_were_made_of():
    text = "e\u0301\u200b\u0316x 한!\n"
    codes = np.frombuffer(text.encode("utf-32-le"), np.int32)
    letters, starts, ends, words = cutter(True)(codes)
    made = letters.numpy().tobytes().decode("utf-32-le")
    assert made == "ex\u1112\u1161\u11ab!"
    assert starts.numpy().tolist() == [0, 4, 6, 6, 6, 7]
    assert ends.numpy().tolist() == [4, 5, 7, 7, 7, 8]
    assert words.numpy().tolist() == [0, 2, 5, 6]
