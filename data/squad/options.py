"""Options of the windows and of the answers."""

import dataclasses

NUM_SPECIAL = 3  # tokens of a window: [CLS], and [SEP] after each of its texts


@dataclasses.dataclass(frozen=True)
class WindowOptions:
    """Sizes of the windows.

    Args:
      max_seq_length: S, tokens of a row.
      doc_stride: tokens from the start of a window to the start of the next.
      max_query_length: longest question, in tokens; the rest is cut off.

    Raises:
      ValueError: a question may fill the row, or windows would not move on.
    """

    max_seq_length: int = 384
    doc_stride: int = 128
    max_query_length: int = 64

    def __post_init__(self):
        # The original's check and words.
        if self.max_seq_length <= self.max_query_length + NUM_SPECIAL:
            raise ValueError(
                f"The max_seq_length ({self.max_seq_length}) must be greater "
                f"than max_query_length ({self.max_query_length}) + 3"
            )
        for name in ("doc_stride", "max_query_length"):
            if getattr(self, name) < 1:
                raise ValueError(
                    f"--{name} is {getattr(self, name)}, expected 1 or more."
                )


@dataclasses.dataclass(frozen=True)
class AnswerOptions:
    """How answers are chosen.

    Args:
      n_best_size: starts and ends looked at in each window, and answers kept.
      max_answer_length: longest answer, in wordpieces.
      version_2_with_negative: whether "" (no answer) may be the answer.
      null_score_diff_threshold: "" is the answer if its score less that of
        the best text is greater.

    Raises:
      ValueError: a number is less than 1.
    """

    n_best_size: int = 20
    max_answer_length: int = 30
    version_2_with_negative: bool = False
    null_score_diff_threshold: float = 0.0

    def __post_init__(self):
        for name in ("n_best_size", "max_answer_length"):
            if getattr(self, name) < 1:
                raise ValueError(
                    f"--{name} is {getattr(self, name)}, expected 1 or more."
                )
