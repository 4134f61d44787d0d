"""The classes of examples; all have `texts`, such as those of a log."""

import dataclasses
from collections.abc import Sequence
from typing import Any


@dataclasses.dataclass(slots=True)
class InputExample:
    """A text or a pair of texts.

    `guid` is its id in logs and predictions. `label` is one of the task's
    labels; for regression a number, for multilabel a tuple of labels; None =
    unknown.

    Source: InputExample in run_classifier.py.
    """

    guid: str
    text_a: str
    text_b: str | None = None
    label: Any = None

    @property
    def texts(self) -> list[str]:
        """The text, or both."""
        return [x for x in (self.text_a, self.text_b) if x is not None]


@dataclasses.dataclass(slots=True)
class ChoiceExample:
    """Several pairs of texts, one of which is right.

    Pair i is `contexts[i]` and `choices[i]`; the right one's label is `label`,
    None = unknown.
    """

    guid: str
    contexts: Sequence[str]
    choices: Sequence[str]
    label: str | None = None

    @property
    def texts(self) -> list[str]:
        """The contexts, equal ones once, and the choices."""
        return [*dict.fromkeys(self.contexts), *self.choices]


@dataclasses.dataclass(slots=True)
class TaggingExample:
    """A sentence whose words have labels; labels None = unknown.

    `document` numbers its document, whose sentences are consecutive.
    """

    guid: str
    words: Sequence[str]
    labels: Sequence[str] | None = None
    document: int = 0

    @property
    def texts(self) -> Sequence[str]:
        """The words; an empty one if there are none."""
        return self.words or [""]


@dataclasses.dataclass(slots=True)
class TextExample:
    """Texts that get a vector each.

    `score` is their similarity, None = not given; `vector` is the teacher's
    vector, () = there is no teacher.
    """

    texts: tuple[str, ...]
    score: float | None = None
    vector: Sequence[float] = dataclasses.field(default=(), repr=False)


Example = InputExample | ChoiceExample | TaggingExample
