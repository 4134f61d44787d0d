"""What several tests of questions are given."""

import pytest

from tests.training.squad_support import read_answers
from training.finetuning.finetuner import Finetuning


@pytest.fixture(scope="module")
def trimmed(answered_questions):
    """The answers of a run in trimmed batches."""
    return read_answers(answered_questions)


@pytest.fixture
def same_outputs(monkeypatch):
    """A model predicts once; it is asked about one file only.

    Each later time it gives the same outputs, which saves the tracing.
    """
    outputs, found = Finetuning.outputs, []

    def once(self, files):
        if not found:
            found.append(outputs(self, files))
        return dict(found[0])

    monkeypatch.setattr(Finetuning, "outputs", once)
