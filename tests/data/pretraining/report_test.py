import re

import pytest

from data.pretraining.data_options import PretrainingDataOptions
from data.pretraining.report import log_counts


@pytest.mark.parametrize(
    ("changed", "warning"),
    [
        # Random next sentences make more tokens than the text has.
        ({"tokens": 2500}, None),
        ({"tokens": 1700}, None),
        ({"tokens": 900}, "at most 45 % .*--split_sentences with --num_pr"),
        ({"unknown": 10}, None),
        ({"unknown": 500}, "50.0 % .*UNK.*--vocab_file .*--do_lower_case"),
    ],
)
def test_text_that_is_cut_or_unknown_is_told_of(caplog, changed, warning):
    counts = {"examples": 9, "wordpieces": 1000, "unknown": 0}
    counts |= {"tokens": 2000, "masked": 1} | changed
    log_counts(counts, PretrainingDataOptions(dupe_factor=2), seconds=1.0)
    assert len(caplog.messages) == bool(warning)
    assert re.search(warning or "", caplog.text)
