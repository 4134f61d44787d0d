"""Options of the windows and of the answers."""

from data.settings import Settings, positive, setting, switch

# The score difference of a question whose only candidate is "".
LARGE_SCORE = 1_000_000.0
# Of a run, which --find_null_threshold writes.
THRESHOLD_FILE = "null_threshold.json"
NUM_SPECIAL = 3  # tokens of a window: [CLS], and [SEP] after each of its texts


class WindowOptions(Settings, kw_only=False):
    """Sizes of the windows."""

    max_seq_length: int = setting(384, "Wordpieces of a row.")
    doc_stride: int = positive(
        128, "Wordpieces from the start of a window to the start of the next."
    )
    max_query_length: int = positive(
        64, "Wordpieces of a question; longer ones are cut, and counted."
    )

    def check_room(self) -> None:
        """Raises ValueError if the longest question leaves no room for text.

        Call it when `found_files.fill` has completed the options.
        """
        # The original's check and words.
        if self.max_seq_length <= self.max_query_length + NUM_SPECIAL:
            raise ValueError(
                f"The max_seq_length ({self.max_seq_length}) must be greater "
                f"than max_query_length ({self.max_query_length}) + 3"
            )


class AnswerOptions(Settings, kw_only=False):
    """How answers are chosen."""

    n_best_size: int = positive(
        20,
        "Answers kept in nbest_predictions.json, and the number of best starts "
        "and ends in each window that they are made of.",
    )
    max_answer_length: int = positive(30, "Most wordpieces of an answer.")
    version_2_with_negative: bool = switch(
        "Whether questions may have no answer, as in SQuAD 2.0."
    )
    null_score_diff_threshold: float | None = setting(
        0.0,
        "Answer nothing if the score of no answer minus the best answer's is "
        "above this. Not given: what --find_null_threshold saved in "
        "output_dir.",
    )


def check_null_threshold(options: Settings, *needs: str) -> None:
    """Refuses --find_null_threshold without the flags that it needs."""
    if not options.find("find_null_threshold"):
        return
    if not all(map(options.find, needs)):
        flags = " and --".join(needs)
        raise ValueError(f"--find_null_threshold needs --{flags}.")
    threshold = options.find("null_score_diff_threshold")
    if threshold is not None:
        raise ValueError(
            "--find_null_threshold and --null_score_diff_threshold="
            f"{threshold} exclude each other; give one of them."
        )
