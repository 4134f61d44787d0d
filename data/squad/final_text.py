"""Wordpieces of a paragraph to the text that is given as an answer.

A model points to wordpieces: lower-cased, without accents, perhaps parts of
words. The answer shall be what stands in the text.
"""

from data.squad.examples import Paragraph
from data.squad.windows import TokenizedParagraph
from data.text.tokenization import BasicTokenizer


class FinalTexts:
    """The texts of a paragraph's wordpieces.

    Args:
      paragraph: its words.
      tokenized: its wordpieces.
      tokenizer: cuts words as the wordpieces were cut.
    """

    def __init__(
        self,
        paragraph: Paragraph,
        tokenized: TokenizedParagraph,
        tokenizer: BasicTokenizer,
    ):
        self._words = paragraph.doc_tokens
        self._offsets = paragraph.offsets
        self._tokenized = tokenized
        # Where words begin, and where the last one ends.
        self._bounds = [*tokenized.first_token, len(tokenized.ids)]
        self._tokenizer = tokenizer
        # Windows, and questions on one paragraph, ask for the same ones.
        self._found: dict[tuple[int, int], tuple[str, int, int]] = {}
        self._normalized: dict[int, str] = {}

    def find(self, first: int, last: int) -> tuple[str, int, int]:
        """Finds the text of some wordpieces.

        Args:
          first: number of the first one in the paragraph.
          last: of the last one.

        Returns:
          The text, as the original has it: words with one space between them;
          and the characters of the context where it begins and ends
          (exclusive), with the white space that stands there.

        Source: get_final_text and its caller in run_squad.py.
        """
        key = first, last
        if key not in self._found:
            self._found[key] = self._find(first, last)
        return self._found[key]

    def _find(self, first: int, last: int) -> tuple[str, int, int]:
        words = self._tokenized.word_of_token
        begin, end = words[first], words[last]
        if self._bounds[begin] == first and self._bounds[end + 1] == last + 1:
            # Whole words are themselves, however they were normalized: what
            # get_final_text finds are all characters, or it finds nothing
            # ([UNK]) and takes the words.
            part = None
        else:
            part = self._part(self._wordpiece_text(first, last), begin, end)
        (begin, skipped), (end, length) = part or (
            (begin, 0),
            (end, len(self._words[end])),
        )
        text = " ".join([*self._words[begin:end], self._words[end][:length]])
        return (
            text[skipped:],
            self._offsets[begin] + skipped,
            self._offsets[end] + length,
        )

    def _wordpiece_text(self, first: int, last: int) -> str:
        """Joins wordpieces to words."""
        text = " ".join(self._tokenized.tokens(first, last + 1))
        return " ".join(text.replace(" ##", "").replace("##", "").split())

    def _part(
        self, text: str, begin: int, end: int
    ) -> tuple[tuple[int, int], tuple[int, int]] | None:
        """Finds a normalized text in words, by the count of its characters.

        Returns:
          Where it begins, as a word and a character of it, and where it ends,
          exclusive; None if it is not found, or the words had other characters
          before they were normalized.
        """
        normalized = map(self._normalize, range(begin, end + 1))
        whole = " ".join(filter(None, normalized))
        start = whole.find(text)
        words = self._words[begin : end + 1]
        num_characters = len(whole) - whole.count(" ")
        if start < 0 or num_characters != sum(map(len, words)):
            return None
        first = start - whole.count(" ", 0, start)
        last = first + len(text) - text.count(" ") - 1
        first_word, first_character = _locate(words, first)
        last_word, last_character = _locate(words, last)
        return (
            (begin + first_word, first_character),
            (begin + last_word, last_character + 1),
        )

    def _normalize(self, word: int) -> str:
        """A word as the tokenizer makes it, a space between its parts."""
        if word not in self._normalized:
            text = self._words[word]
            if not (text.isascii() and text.isalnum()):
                text = " ".join(self._tokenizer.tokenize(text))
            elif self._tokenizer.do_lower_case:
                text = text.lower()  # all that becomes of most words
            self._normalized[word] = text
        return self._normalized[word]


def _locate(words: list[str], character: int) -> tuple[int, int]:
    """The word, and the character in it, of a character of all words."""
    for number, word in enumerate(words):
        if character < len(word):
            return number, character
        character -= len(word)
    raise IndexError(f"character {character} is behind the words.")
