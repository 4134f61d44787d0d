r"""Asks a model about lines of text: labels, entities, fillings or answers.

  python ask.py --model=/tmp/mrpc_output --input_file=pairs.tsv

  cat lines_with_masks.txt | python ask.py --model=$BERT --format=jsonl

  python ask.py --model=/tmp/squad_base --context_file=article.txt

The folder holds a model of the original release or of Hugging Face, a run's
output (output_dir) or an export, which needs no TensorFlow if it is one of
LiteRT. What the lines are depends on the model in it:

  classifier                 a text; for pairs two with a tab between
  tagger                     a text, whose entities are printed
  pretrained model           a text with [MASK]s, which are filled in
  model of questions         a question, a tab, and the text with the answer; or
                             a question alone, with --context_file
  model of multiple choice   a text, a tab, and its choices with tabs between

Empty lines are skipped. On a terminal each line is answered at once, until
Ctrl-D. The Python interface is bert.py, see docs/python.md.
"""

import itertools
import re
import sys
from collections.abc import Iterator
from typing import Any

from data.settings import Settings, optional, setting
from data.storage import files
from data.tasks import KINDS
from training import program
from training.config import flags
from training.export import asking, litert_model

# Batches of a file whose lines are sorted by length together.
_BATCHES_AT_ONCE = 100
_WRITERS = {"text": asking.to_text, "jsonl": asking.to_json}


class AskingOptions(Settings):
    """What ask.py does."""

    model: str = setting(
        help="Folder of a model: the original's, Hugging Face's, a run's "
        "output_dir, or an export."
    )
    input_file: str | None = optional(
        "Texts, one a line (pairs and questions: two with a tab between). "
        "Default: standard input."
    )
    context_file: str | None = optional(
        "The text that all questions are about; each line is a question. "
        "Answers count a line's end as one character."
    )
    vocab_file: str | None = optional(
        "The model's vocabulary. Default: its folder's."
    )
    kind: str | None = optional(
        "What a classifier of the original answers. Default: as its folder "
        "says.",
        choices=KINDS,
    )
    num_choices: int | None = optional(
        "Choices of a line, if a model does not say it.", least=2
    )
    use_calibration: bool = setting(
        True,
        "Answer with the calibration and thresholds of the folder, if it has "
        "them.",
    )
    format: str = setting(
        "text",
        "text, or jsonl: one JSON object a line.",
        choices=tuple(_WRITERS),
    )
    top_k: int | None = optional(
        "Fillings of each [MASK]. Default: as the model says, else 5.", least=1
    )
    max_seq_length: int | None = optional(
        "Wordpieces of a text. Default: as in training.",
        least=3,  # [CLS] a [SEP]
    )
    batch_size: int = setting(32, "Texts computed at once.", least=1)


def main() -> None:
    """Answers the lines that the flags name."""
    options = flags.read(AskingOptions)
    context = None
    if options.input_file:
        files.require_file(options.input_file, "text")
    if options.context_file:
        context = "\n".join(files.read_lines(options.context_file))
    if not litert_model.find(options.model):
        program.load_tensorflow()
    import bert

    # An export takes none of them.
    names = ("vocab_file", "kind", "num_choices", "max_seq_length")
    model = bert.load(
        options.model,
        use_calibration=options.use_calibration,
        **{n: x for n in names if (x := getattr(options, n))},
    )
    _check(options, model)
    names = ("batch_size", "top_k")
    settings = {n: x for n in names if (x := getattr(options, n))}
    write = _WRITERS[options.format]
    is_terminal = not options.input_file and sys.stdin.isatty()
    lines = _lines(options.input_file)
    size = 1 if is_terminal else options.batch_size * _BATCHES_AT_ONCE
    while True:
        try:
            if not (some := list(itertools.islice(lines, size))):
                break
            answers = _answers(model, some, context, settings)
            for (_, line), answer in zip(some, answers, strict=True):
                print(write(line, model.kind, answer), flush=is_terminal)
        except ValueError as error:
            if not is_terminal:
                raise
            print(f"error: {error}", file=sys.stderr)


def _check(options: AskingOptions, model: Any) -> None:
    """Refuses flags for other kinds of model."""
    kinds = dict(top_k="pretraining", context_file="span")
    for flag, kind in kinds.items():
        if (value := getattr(options, flag)) and model.kind != kind:
            raise ValueError(
                f"--{flag}={value} is for a model of the kind {kind}, but "
                f"{model.folder} is of the kind {model.kind}; leave it out."
            )


def _answers(
    model: Any,
    lines: list[tuple[str, str]],
    context: str | None,
    settings: dict[str, Any],
) -> list[Any]:
    """Asks the model about some lines; an error names the line."""
    kind = model.kind
    asked = [asking.asked_by(x, kind, context, where) for where, x in lines]
    try:
        return model.ask(asked, **settings)
    except ValueError as error:
        match = re.match(r"texts\[(\d+)\]", str(error))
        if not match:
            raise
        where, _ = lines[int(match[1])]
        raise ValueError(where + str(error)[match.end() :]) from None


def _lines(path: str | None) -> Iterator[tuple[str, str]]:
    """Yields the place and the text of each line that is not empty.

    After a line of standard input that is not UTF-8 it continues with the next.
    """
    name = path or "standard input"
    lines = path and files.read_lines(path)
    lines = lines or files.lines_of(sys.stdin.buffer, name)
    places = (f"{name}, line {number}" for number in itertools.count(1))
    numbered = zip(places, lines, strict=False)
    return filter(lambda pair: pair[1].strip(), numbered)


if __name__ == "__main__":
    flags.define(AskingOptions)
    program.run(main)
