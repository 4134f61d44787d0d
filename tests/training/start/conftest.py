"""What the tests of the start of a run are given."""

import pytest

from tests.support.model_folder_support import write_original


@pytest.fixture
def released(goldens, tmp_path):
    """A folder as the original released them."""
    return write_original(goldens, tmp_path / "released", "first_layer.json")
