"""The wordpieces of a paragraph, and back to its own text.

The model's answer is a range of wordpieces: lower-cased, without accents,
possibly parts of words. The final text is the matching text of the paragraph.
"""

import functools

import numpy as np

from data.squad.examples import Paragraph, SquadExample
from data.text.tokenization import FullTokenizer


class TokenizedParagraph:
    """The wordpieces of a paragraph.

    Attributes:
      tokenizer: makes the wordpieces.
      ids: int32, the ids of the wordpieces.
      bounds: index in `ids` of each word's first wordpiece, and the end. A
        word of control characters has no wordpieces.
    """

    def __init__(self, paragraph: Paragraph, tokenizer: FullTokenizer):
        self.tokenizer, self._paragraph = tokenizer, paragraph
        ids, self.bounds = [], [0]
        for word in paragraph.doc_tokens:
            ids += tokenizer.encode(word)
            self.bounds.append(len(ids))
        self.ids = np.array(ids, np.int32)
        # Other windows and questions need the same final texts.
        self._texts: dict[tuple[int, int], tuple[str, int, int]] = {}

    def tokens(self, start: int, end: int) -> list[str]:
        """Returns the wordpieces `start` to before `end` as text."""
        ids = self.ids[start:end].tolist()
        return self.tokenizer.convert_ids_to_tokens(ids)

    @functools.cached_property
    def word_of_token(self) -> list[int]:
        """The index of each wordpiece's word."""
        sizes = np.diff(self.bounds)
        return np.repeat(np.arange(len(sizes)), sizes).tolist()

    def answer_tokens(self, example: SquadExample) -> tuple[int, int]:
        """Returns the first and the last wordpiece of the answer.

        These are the wordpieces of its words, or the part of them that equals
        the answer: for the answer 1895 in the word (1895-1943), only 1895.

        Source: _improve_answer_span in run_squad.py.
        """
        start = self.bounds[example.start_position]
        end = self.bounds[example.end_position + 1]
        answer = self.tokenizer.encode(example.orig_answer_text)
        ids = self.ids[start:end].tolist()
        for i in range(len(ids) - len(answer) + 1):
            if answer and ids[i : i + len(answer)] == answer:
                return start + i, start + i + len(answer) - 1
        return start, end - 1

    def final_text(self, first: int, last: int) -> tuple[str, int, int]:
        """Returns the text of some wordpieces and its place in the context.

        It is the original's, with single spaces between words; the place is the
        first character and the end (exclusive).

        Source: get_final_text and its caller in run_squad.py.
        """
        if (first, last) not in self._texts:
            self._texts[first, last] = self._find_text(first, last)
        return self._texts[first, last]

    def _find_text(self, first: int, last: int) -> tuple[str, int, int]:
        begin, end = (self.word_of_token[token] for token in (first, last))
        text = " ".join(self._paragraph.doc_tokens[begin : end + 1])
        start, stop = 0, len(text)
        # The text of whole words is the words themselves. The original's
        # get_final_text finds all of their characters, or it finds nothing
        # ([UNK]) and returns the words.
        if (self.bounds[begin], self.bounds[end + 1]) != (first, last + 1):
            pieces = " ".join(self.tokens(first, last + 1))
            pieces = pieces.replace(" ##", "").replace("##", "").split()
            words = self.tokenizer.basic_tokenizer.tokenize(text)
            found = _find_part(" ".join(pieces), " ".join(words), text)
            start, stop = found or (start, stop)

        def place(character: int) -> int:
            word = text.count(" ", 0, character)
            in_word = character - text.rfind(" ", 0, character) - 1
            return self._paragraph.offsets[begin + word] + in_word

        return text[start:stop], place(start), place(stop - 1) + 1


def _find_part(part: str, normalized: str, text: str) -> tuple[int, int] | None:
    """Finds the characters of a text that a part of its normal form stands for.

    They are counted without spaces. Returns the first one and the end
    (exclusive); None if the part is not found, or normalization changed the
    number of characters.
    """
    start = normalized.find(part)
    places = [i for i, character in enumerate(text) if character != " "]
    num_characters = len(normalized) - normalized.count(" ")
    if not part or start < 0 or num_characters != len(places):
        return None
    first = start - normalized.count(" ", 0, start)
    last = first + len(part) - part.count(" ") - 1
    return places[first], places[last] + 1
