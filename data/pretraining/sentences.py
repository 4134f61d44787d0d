"""Divides paragraphs into sentences by a few rules.

BERT's input has one sentence on each line, most text has a paragraph on each
line. A stop such as . ! or ? ends a sentence unless one of the rules below
applies. The rules use letter case, so they work best for Latin, Greek and
Cyrillic scripts. Stops of Arabic, Devanagari and Chinese are less ambiguous.
"""

import re

# Stops that end a sentence if white space follows, so not in `3.14` or `x.com`.
# After … are Arabic ?, the stops of Urdu, Armenian and Ethiopic, and Greek ?,
# which has two code points.
_SPACED = ".!?…؟۔։።;\u037e"
# Stops that need no white space: Chinese and Japanese, Hindi, Khmer, Burmese.
_UNSPACED = "。！？｡।॥។။"
STOPS = _SPACED + _UNSPACED
# Characters that belong to the sentence directly after its stop. German text
# closes with “.
_CLOSING = "\"'”’“‘»«›‹)\\]}"
_CLOSING_UNSPACED = "\"'”’»›)\\]}）」』】》〉〕］｝"
_OPENING = "\"'“‘”’„‚«»‹›`(\\[{¿¡（「『【《〈〔［｛"

# Group 1 is the end of a sentence, group 2 white space, group 3 the first
# character of the possible next sentence. There is no backtracking, so the time
# is linear.
_STOP = re.compile(
    rf"""
    ([{STOPS}](?<![{STOPS}]{{2}})[{STOPS}]*+  # all of `?!`, from its first
    (?<![^\u0370-\u03ff\u1f00-\u1fff];)          # ; asks in Greek only
    (?:(?<=[{_UNSPACED}])[{_CLOSING_UNSPACED}]*+(?![，、；：])
    |(?:[{_CLOSING}]
       |[ \u00a0\u202f]»(?!\S)                    # French: space before »
     )*+(?=\s)))
    (\s*+)
    [\s{_OPENING}–—-]*+(?=([^\s{STOPS},:)\]}}]))
    """,
    re.VERBOSE,
)
_WORD = re.compile(r"\w")

# Abbreviations that are never the end of a sentence; in lower case.
_NEVER_LAST = frozenset(
    # English
    "mr mrs ms messrs dr prof rev hon st mt gen col maj capt lt sgt sen rep "
    "gov pres vs v e.g i.e cf viz "
    # French, Spanish, Portuguese, Italian, German, Dutch, Polish, Turkish
    "mme mlle mgr sr sra srta dra sig dott bzw ca dhr mevr bijv ul św np doç "
    # Russian
    "им ул св см проф акад".split()
)
# Abbreviations if a number follows (`No. 5`), otherwise words (`No. He did.`).
# Single lower-case letters are the same (`p. 5`).
_BEFORE_NUMBERS = frozenset(
    "no nos nr pp vol fig figs sec ch art op jan feb mar apr jun jul aug sep "
    "sept oct nov dec стр рис табл ст гл".split()
)
# Words that begin a sentence after an abbreviation: `in the U.S. The`.
_BEGINNING = re.compile(
    r"(?:The|This|These|He|She|It|They|We|But|And|In|However)\b"
)
_LONGEST = 12  # characters before a stop that the rules use
_HANGUL = "\u1100"  # from here on a letter can be a whole word


def split_sentences(paragraph: str) -> list[str]:
    """Divides a paragraph into its sentences.

    A stop with the closing quotes and brackets after it ends a sentence unless

    - no white space follows (`3.14`, `x.com`); 。 and । need none;
    - the next word is in lower case: `"Why?" he asked`, `and so ... on`;
    - it is part of an abbreviation that is never last (`Mr.`, `e.g.`), or that
      is not last before a number (`No. 5`, `p. 5`);
    - it follows an initial: `J. R. R. Tolkien`, `U.S. Army`. But it ends a
      sentence before a word like The (`in the U.S. The`) and after the pronoun
      I;
    - it is the number of an item: `1. The boy`, `A. The boy`;
    - there is no letter or digit on one side: `... And then`.

    Ordinals of other languages (German `am 3. Oktober`) end a sentence. Only
    white space around sentences is removed. Each has a letter or digit, unless
    the paragraph, which is one line, has none.
    """
    paragraph = paragraph.strip()
    sentences = []
    start = 0
    word = _WORD.search(paragraph)
    for match in _STOP.finditer(paragraph):
        is_early = not word or match.start() < word.start()
        if is_early or not _is_end(paragraph, start, match):
            continue
        if word := _WORD.search(paragraph, match.start(3)):
            sentences.append(paragraph[start : match.end(1)])
            start = match.end(2)
    if paragraph:
        sentences.append(paragraph[start:])
    return sentences


def _is_end(paragraph: str, start: int, match: re.Match) -> bool:
    """Whether a stop ends the sentence that begins at `start`."""
    stop, end = match.span(1)
    if match[3].islower() and paragraph[stop] not in _UNSPACED:
        return False
    # Such as `...`, and `"Mr."`, where the closing quote ends the sentence.
    if end - stop > 1 or paragraph[stop] != ".":
        return True
    words = paragraph[max(start, stop - _LONGEST) : stop].split()
    if not words:
        return True
    word = words[-1].lstrip(_OPENING)
    is_first = len(words) == 1 and stop - start <= _LONGEST
    before_number = match[3].isdigit()
    if word.lower() in _NEVER_LAST or is_first and word.isdigit():
        return False
    if before_number and word.lower() in _BEFORE_NUMBERS:
        return False
    letter = word.rpartition(".")[2]  # `U.S` -> S
    if len(letter) != 1 or not letter.isalpha() or letter >= _HANGUL:
        return True
    if is_first and word == letter:
        return False
    if letter.islower():
        return not before_number
    return word == "I" or bool(_BEGINNING.match(paragraph, match.start(3)))
