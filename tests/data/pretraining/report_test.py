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
        (
            {"tokens": 900},
            "at most 45 % .*--split_sentences.* --max_seq_length",
        ),
        ({"unknown": 10}, None),
        ({"unknown": 500}, "50.0 % .*UNK.*--vocab_file .*--do_lower_case"),
        # 9 examples with 20 predictions; 15 % of the tokens are more.
        ({"masked": 80}, "80 tokens .* about 180 .*--word_segmenter"),
    ],
)
def test_text_that_is_cut_unknown_or_not_masked_is_told_of(
    caplog, changed, warning
):
    counts = {"examples": 9, "wordpieces": 1000, "unknown": 0}
    counts |= {"tokens": 2000, "masked": 170} | changed
    log_counts(counts, PretrainingDataOptions(dupe_factor=2), seconds=1.0)
    assert len(caplog.messages) == bool(warning)
    assert re.search(warning or "", caplog.text)
