"""Texts to train vectors on: pairs with a score, positive pairs, or texts."""

import dataclasses
import functools
from collections.abc import Iterator, Sequence

import numpy as np

from data.settings import Settings, optional, setting, switch
from data.tasks import get_task, rows
from data.tasks.examples import TextExample
from data.tasks.rows import EMPTY_SET, Column, Row
from data.tasks.table_files import TableFiles

TABLES = ("tsv", "csv", "jsonl")
# Task of GLUE -> the label of its positive pairs; None = pairs have scores.
GLUE = {"STS-B": None, "MNLI": "entailment", "QQP": "1"}
PAIR = ("text_a", "text_b")
# Options of both sets that GLUE's do not have.
OF_TABLES = frozenset(
    ("text_columns", "label_column", "separator", "quoted", "drop_missing")
    + ("evaluation",)
)
_SOURCES = (*TABLES, *GLUE)
# The highest score of STS-B.
_HIGHEST = 5.0


class TextOptions(Settings):
    """Which texts are read, to train on and to evaluate on.

    None, () and "" = not given.
    """

    task_name: str = setting(
        "tsv",
        "Tables of your own (tsv, csv, jsonl), or GLUE's STS-B (scored pairs), "
        "MNLI or QQP (positive pairs).",
        choices=_SOURCES,
    )
    data_dir: str = setting("", "Folder of the files.")
    train_file: str = setting("", "Tables: train set, a file of --data_dir.")
    dev_file: str = setting("", "Tables: the same for the dev set.")
    eval_task_name: str = setting(
        "", "Data to evaluate on, if not --task_name.", choices=("", *_SOURCES)
    )
    eval_data_dir: str = setting("", "Folder of --eval_task_name.")
    evaluation: str = setting(
        "",
        "Tables: spearman of scored pairs, or retrieval of the second text of "
        "each pair. Default: retrieval with --loss=negatives, else spearman.",
        choices=("", "spearman", "retrieval"),
    )
    text_columns: tuple[str, ...] = setting(
        (),
        "Tables: columns of the texts. Default: text_a,text_b; with "
        "--loss=teacher text. With --loss=negatives, a third column may hold "
        "hard negatives.",
    )
    label_column: str = setting("score", "Tables: column of the score.")
    separator: str = setting(
        "", "csv, tsv: column separator. Default: tab in tsv, detected in csv."
    )
    quoted: bool | None = optional(
        "Tables: cells may be in double quotes; default: in csv."
    )
    drop_missing: bool = switch("Tables: leave out rows with an empty cell.")
    teacher_vectors: str = setting(
        "", "--loss=teacher: .npy file, a row for each row of the train set."
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextSets:
    """The train and the dev set of the options' `task_name`.

    `options` have `text_columns`. Examples have scores if they are `scored`;
    they must be cosines, -1 to 1, if `limited`. `vectors` are a teacher's, [N,
    H].
    """

    options: TextOptions
    scored: bool
    limited: bool = False
    vectors: Sequence[np.ndarray] = ()

    def __post_init__(self):
        name, columns = self.options.task_name, self.options.text_columns
        has_scores = name in GLUE and GLUE[name] is None
        if name in GLUE and (self.scored, len(columns)) != (has_scores, 2):
            fitting = "cosent or --loss=cosine" if has_scores else "negatives"
            raise ValueError(
                f"--task_name={name} has pairs, for --loss={fitting}."
            )

    def examples(self, set_name: str) -> Iterator[TextExample]:
        """Yields the examples of `train` or `dev`.

        Raises ValueError or OSError if a file or a column is missing, a text is
        empty, a score is no number, or the set is empty.
        """
        name, number = self.options.task_name, -1
        if name in GLUE:
            found = self._glue(set_name)
        else:
            found = rows.converted(self._files.read(set_name), self._example)
        for number, example in enumerate(found):
            if len(self.vectors):
                example.vector = self.vectors[number]
            yield example
        if number < 0:
            raise ValueError(f"--task_name={name}: {EMPTY_SET % set_name}")

    def _glue(self, set_name: str) -> Iterator[TextExample]:
        name, data_dir = self.options.task_name, self.options.data_dir
        if not data_dir:
            raise ValueError(
                f"{name}: give the folder of its files, --data_dir, or "
                "--eval_data_dir for --eval_task_name."
            )
        for example in get_task(name, data_dir).examples(set_name):
            texts = example.text_a, example.text_b
            if self.scored:
                yield TextExample(texts, example.label / _HIGHEST)
            elif example.label == GLUE[name]:
                yield TextExample(texts)

    @functools.cached_property
    def _files(self) -> TableFiles:
        options = self.options
        suffixes = sorted(TABLES, key=options.task_name.__ne__)
        names = options.text_columns
        score = Column.parse(options.label_column, "label_column")
        return TableFiles(
            data_dir=options.data_dir,
            names={"train": options.train_file, "dev": options.dev_file},
            suffixes=tuple(f".{suffix}" for suffix in suffixes),
            columns=[Column.parse(name, "text_columns") for name in names],
            label=score if self.scored else None,
            quoted=options.quoted,
            separator=options.separator,
            drop_missing=options.drop_missing,
        )

    def _example(self, row: Row) -> TextExample:
        columns, score = self._files.columns, self._files.label
        texts = tuple(map(row.text, columns))
        for column, text in zip(columns, texts, strict=True):
            if not text.strip():
                remedy = ", or --drop_missing" * (len(columns) > 1)
                row.refuse(column, text, f"a text{remedy}")
        number = row.float(score) if score else None
        if self.limited and abs(number) > 1:
            expected = "-1 to 1 for --loss=cosine; divide all by the greatest"
            row.refuse(score, number, expected)
        return TextExample(texts, number)
