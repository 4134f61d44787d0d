"""What tests of models that predict are given."""

import pytest

from training.finetuning.finetuner import Finetuning


@pytest.fixture
def same_outputs(monkeypatch):
    """A model predicts once; it is asked about one file only.

    Each later time it gives the same outputs, which saves the tracing.
    """
    outputs, found = Finetuning.outputs, []

    def once(*asked):
        if not found:
            found.append(outputs(*asked))
        return dict(found[0])

    monkeypatch.setattr(Finetuning, "outputs", once)
