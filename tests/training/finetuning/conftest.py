"""What several tests of questions are given."""

import pytest

from tests.training.squad_support import read_answers


@pytest.fixture(scope="module")
def trimmed(answered_questions):
    """The answers of a run in trimmed batches."""
    return read_answers(answered_questions)
