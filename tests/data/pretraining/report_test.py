"""The warnings of create_pretraining_data.py."""

import re

import pytest

from data.pretraining.data_options import PretrainingDataOptions
from data.pretraining.report import log_counts


@pytest.mark.parametrize(
    ("num_tokens", "warning"),
    [
        # Random next sentences make more tokens than the text has.
        (2500, None),
        (1700, None),
        (900, "at most 45 % of the text: .* --split_sentences with --num_pr"),
    ],
)
def test_text_that_is_cut_is_told_of(caplog, num_tokens, warning):
    counts = {"examples": 9, "wordpieces": 1000, "unknown": 0}
    log_counts(
        counts | {"tokens": num_tokens, "masked": 1},
        PretrainingDataOptions(dupe_factor=2),
        seconds=1.0,
    )
    assert len(caplog.messages) == bool(warning)
    assert re.search(warning or "", caplog.text)
