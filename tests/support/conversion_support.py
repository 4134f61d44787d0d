"""Conversions of models, and of what is refused."""

import pytest

from training.config.conversion_options import ConversionOptions
from training.convert import conversion


def convert(source, target, **options):
    """Converts a folder; returns the new one."""
    conversion.run(
        ConversionOptions(model=str(source), output_dir=str(target), **options)
    )
    return target


def refused(message, source, target, error=ValueError, **options):
    """The conversion ends with this error and leaves nothing behind."""
    with pytest.raises(error, match=message):
        convert(source, target, **options)
    assert not list(target.parent.glob(f"{target.name}*"))
