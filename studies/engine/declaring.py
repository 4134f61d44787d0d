"""What a study states: its rows, its measures and the paper's numbers."""

import dataclasses
from collections.abc import Mapping
from typing import Any

Values = Mapping[str, Any]


# What rows of several studies differ by: flags of their records, and fields.
NO_PAIRS = {"next_sentence_prediction": False}
LEFT_TO_RIGHT = {
    "records": NO_PAIRS,
    "pretraining": {"objective": "left_to_right"},
}


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of a study's table: what differs from the study's base.

    Attributes:
      name: name of the row and of its folder.
      title: title of the row in the report.
      records: flags of create_pretraining_data.py.
      masking: flags of run_pretraining.py that say how it masks.
      pretraining: its other flags.
      finetuning: flags of run_classifier.py and, if it has them, run_squad.py.
      sizes: members of bert_config.json.
      paper_sizes: the same at the paper's scale.
      encoder: name of the row whose pretrained model it takes; "" = its own.
      share: share of the pretraining after which the model is taken.
      line: rows of one line are connected in the picture; "" = bars.
      scales: where the row belongs; a row of the paper may have no small
        counterpart.
      paper: numbers of the paper, one for each of the study's columns; () = it
        has none.
    """

    name: str
    title: str
    records: Values = dataclasses.field(default_factory=dict)
    masking: Values = dataclasses.field(default_factory=dict)
    pretraining: Values = dataclasses.field(default_factory=dict)
    finetuning: Values = dataclasses.field(default_factory=dict)
    sizes: Values = dataclasses.field(default_factory=dict)
    paper_sizes: Values = dataclasses.field(default_factory=dict)
    encoder: str = ""
    share: float = 1.0
    line: str = ""
    scales: tuple[str, ...] = ("small", "paper")
    paper: tuple[float, ...] = ()

    @property
    def source(self) -> str:
        """The row whose pretrained model it takes, perhaps itself."""
        return self.encoder or self.name

    @property
    def records_name(self) -> str:
        """The name of its records; rows of the same flags share them."""
        flags = (f"{n}_{x}" for n, x in sorted(self.records.items()))
        return "_".join(flags) or "records"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Study:
    """A study: one table or figure.

    Attributes:
      title: title of the report.
      source: table and publication.
      question: what it asks, in a sentence.
      rows: the first one is the base that the others are compared with.
      columns: the columns of the paper's table, or the tasks of its figure.
      measures: names of `measures.MEASURES`, the most telling first.
      nearest: measure -> the column of the paper that is put beside it.
      notes: what the reader must know, in the report.
      num_steps: updates of each pretraining at the small scale.
      minutes: minutes of each pretraining, in place of steps; 0 = steps.
      sizes: members of bert_config.json for all rows at the small scale.
      takes_model: whether --init_checkpoint can replace the pretraining.
    """

    title: str
    source: str
    question: str
    rows: tuple[Row, ...]
    columns: tuple[str, ...]
    measures: tuple[str, ...]
    nearest: Mapping[str, str] = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()
    num_steps: int = 1500
    minutes: float = 0.0
    sizes: Values = dataclasses.field(default_factory=dict)
    takes_model: bool = False

    @property
    def base(self) -> Row:
        """The row that the others are compared with."""
        return self.rows[0]

    def row(self, name: str) -> Row:
        """Returns the row of a name."""
        return next(row for row in self.rows if row.name == name)

    def rows_at(self, scale: str) -> tuple[Row, ...]:
        """Returns the rows of a scale; `tiny` has those of `small`."""
        name = "small" if scale == "tiny" else scale
        return tuple(row for row in self.rows if name in row.scales)
