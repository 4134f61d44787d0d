"""WordPiece vocabulary files: one token a line, the line number is the id."""

from collections.abc import Iterable, Mapping

from absl import logging

from data.storage import files

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def load_vocab(vocab_file: str) -> dict[str, int]:
    r"""Reads a vocabulary file.

    Only `\n` ends a line; white space around a token is removed. A repeated
    token has its last id.

    Args:
      vocab_file: path of a UTF-8 text file.

    Returns:
      Token -> id, in the order of the file; ids count lines from 0.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: the file is empty or not UTF-8.

    Source: `load_vocab` of the original's tokenization.py.
    """
    vocab = {}
    num_lines = 0
    first_repeated = None
    for token_id, line in enumerate(files.read_lines(vocab_file)):
        token = line.strip()
        if token in vocab and first_repeated is None:
            first_repeated = token, vocab[token], token_id
        vocab[token] = token_id
        num_lines += 1
    # Differs from the original: it returns an empty vocabulary, because of
    # which every word would become an unknown one.
    if not vocab:
        raise ValueError(
            f"{vocab_file} is empty; expected a vocabulary with one token a "
            "line (build_vocab.py makes one)."
        )
    if first_repeated:
        logging.warning(
            "%s: %d of %d lines repeat an earlier token, the first is %r with "
            "the ids %d and %d; the last id counts.",
            vocab_file,
            num_lines - len(vocab),
            num_lines,
            *first_repeated,
        )
    return vocab


def require_tokens(
    vocab: Mapping[str, int], tokens: Iterable[str], path: str
) -> None:
    """Checks that a vocabulary has the special tokens a program relies on.

    Args:
      vocab: token -> id.
      tokens: the tokens it must hold, for example `["[CLS]", "[SEP]"]`.
      path: where the vocabulary came from, for the error.

    Raises:
      ValueError: a token is missing; names all that are.
    """
    missing = [token for token in tokens if token not in vocab]
    if missing:
        raise ValueError(
            f"{path} has no {', '.join(missing)} among its {len(vocab)} "
            "tokens; give the vocabulary of a BERT model, or make one with "
            "build_vocab.py."
        )


def write_vocab(path: str, tokens: Iterable[str]) -> None:
    """Writes tokens one a line, in the order of their ids, whole or not."""
    files.write_text(path, "".join(f"{token}\n" for token in tokens))
