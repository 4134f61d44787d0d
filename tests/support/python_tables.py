"""Tables for `bert.finetune`, and settings that make a run of it short."""

import numpy as np

TEXTS = ["the man went", "a dog", "caf\u00e9 \u4e2d", "he bought milk"] * 6
LABELS = ["yes", "no", "no", "yes"] * 6
QUICK = {
    "num_train_epochs": 1,
    "train_batch_size": 8,
    "learning_rate": 1e-3,
    "max_seq_length": 32,
}


class Frame:
    """What is used of a pandas DataFrame."""

    def __init__(self, **columns):
        self._columns = {n: np.array(x, object) for n, x in columns.items()}
        self.columns = np.array(list(columns), object)

    def __getitem__(self, name):
        return self._columns[name]
