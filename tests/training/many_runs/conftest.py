"""What the tests of trials are given."""

import pytest

from tests.support.classifier_support import write_table
from tests.training.finetuning_support import options_of


@pytest.fixture
def options(goldens, tmp_path):
    """A table of one's own, trained on for an epoch."""
    write_table(tmp_path / "data", "single")
    once = {"num_train_epochs": 1.0}
    options = options_of(goldens, tmp_path, finetuning=once, task_options={})
    return options.replace(do_eval=False, do_predict=False)
