"""Converts the wordpieces of an answer to text of the paragraph.

The model's answer is a range of wordpieces: lower-cased, without accents,
possibly parts of words. The final text is the matching text of the paragraph.
"""

from data.squad.windows import TokenizedParagraph


def final_text(
    paragraph: TokenizedParagraph, first: int, last: int
) -> tuple[str, int, int]:
    """Returns the text of some wordpieces and its place in the context.

    It is the original's, with single spaces between words; the place is the
    first character and the end (exclusive).

    Source: get_final_text and its caller in run_squad.py.
    """
    # Other windows and questions on a paragraph need the same texts.
    texts, key = paragraph.final_texts, (first, last)
    if key not in texts:
        texts[key] = _find_text(paragraph, first, last)
    return texts[key]


def _find_text(
    paragraph: TokenizedParagraph, first: int, last: int
) -> tuple[str, int, int]:
    bounds = paragraph.bounds
    begin, end = (paragraph.word_of_token[token] for token in (first, last))
    text = " ".join(paragraph.words[begin : end + 1])
    start, stop = 0, len(text)
    # The text of whole words is the words themselves. The original's
    # get_final_text finds all of their characters, or it finds nothing
    # ([UNK]) and returns the words.
    if (bounds[begin], bounds[end + 1]) != (first, last + 1):
        pieces = " ".join(paragraph.tokens(first, last + 1))
        pieces = pieces.replace(" ##", "").replace("##", "").split()
        tokenizer = paragraph.tokenizer.basic_tokenizer
        normalized = " ".join(tokenizer.tokenize(text))
        found = _find_part(" ".join(pieces), normalized, text)
        start, stop = found or (start, stop)

    def place(character: int) -> int:
        word = text.count(" ", 0, character)
        in_word = character - text.rfind(" ", 0, character) - 1
        return paragraph.offsets[begin + word] + in_word

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
