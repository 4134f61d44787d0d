"""Text files to a WordPiece vocabulary, on tensorflow-text's learner.

    files --BasicTokenizer--> word counts --learner--> vocabulary

The original released no learner. This one keeps the most frequent pieces:
from all substrings of all words it takes those that occur at least
`threshold` times beyond what longer pieces already cover; a search finds the
threshold that gives the wanted size.
"""

import collections
from collections.abc import Iterable, Mapping, Sequence

from absl import logging
from tensorflow_text.tools.wordpiece_vocab import (
    wordpiece_tokenizer_learner_lib as learner,
)

from data.progress import Progress
from data.storage import files
from data.text import tokenization
from data.text.vocabulary import LearningOptions


def count_words(
    paths: Sequence[str], *, do_lower_case: bool, max_distinct: int = 2_000_000
) -> collections.Counter[str]:
    """Counts the words of text files, as `BasicTokenizer` cuts them.

    Of more than `max_distinct` words (2,000,000 take about 250 MB) the rarest
    are forgotten, with a warning. Raises FileNotFoundError if a file does not
    exist, ValueError if one is not UTF-8 or all of them hold no word.
    """
    tokenizer = tokenization.BasicTokenizer(do_lower_case)
    counts = collections.Counter()
    num_bytes = sum(map(files.size, paths))
    with Progress("counting words", total=num_bytes, unit="bytes") as progress:
        for path in paths:
            for line in files.read_lines(path):
                counts.update(tokenizer.tokenize(line))
                progress.advance(len(line.encode()) + 1)
                if len(counts) > max_distinct:
                    counts = _forget_rare_words(counts, max_distinct // 2)
    if not counts:
        raise ValueError(
            f"no words in {', '.join(paths)}; give text with at least a few "
            "thousand sentences."
        )
    return counts


def learn_vocab(
    word_counts: Mapping[str, int], options: LearningOptions
) -> list[str]:
    """Learns the WordPieces of counted words.

    Returns tokens in the order of their ids: [PAD], unused and other reserved
    ones, characters (each twice, as `x` and `##x`), pieces by frequency. The
    same counts give the same list. Raises ValueError if the characters alone
    need more than `vocab_size`.
    """
    first, *others = options.reserved_tokens
    unused = [f"[unused{i}]" for i in range(options.num_unused)]
    head = [first, *unused, *others]
    vocab = _search(word_counts, head, options)
    return _trim(vocab, len(head), options.vocab_size)


def measure_coverage(
    word_counts: Mapping[str, int], vocab: Iterable[str]
) -> collections.Counter[str]:
    """Cuts all counted words with a vocabulary.

    Returns the number of running `words`, of their `pieces`, and how many are
    `unknown`: they become `[UNK]`.
    """
    tokenizer = tokenization.WordpieceTokenizer(frozenset(vocab))
    found = collections.Counter(words=sum(word_counts.values()))
    for word, count in word_counts.items():
        pieces = tokenizer.tokenize(word)
        found["pieces"] += count * len(pieces)
        found["unknown"] += count * (pieces == [tokenizer.unk_token])
    return found


def _search(
    word_counts: Mapping[str, int], head: list[str], options: LearningOptions
) -> list[str]:
    """Finds a vocabulary just above `vocab_size`, else the largest below.

    The learner's own search halves the range of thresholds in about twenty
    runs. The size falls about as threshold^-2/3, so three or four runs do.
    """
    larger = smaller = None
    vocab_size, low = options.vocab_size, options.min_frequency
    high = max(low, *word_counts.values())
    threshold = min(max(20, low), high)
    while low <= high:
        vocab = learner.learn(
            word_counts,
            vocab_size=vocab_size,
            reserved_tokens=head,
            lower_thresh=threshold,
            upper_thresh=threshold,  # equal: learn once, no search
            max_unique_chars=options.max_characters,
        )
        size = len(vocab)
        logging.info(f"pieces that occur {threshold} times: {size} tokens")
        if vocab_size <= size <= 1.05 * vocab_size:
            return vocab
        if size > vocab_size:
            larger, low = vocab, threshold + 1
        else:
            smaller, high = vocab, threshold - 1
        threshold = round(threshold * (size / vocab_size) ** 1.5)
        threshold = max(low, min(threshold, high))
    return larger or smaller


def _trim(vocab: list[str], num_reserved: int, vocab_size: int) -> list[str]:
    """Drops the rarest pieces above `vocab_size`; characters all stay."""
    pieces = [t for t in vocab[num_reserved:] if len(t.removeprefix("##")) > 1]
    num_required = len(vocab) - len(pieces)
    if num_required > vocab_size:
        raise ValueError(
            f"vocab_size={vocab_size} is too small: {num_reserved} reserved "
            f"tokens and {num_required - num_reserved} for single characters "
            f"need {num_required}; raise it, or lower max_characters."
        )
    dropped = set(pieces[vocab_size - num_required :])
    return [token for token in vocab if token not in dropped]


def _forget_rare_words(
    counts: collections.Counter[str], num_kept: int
) -> collections.Counter[str]:
    """Keeps the most frequent words and says so."""
    logging.warning(
        f"{len(counts)} distinct words; only the {num_kept} most frequent are "
        "kept to bound the memory, so that the rarest count too low."
    )
    return collections.Counter(dict(counts.most_common(num_kept)))
