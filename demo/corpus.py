r"""Makes the demo's corpus from Python's documentation, or from a text.

python -m demo.corpus --train_output=train.txt --eval_output=eval.txt

python -m demo.corpus --train_output=train.txt --eval_output=eval.txt \
        --text=my.txt
"""

from data.pretraining import corpus
from data.settings import Settings, optional, setting
from training import program
from training.config import flags


class CorpusOptions(Settings):
    """Options of this program."""

    train_output: str = setting(help="Text file to train on.")
    eval_output: str = setting(help="Text file to evaluate on.")
    text: str | None = optional("UTF-8 text instead of Python's documentation.")


def main() -> None:
    """Writes the corpus that the flags ask for."""
    options = flags.read(CorpusOptions)
    corpus.write(options.train_output, options.eval_output, text=options.text)


if __name__ == "__main__":
    flags.define(CorpusOptions)
    program.run(main)
