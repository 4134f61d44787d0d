"""Cases that `make test` leaves out and `make test-all` runs."""

import pytest


def rare(*values):
    """A case of parametrize that few changes break."""
    return pytest.param(*values, marks=pytest.mark.all)
