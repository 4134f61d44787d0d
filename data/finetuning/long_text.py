"""Texts that are longer than a row: their windows, and one answer of them."""

import numpy as np

from data.settings import Settings, amount, setting

MODES = ("truncate", "windows")
POOLINGS = ("mean", "max")


class LongTextOptions(Settings):
    """How texts that are longer than a row are treated."""

    mode: str = setting(
        "truncate",
        "[new] How to read a text over --max_seq_length: truncate = cut its "
        "end, as the original; windows = overlapping windows. In training "
        "each window is an example. The probabilities of a text's windows are "
        "pooled; in tagging each word is labelled in one window. Not for "
        "pairs and choices.",
        choices=MODES,
        flag="long_text",
    )
    stride: int = amount(
        0,
        "[new] Wordpieces from the start of a window to the start of the next; "
        "0 = half of what a window holds.",
        flag="long_text_stride",
    )
    pooling: str = setting(
        "mean",
        "[new] How to pool the probabilities (for regression, the numbers) of "
        "a text's windows into one answer.",
        choices=POOLINGS,
        flag="long_text_pooling",
    )

    def _check(self) -> None:
        for flag, value in self.changed().items():
            if self.mode != "windows":
                raise ValueError(
                    f"--{flag}={value} is for --long_text=windows, which is "
                    "not given; give both, or neither."
                )

    def stride_of(self, max_seq_length: int) -> int:
        """Returns the wordpieces from a window to the next; 0 = no windows."""
        if self.mode != "windows":
            return 0
        return self.stride or max(1, (max_seq_length - 2) // 2)


def pool(
    values: np.ndarray, numbers: np.ndarray, pooling: str, kind: str
) -> np.ndarray:
    """Pools the predictions of the windows of each text: float32 [texts, L].

    Probabilities are pooled and not logits, because probabilities are what
    files and exports show, and because no window can outweigh all others.
    `values` are float32 [N, L], text by text; `numbers` [N] the number of each
    window's text, ascending. The largest probabilities of a classification
    (`kind`) are divided by their sum.
    """
    starts = first_windows(numbers)
    if pooling == "max":
        pooled = np.maximum.reduceat(values, starts, axis=0)
        if kind == "classification":
            pooled = pooled / pooled.sum(axis=1, keepdims=True)
        return pooled
    counts = np.diff([*starts, len(values)])[:, np.newaxis]
    sums = np.add.reduceat(values, starts, axis=0, dtype=np.float64)
    return (sums / counts).astype(np.float32)


def first_windows(numbers: np.ndarray) -> np.ndarray:
    """Returns the index of the first window of each text, see `pool`."""
    return np.unique(numbers, return_index=True)[1]
