"""What became of a task's examples, for the log."""

import dataclasses


@dataclasses.dataclass
class RecordsReport:
    """What was written.

    Attributes:
      num_examples: those of the set.
      num_records: rows; more than examples where sentences were split.
      num_shortened: examples that lost tokens.
      num_split: tagged sentences that were too long and go on in a further
        row; no word is lost.
      num_tokens: of all rows, without padding.
      num_places: of all rows, with padding.
      reused: whether an earlier run had written just this file.
    """

    num_examples: int = 0
    num_records: int = 0
    num_shortened: int = 0
    num_split: int = 0
    num_tokens: int = 0
    num_places: int = 0
    reused: bool = False

    @property
    def padding_share(self) -> float:
        """Padding's share of `input_ids`."""
        return 1 - self.num_tokens / max(self.num_places, 1)

    def __str__(self) -> str:
        parts = [
            f"{self.num_examples:,} examples",
            f"{self.num_shortened:,} shortened to --max_seq_length "
            f"({self.num_shortened / max(self.num_examples, 1):.1%})",
        ]
        if self.num_split:
            parts.append(f"{self.num_split:,} split over several rows")
        parts.append(f"padding {self.padding_share:.1%}")
        if self.reused:
            parts.append("written by an earlier run")
        return ", ".join(parts)
