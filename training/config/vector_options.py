"""Options of run_sentence_vectors.py."""

from data.settings import group, in_flag, optional, positive, setting, switch
from data.vectors.text_sets import GLUE, OF_TABLES, PAIR, TextOptions, TextSets
from modeling.choices import SCORED_LOSSES, VECTOR_LOSSES, VECTOR_POOLINGS
from training.config import shared
from training.config.finetuning_options import FinetuningOptions, TaskRunOptions
from training.config.run_options import DeviceOptions


class FormOptions(shared.Options):
    """How a text becomes one vector."""

    pooling: str | None = optional(
        "A text's vector: the mean over its wordpieces, or [CLS]'s. Default: "
        "as the model's folder says, else mean.",
        choices=VECTOR_POOLINGS,
    )
    normalize: bool | None = optional(
        "L2-normalize vectors. Default: as the model's folder says, else true."
    )
    vector_sizes: tuple[int, ...] | None = optional(
        "Smaller sizes to train, too (Matryoshka), as 128,64: then the first "
        "128 numbers are a vector, too. Default: as the model's folder says."
    )


class SentenceOptions(TaskRunOptions):
    """What run_sentence_vectors.py does."""

    do_eval: bool = switch("Whether to score the dev set.")
    loss: str = setting(
        "cosent",
        "Loss: cosent, cosine = scored pairs; negatives = positive pairs with "
        "in-batch negatives; teacher = distance to another model's vectors.",
        choices=VECTOR_LOSSES,
    )
    similarity_scale: float = setting(
        20.0, "cosent, negatives: multiplies cosine similarities.", above=0
    )
    # Nothing is predicted.
    finetuning: FinetuningOptions = group(predict_batch_size=8)
    form: FormOptions = FormOptions()
    texts: TextOptions = TextOptions()

    def _check(self) -> None:
        if not (self.do_train or self.do_eval or self.do_export):
            raise ValueError("Give --do_train, --do_eval or --do_export.")
        super()._check()

    def check_together(self) -> None:
        """Refuses flags that contradict each other, also remembered ones.

        Call it when `found_files.fill` has completed them.
        """
        self._refuse_unread()
        texts, loss, count = self.texts, self.loss, len(self.train_columns)
        numbers = {"teacher": (1,), "negatives": (2, 3)}.get(loss, (2,))
        if self.do_train and count not in numbers:
            raise ValueError(
                f"--text_columns has {count} columns, but --loss={loss} needs "
                f"{' or '.join(map(str, numbers))}."
            )
        compares = count == 2 and loss != "cosine"
        if self.do_train and compares and self.find("train_batch_size") == 1:
            raise ValueError(
                f"--train_batch_size=1: --loss={loss} compares the examples of "
                "a batch; give 2 or more."
            )
        if self.do_train and bool(texts.teacher_vectors) != (loss == "teacher"):
            raise ValueError(
                "--teacher_vectors and --loss=teacher need each other."
            )
        if loss == "teacher":  # the vectors have a row for each text
            self._exclude("loss", "drop_missing")
        if loss == "negatives":  # it orders examples by itself
            self._exclude("loss", "group_by_length", "shuffle_window")
        if self.do_train and loss in ("cosine", "teacher"):  # no factor
            self._exclude("loss", "similarity_scale")

    def _refuse_unread(self) -> None:
        """Refuses flags of tables if the set is GLUE's, with its own files."""
        changed, sets = self.texts.changed(), {}
        if self.do_train:
            sets["train_file"] = self.texts.task_name
        if self.do_eval or self.watches:
            name = self.texts.eval_task_name or self.texts.task_name
            sets |= {"dev_file": name, "evaluation": name}
        unread = {flag for flag, name in sets.items() if name in GLUE}
        if sets and unread == sets.keys():
            unread |= OF_TABLES
        if self.given is not None:
            unread -= OF_TABLES - self.given  # remembered
        for flag in sorted(unread & changed.keys()):
            name = sets.get(flag, self.texts.task_name)
            raise ValueError(
                f"--{flag}={in_flag(changed[flag])} is for tables (tsv, csv, "
                f"jsonl), but {name} has files of its own; leave it out, or "
                "give --task_name=tsv, for the dev set --eval_task_name=tsv."
            )

    @property
    def train_columns(self) -> tuple[str, ...]:
        """The columns of the texts of an example to train on."""
        usual = ("text",) if self.loss == "teacher" else PAIR
        return self.texts.text_columns or usual

    @property
    def train_set(self) -> TextSets:
        """The texts to train on."""
        return TextSets(
            options=self.texts.replace(text_columns=self.train_columns),
            scored=self.loss in SCORED_LOSSES,
            limited=self.loss == "cosine",
        )

    @property
    def dev_set(self) -> TextSets:
        """The pairs to evaluate on."""
        texts, columns = self.texts, self.texts.text_columns[:2]
        name = texts.eval_task_name or texts.task_name
        usual = "retrieval" if self.loss == "negatives" else "spearman"
        is_retrieval = (texts.evaluation or usual) == "retrieval"
        options = texts.replace(
            task_name=name,
            data_dir=texts.eval_data_dir or texts.data_dir,
            text_columns=columns if len(columns) == len(PAIR) else PAIR,
        )
        scored = GLUE[name] is None if name in GLUE else not is_retrieval
        return TextSets(options=options, scored=scored)


class EncodingOptions(shared.Options):
    """Which vectors are written, or what is searched."""

    do_encode: bool = switch("Write the vectors of the texts of --input_file.")
    do_search: bool = switch(
        "Find the texts of --index_file that are nearest to each question of "
        "--input_file, or of the terminal."
    )
    init_checkpoint: str | None = optional(shared.INIT_CHECKPOINT)
    output_dir: str | None = optional("Folder of the run.")
    input_file: str | None = optional(
        "Texts, one a line; or a table (tsv, csv, jsonl) with --text_columns."
    )
    output_file: str | None = optional(
        "Vectors as .npy or, with the texts, as .jsonl; for --do_search .jsonl "
        "of what was found. Default: the terminal."
    )
    index_file: str | None = optional("--do_search: .npy file of --do_encode.")
    text_columns: tuple[str, ...] = setting((), "Tables: columns of the texts.")
    prompt_name: str | None = optional(
        "Which of the model's prompts is put before each text. Default: as the "
        "model says; for questions query, if it has this one."
    )
    vector_size: int | None = optional(
        "--do_encode: one of the model's smaller sizes.", least=1
    )
    top_k: int = setting(10, "--do_search: texts for each question.", least=1)
    encode_batch_size: int = positive(32, "Texts at once (more if short).")
    vocab_file: str | None = optional(shared.VOCAB_FILE)
    do_lower_case: bool | None = optional(shared.DO_LOWER_CASE)
    max_seq_length: int | None = optional("Most wordpieces of a text.")
    form: FormOptions = group(vector_sizes=None)
    device: DeviceOptions

    def _check(self) -> None:
        path, columns = self.output_file or "", self.text_columns
        kinds = (".jsonl",) if self.do_search else (".npy", ".jsonl")
        self._exclude("do_encode", "do_search")
        if not self.output_dir and not self.init_checkpoint:
            raise ValueError(
                "Give the model: --init_checkpoint, or a run's --output_dir."
            )
        self._need("do_encode", "input_file", "output_file")
        self._need("do_search", "index_file")
        self._need("text_columns", "input_file")
        if path and not path.endswith(kinds):
            raise ValueError(f"--output_file={path}; use {' or '.join(kinds)}.")
        if len(columns) > 1:
            raise ValueError(
                f"--text_columns={','.join(columns)}: give one column of texts."
            )

    @property
    def column(self) -> str:
        """The column of the texts; "" = the usual one."""
        return "".join(self.text_columns)

    @property
    def unread(self) -> set[str]:
        """The flags of the other one of --do_encode and --do_search."""
        return {"vector_size"} if self.do_search else {"index_file", "top_k"}
