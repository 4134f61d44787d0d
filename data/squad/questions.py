"""The questions of a file with their windows, converted once for all uses."""

import functools

from data.squad import examples
from data.squad.articles import SquadArticles
from data.squad.window_options import WindowOptions
from data.squad.windows import Window, convert_examples
from data.text.tokenization import FullTokenizer

Question = tuple[examples.SquadExample, list[Window]]


class Questions:
    """Questions to answer: their records and their answers use the same ones.

    Attributes:
      data: the articles.
      tokenizer: makes the windows.
      options: lengths of the windows.
      examples: the questions, in the order of the file.
      report: counts of the questions and, after `converted`, of the windows.

    Raises:
      ValueError: see `read_examples`.
    """

    def __init__(
        self,
        data: SquadArticles,
        tokenizer: FullTokenizer,
        options: WindowOptions,
    ):
        self.data = data
        self.tokenizer = tokenizer
        self.options = options
        self.report = examples.SquadReport()
        self.examples = list(
            examples.read_examples(
                data, examples.ExampleOptions(is_training=False), self.report
            )
        )

    @functools.cached_property
    def converted(self) -> list[Question]:
        """Each question with its windows."""
        return list(
            convert_examples(
                self.examples, self.tokenizer, self.options, False, self.report
            )
        )
