"""Paragraphs to sentences, by a few rules.

BERT reads a sentence a line; most text comes with a paragraph a line. A stop
(. ! ? and their like) ends a sentence unless one of the rules below says no.
They use letter case, so they know the Latin, Greek and Cyrillic scripts best;
Arabic, Devanagari and Chinese have stops that say more by themselves.
"""

import re

# Stops that end a sentence when white space follows: `3.14` and `x.com` go on.
# Behind … are Arabic ?, the stops of Urdu, Armenian, Ethiopic, and Greek ?,
# which Unicode has twice.
_SPACED = ".!?…؟۔։።;\u037e"
# Stops that need no space: Chinese and Japanese, Hindi, Khmer, Burmese.
_UNSPACED = "。！？｡।॥។။"
_STOPS = _SPACED + _UNSPACED
# What follows a stop at once belongs to the sentence. German closes with “.
_CLOSING = "\"'”’“‘»«›‹)\\]}"
_CLOSING_UNSPACED = "\"'”’»›)\\]}）」』】》〉〕］｝"
_OPENING = "\"'“‘”’„‚«»‹›`(\\[{¿¡（「『【《〈〔［｛"

# Group 1 is the end of a sentence, group 2 white space, group 3 the first
# character of what may be the next one. Nothing is tried twice, so that the
# time is linear whatever the text.
_STOP = re.compile(
    rf"""
    ([{_STOPS}](?<![{_STOPS}]{{2}})[{_STOPS}]*+  # all of `?!`, from its first
    (?<![^\u0370-\u03ff\u1f00-\u1fff];)          # ; asks in Greek only
    (?:(?<=[{_UNSPACED}])[{_CLOSING_UNSPACED}]*+(?![，、；：])
    |(?:[{_CLOSING}]
       |[ \u00a0\u202f]»(?!\S)                    # French: space before »
     )*+(?=\s)))
    (\s*+)
    [\s{_OPENING}–—-]*+(?=([^\s{_STOPS},:)\]}}]))
    """,
    re.VERBOSE,
)
_WORD = re.compile(r"\w")

# A word follows these, whatever its case; in lower case.
_NEVER_LAST = frozenset(
    # English
    "mr mrs ms messrs dr prof rev hon st mt gen col maj capt lt sgt sen rep "
    "gov pres vs v e.g i.e cf viz "
    # French, Spanish, Portuguese, Italian, German, Dutch, Polish, Turkish
    "mme mlle mgr sr sra srta dra sig dott bzw ca dhr mevr bijv ul św np doç "
    # Russian
    "им ул св см проф акад".split()
)
# A number follows these, or else they are words: `No. 5`, but `No. He did.`
# So do single small letters, `p. 5`.
_BEFORE_NUMBERS = frozenset(
    "no nos nr pp vol fig figs sec ch art op jan feb mar apr jun jul aug sep "
    "sept oct nov dec стр рис табл ст гл".split()
)
# After `U.S.` these words begin a sentence: `in the U.S. The`.
_BEGINNING = re.compile(
    r"(?:The|This|These|He|She|It|They|We|But|And|In|However)\b"
)
_LONGEST = 12  # characters before a stop that are looked at
_HANGUL = "\u1100"  # from here on a letter can be a whole word


def split_sentences(paragraph: str) -> list[str]:
    """Cuts a paragraph into its sentences.

    A stop ends a sentence, with the quotes and brackets that close behind it,
    unless

    - no white space follows (`3.14`, `x.com`); 。 and । need none;
    - the next word is in lower case: `"Why?" he asked`, `and so ... on`;
    - it is part of an abbreviation that is never last (`Mr.`, `e.g.`), or of
      one that is not last before a number (`No. 5`, `p. 5`);
    - it follows an initial: `J. R. R. Tolkien`, `U.S. Army`. But it does end
      a sentence before a word like The (`in the U.S. The`), and after the
      pronoun I;
    - it numbers what comes: `1. The boy`, `A. The boy`;
    - there is no letter or digit on one side of it: `... And then`.

    Ordinals of other languages (German `am 3. Oktober`) are taken for ends.
    Only white space between sentences is dropped.

    Args:
      paragraph: text of one line.

    Returns:
      The sentences, in order, with a letter or digit in each (unless the
      paragraph has none) and no white space around; splitting one of them
      again gives itself. None for white space.
    """
    paragraph = paragraph.strip()
    sentences = []
    start = 0
    word = _WORD.search(paragraph)
    for match in _STOP.finditer(paragraph):
        if not word or match.start() < word.start():
            continue
        if not _is_end(paragraph, start, match):
            continue
        word = _WORD.search(paragraph, match.start(3))
        if word:
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
    # Not `...`, nor `"Mr."`: there the quotes show that it is last.
    if end - stop == 1 and paragraph[stop] == ".":
        return _is_end_after_word(paragraph, start, stop, match)
    return True


def _is_end_after_word(
    paragraph: str, start: int, stop: int, match: re.Match
) -> bool:
    """Whether the word before a single full stop lets it end a sentence."""
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
    letter = word.rpartition(".")[2]  # of `U.S`: S
    if len(letter) != 1 or not letter.isalpha() or letter >= _HANGUL:
        return True
    if is_first and word == letter:
        return False
    if letter.islower():
        return not before_number
    if word == "I":
        return True
    return bool(_BEGINNING.match(paragraph, match.start(3)))
