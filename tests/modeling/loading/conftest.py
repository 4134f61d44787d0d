"""What several tests of loading need."""

import pytest

from tests.support.model_folder_support import write_original


@pytest.fixture
def original(goldens, tmp_path):
    """A folder as the original released them, of the golden model."""
    return write_original(goldens, tmp_path / "original")
