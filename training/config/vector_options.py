"""Options of run_sentence_vectors.py."""

import dataclasses
from typing import Any

from data.settings import Settings, refuse, setting
from data.vectors.text_sets import GLUE, SOURCES, TextSets
from modeling.choices import SCORED_LOSSES, VECTOR_LOSSES, VECTOR_POOLINGS
from training.config.finetuning_options import (
    FinetuningOptions,
    check_selection,
)
from training.config.run_options import (
    DO_EXPORT,
    DO_LOWER_CASE,
    NEVER_SPLIT,
    VOCAB_FILE,
    check_can_be_found,
)

_PAIR = ("text_a", "text_b")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextOptions(Settings):
    """Which texts are read, to train on and to evaluate on.

    None, () and "" = not given.
    """

    task_name: str = setting(
        "tsv",
        "Tables of your own (tsv, csv, jsonl), or GLUE's STS-B (scored pairs), "
        "MNLI or QQP (positive pairs).",
        choices=SOURCES,
    )
    data_dir: str = setting("", "Folder of the files.")
    train_file: str = setting("", "Tables: train set, a file of --data_dir.")
    dev_file: str = setting("", "Tables: the same for the dev set.")
    eval_task_name: str = setting(
        "",
        "Data to evaluate on, if other than --task_name.",
        choices=("", *SOURCES),
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
        "--loss=teacher text. A third one is a text that does not fit the "
        "first (--loss=negatives).",
    )
    label_column: str = setting("score", "Tables: column of the score.")
    separator: str = setting(
        "", "csv, tsv: between cells; default: a tab in tsv, found out in csv."
    )
    quoted: bool | None = setting(
        None, "Tables: cells may be in double quotes; default: in csv."
    )
    drop_missing: bool = setting(
        False, "Tables: leave out rows with an empty text or score."
    )
    teacher_vectors: str = setting(
        "", "--loss=teacher: .npy file, a row for each row of the train set."
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class SentenceOptions(Settings):
    """What run_sentence_vectors.py does.

    `given` holds the flags that the command gives; None = all.
    """

    given: frozenset[str] | None = None
    vocab_file: str | None = setting(None, VOCAB_FILE)
    do_lower_case: bool = setting(True, DO_LOWER_CASE)
    never_split: tuple[str, ...] = setting((), NEVER_SPLIT)
    do_train: bool = setting(False, "Whether to train.")
    do_eval: bool = setting(False, "Whether to score the dev set.")
    do_export: bool = setting(False, DO_EXPORT)
    loss: str = setting(
        "cosent",
        "What trains: cosent or cosine = scored pairs; negatives = pairs, each "
        "against the other texts of its batch; teacher = another model's "
        "vectors of the texts.",
        choices=VECTOR_LOSSES,
    )
    similarity_scale: float = setting(
        20.0, "cosent, negatives: factor of the cosines.", above=0
    )
    pooling: str | None = setting(
        None,
        "A text's vector: the mean over its wordpieces, or [CLS]'s. Default: "
        "as the model's folder says, else mean.",
        choices=VECTOR_POOLINGS,
    )
    normalize: bool | None = setting(
        None,
        "Vectors have the length 1. Default: as the model's folder says, else "
        "true.",
    )
    vector_sizes: tuple[int, ...] | None = setting(
        None,
        "Smaller sizes at which the first numbers of a vector shall do "
        "(Matryoshka), such as 128,64. Default: as the model's folder says.",
    )
    texts: TextOptions = TextOptions()
    finetuning: FinetuningOptions

    def _check(self) -> None:
        refuse(
            (
                not (self.do_train or self.do_eval or self.do_export),
                "Give --do_train, --do_eval or --do_export.",
            ),
        )
        check_selection(self.finetuning, self.do_train)
        check_can_be_found(self, "vocab_file", "bert_config_file")

    def check_together(self) -> None:
        """Refuses flags that contradict each other, also remembered ones.

        Call it when `found_files.fill` has completed them.
        """
        texts, train = self.texts, self.finetuning
        numbers = {"teacher": (1,), "negatives": (2, 3)}.get(self.loss, (2,))
        has_teacher = bool(texts.teacher_vectors)
        grouped = {
            name: getattr(train, name)
            for name in ("group_by_length", "shuffle_window")
            if getattr(train, name)
        }
        refuse(
            (
                self.do_train and self.num_texts not in numbers,
                f"--text_columns has {self.num_texts} columns, but "
                f"--loss={self.loss} needs {' or '.join(map(str, numbers))}.",
            ),
            (
                self.do_train and has_teacher != (self.loss == "teacher"),
                "--teacher_vectors and --loss=teacher need each other; give "
                "both or none.",
            ),
            (
                texts.drop_missing and self.loss == "teacher",
                "--drop_missing would leave out texts, but --teacher_vectors "
                "has a row for each; remove both.",
            ),
            (
                self.loss == "negatives" and grouped,
                f"--{next(iter(grouped), '')}: --loss=negatives orders all "
                "examples, so that no batch has a text twice; leave it out.",
            ),
        )

    @property
    def evaluates(self) -> bool:
        """Whether the dev set is read."""
        watches = self.do_train and self.finetuning.train.eval_every_steps > 0
        return self.do_eval or watches

    @property
    def num_texts(self) -> int:
        """The number of texts of an example to train on."""
        return len(self.train_columns)

    @property
    def train_columns(self) -> tuple[str, ...]:
        """The columns of these texts."""
        usual = ("text",) if self.loss == "teacher" else _PAIR
        return self.texts.text_columns or usual

    @property
    def train_set(self) -> TextSets:
        """The texts to train on."""
        return self._sets(
            self.texts.task_name,
            self.texts.data_dir,
            scored=self.loss in SCORED_LOSSES,
            limited=self.loss == "cosine",
            text_columns=self.train_columns,
        )

    @property
    def dev_set(self) -> TextSets:
        """The pairs to evaluate on."""
        texts, columns = self.texts, self.texts.text_columns[:2]
        name = texts.eval_task_name or texts.task_name
        measure = texts.evaluation or (
            "retrieval" if self.loss == "negatives" else "spearman"
        )
        scored = measure == "spearman"
        if name in GLUE:
            scored = GLUE[name] is None
        return self._sets(
            name,
            texts.eval_data_dir or texts.data_dir,
            scored=scored,
            text_columns=columns if len(columns) == len(_PAIR) else _PAIR,
        )

    def _sets(self, name: str, data_dir: str, **more: Any) -> TextSets:
        same = ("label_column", "train_file", "dev_file")
        same += ("separator", "quoted", "drop_missing")
        values = {field: getattr(self.texts, field) for field in same}
        return TextSets(task_name=name, data_dir=data_dir, **values, **more)
