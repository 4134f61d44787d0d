"""Options of run_pretraining.py."""

import os

from data.pretraining.data_options import PretrainingDataOptions
from data.settings import group, optional, setting, share, switch
from modeling.choices import FIRST_WEIGHTS, OBJECTIVES
from training.config import shared
from training.config.objective_options import ObjectiveOptions
from training.config.run_options import DeviceOptions, TrainOptions


class PretrainingOptions(shared.Options):
    """What run_pretraining.py does.

    `masking` tells how to mask records while they are read; None = they have
    masks. `given` holds the flags that the command gives; None = all.
    """

    given: frozenset[str] | None = None
    objective: str = setting(
        OBJECTIVES[0],
        "[new] What the model is trained for. pretraining: masked LM and, for "
        "sentence pairs, next sentence. left_to_right: every next wordpiece, "
        "from records without masks and pairs (create_pretraining_data.py "
        "--masking=dynamic --next_sentence_prediction=false). replaced_tokens: "
        "ELECTRA, from records without masks and with --vocab_file.",
        choices=OBJECTIVES,
    )
    objectives: ObjectiveOptions = ObjectiveOptions()
    bert_config_file: str | None = optional(shared.BERT_CONFIG_FILE)
    input_file: str | None = setting(help="Record files or globs, with commas.")
    eval_file: str | None = optional(
        "[new] Records to evaluate on; --input_file if not given."
    )
    skip_bad_records: bool = switch(
        "[new] Leave out and count damaged records; else they are an error."
    )
    init_checkpoint: str | None = optional(shared.INIT_CHECKPOINT)
    first_weights: str = setting(
        FIRST_WEIGHTS[0],
        "[new] First weights of a run without --init_checkpoint. random: as "
        "the original. frequencies: the output layer's bias is the log of "
        "each wordpiece's frequency. neighbors: also, heads of the first "
        "layer attend to the wordpieces before and after.",
        choices=FIRST_WEIGHTS,
    )
    dropout_prob: float | None = optional(
        "[new] Dropout of hidden states and attention in this run, instead of "
        "--bert_config_file's, which is kept for fine-tuning. 0 = none, which "
        "is faster, and better if the text is read only a few times.",
        least=0,
        most=0.9,
    )
    max_seq_length: int = setting(128, "Wordpieces of a row of the records.")
    max_predictions_per_seq: int = setting(
        20, "Masked wordpieces of an example, as in the records."
    )
    group_by_length: bool = switch(
        "[new] Batch training examples of similar length, cut to the longest: "
        "little padding is computed. Not on a TPU, which needs one length."
    )
    separate_documents: bool = switch(
        "[new] Wordpieces attend only to their own document, in examples of "
        "create_pretraining_data.py --join_documents. It needs --vocab_file."
    )
    short_rows_share: float = share(
        0.0,
        "[new] First share of the training, with rows cut to half the length, "
        "twice the rows in a batch, twice the masks; needs --masking=dynamic.",
    )
    masking: PretrainingDataOptions | None = None
    do_train: bool = switch("Whether to train.")
    do_eval: bool = switch("Whether to evaluate.")
    eval_batch_size: int = setting(8, "Examples of one eval batch.", least=1)
    max_eval_steps: int = setting(100, "Evaluation batches.", least=1)
    do_predict: bool = switch("[new] Whether to answer --predict_file.")
    predict_file: str | None = optional(
        "[new] Lines with [MASK], or `A ||| B` to ask whether B follows A. "
        "Answers go to predict_results.jsonl."
    )
    vocab_file: str | None = optional(
        f"[new] {shared.VOCAB_FILE} For --do_predict, --do_export, "
        "--masking=dynamic, --separate_documents, --objective=replaced_tokens."
    )
    do_lower_case: bool = setting(
        True,
        f"[new] Of queries: {shared.DO_LOWER_CASE} --do_train: as its records.",
    )
    never_split: tuple[str, ...] = setting(
        (), f"{shared.NEVER_SPLIT} Of the queries and of the export."
    )
    predict_top_k: int = setting(5, "[new] Words for each [MASK].", least=1)
    do_export: bool = switch(shared.DO_EXPORT)
    strip_checkpoint: bool = switch(
        "[new] Also write bert_model.ckpt, the last checkpoint without slots."
    )
    use_one_hot_embeddings: bool = switch(f"[new] {shared.ONE_HOT}")
    train: TrainOptions = group(layerwise_lr_decay=1.0, trainable_layers=-1)
    device: DeviceOptions

    def _check(self) -> None:
        reads = self.do_train or self.do_eval
        if not (reads or self.reads_texts or self.strip_checkpoint):
            raise ValueError(
                "At least one of `do_train` or `do_eval` must be True (or "
                "--do_predict, --do_export, --strip_checkpoint)."
            )
        needs_input = self.do_train or (self.do_eval and not self.eval_file)
        if needs_input and not self.input_file:
            raise ValueError("--input_file is needed: records to read.")
        self._need("do_predict", "predict_file")
        self._need("eval_every_steps", "eval_file")
        self._need("continue_from", "do_train")
        if self.group_by_length and self.device.on_tpu:
            raise ValueError(
                "--group_by_length cuts batches to different lengths, but a "
                "TPU needs one; leave --group_by_length out."
            )
        if self.separate_documents and not reads:
            raise ValueError(
                "--separate_documents needs --do_train or --do_eval; drop it."
            )
        self.objectives.check(self.objective)
        self._check_beginning()
        self._require(*self.needed_files)

    def _check_beginning(self) -> None:
        """Refuses contradictions about what training begins with."""
        before, output_dir = self.train.continue_from, self.train.output_dir
        if self.do_train:
            self._exclude("first_weights", "init_checkpoint", "continue_from")
        if self.do_train and self.short_rows_share and not self.masking:
            raise ValueError(
                f"--short_rows_share={self.short_rows_share:g} needs "
                "--masking=dynamic, here and in create_pretraining_data.py; "
                "give it, or leave --short_rows_share out."
            )
        self._exclude("continue_from", "init_checkpoint")
        if before and os.path.normpath(before) == os.path.normpath(output_dir):
            raise ValueError(
                f"--continue_from={before} is the --output_dir, where a run "
                "resumes without it. Drop it, or give another --output_dir."
            )

    @property
    def phases(self) -> list[tuple[float, bool]]:
        """The end of each phase, as a share, and whether its rows are short."""
        share, train = self.short_rows_share, self.train
        if not share:
            return [(1.0, False)]
        ends = train.last_step <= round(share * train.num_train_steps)
        if share == 1 or (ends and not train.num_train_minutes):
            return [(1.0, True)]
        return [(share, True), (1.0, False)]

    @property
    def needed_files(self) -> tuple[str, ...]:
        """The flags of the files that the run cannot be without."""
        needs = self.reads_texts or self.needs_ids or self.separate_documents
        return ("bert_config_file", *["vocab_file"] * bool(needs))

    @property
    def reads_texts(self) -> bool:
        """Whether the run reads texts, or exports a model that does."""
        return self.do_predict or self.do_export

    @property
    def needs_ids(self) -> bool:
        """Whether the records must be made with `vocab_file`."""
        return bool(self.masking or self.objectives.tokens(self.objective))
