"""Options of run_sentence_vectors.py."""

import dataclasses

from data.settings import Settings, refuse, setting
from modeling.choices import VECTOR_LOSSES, VECTOR_POOLINGS
from training.config.finetuning_options import (
    FinetuningOptions,
    check_selection,
)
from training.config.options import (
    DO_EXPORT,
    DO_LOWER_CASE,
    NEVER_SPLIT,
    VOCAB_FILE,
    check_can_be_found,
)

TABLES = ("tsv", "csv", "jsonl")
GLUE = ("STS-B", "MNLI", "QQP")
SOURCES = (*TABLES, *GLUE)


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
    pooling: str = setting(
        "mean",
        "A text's vector: the mean over its wordpieces, or [CLS]'s.",
        choices=VECTOR_POOLINGS,
    )
    normalize: bool = setting(True, "Vectors have the length 1.")
    vector_sizes: tuple[int, ...] = setting(
        (),
        "Smaller sizes at which the first numbers of a vector shall do "
        "(Matryoshka), such as 128,64.",
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
