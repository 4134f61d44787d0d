"""Options of run_pretraining.py."""

import dataclasses
import os

from data.pretraining.options import PretrainingDataOptions
from data.settings import Settings, group, setting
from modeling.choices import FIRST_WEIGHTS, OBJECTIVES
from training.config.objective_options import ObjectiveOptions
from training.config.options import (
    BERT_CONFIG_FILE,
    DO_LOWER_CASE,
    INIT_CHECKPOINT,
    NEVER_SPLIT,
    ONE_HOT,
    DeviceOptions,
    TrainOptions,
    check_can_be_found,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingOptions(Settings):
    """What run_pretraining.py does.

    `masking` tells how to mask records while they are read; None = they have
    masks. `given` holds the flags that the command gives; None = all.
    """

    given: frozenset[str] | None = None
    objective: str = setting(
        OBJECTIVES[0],
        "[new] What the model is trained for. pretraining: masked LM and, if "
        "the records are sentence pairs, next sentence. left_to_right: every "
        "next wordpiece, from records without masks (--masking=dynamic of "
        "create_pretraining_data.py) and without pairs "
        "(--next_sentence_prediction=false). replaced_tokens: ELECTRA, which "
        "wordpieces a generator has replaced, from records without masks and "
        "with --vocab_file. Both take no --masking here.",
        choices=OBJECTIVES,
    )
    objectives: ObjectiveOptions = ObjectiveOptions()
    bert_config_file: str | None = setting(None, BERT_CONFIG_FILE)
    input_file: str | None = setting(
        help="Record files: comma-separated paths or globs."
    )
    eval_file: str | None = setting(
        None, "[new] Records to evaluate on; --input_file if not given."
    )
    skip_bad_records: bool = setting(
        False,
        "[new] Leave out records that are damaged or cut off, and report how "
        "many; without it they are an error.",
    )
    init_checkpoint: str | None = setting(None, INIT_CHECKPOINT)
    first_weights: str = setting(
        FIRST_WEIGHTS[0],
        "[new] What a run without --init_checkpoint begins with. random: as "
        "the original. frequencies: the bias of the output layer is the log of "
        "the frequency of each wordpiece. neighbors: also, heads of the first "
        "layer attend to the wordpieces before and behind. A small model then "
        "learns words in their context from the first steps on.",
        choices=FIRST_WEIGHTS,
    )
    dropout_prob: float | None = setting(
        None,
        "[new] Dropout of hidden states and of attention in this run, instead "
        "of those in --bert_config_file. 0 = none, which is faster, and better "
        "if the text is read only a few times. The configuration that is kept "
        "beside the checkpoints, for fine-tuning, does not change.",
        least=0,
        most=0.9,
    )
    max_seq_length: int = setting(
        128, "Wordpieces of an example, as in the records."
    )
    max_predictions_per_seq: int = setting(
        20, "Masked wordpieces of an example, as in the records."
    )
    group_by_length: bool = setting(
        False,
        "[new] Put training examples of similar length into a batch, which is "
        "cut to its longest one: little time is spent on padding. Not on a "
        "TPU, which needs one length.",
    )
    separate_documents: bool = setting(
        False,
        "[new] Wordpieces attend only to those of their own document, in "
        "examples of create_pretraining_data.py --join_documents. It needs "
        "--vocab_file.",
    )
    masking: PretrainingDataOptions | None = None
    do_train: bool = setting(False, "Whether to train.")
    do_eval: bool = setting(False, "Whether to evaluate.")
    eval_batch_size: int = setting(8, "Examples of one eval batch.", least=1)
    max_eval_steps: int = setting(100, "Evaluation batches.", least=1)
    do_predict: bool = setting(False, "[new] Whether to answer --predict_file.")
    predict_file: str | None = setting(
        None,
        "[new] One query a line: a sentence with [MASK], or `A ||| B` to ask "
        "whether B follows A. Answers go to predict_results.jsonl.",
    )
    vocab_file: str | None = setting(
        None,
        "[new] Vocabulary, for --do_predict, --masking=dynamic, --do_export, "
        "--separate_documents and --objective=replaced_tokens; it is copied to "
        "--output_dir. If not given, that in --output_dir or beside "
        "--init_checkpoint.",
    )
    do_lower_case: bool = setting(
        True, f"[new] Of the queries: {DO_LOWER_CASE}"
    )
    never_split: tuple[str, ...] = setting(
        (), f"{NEVER_SPLIT} Of the queries and of the export."
    )
    predict_top_k: int = setting(5, "[new] Words for each [MASK].", least=1)
    strip_checkpoint: bool = setting(
        False,
        "[new] Also write bert_model.ckpt: the last checkpoint without "
        "optimizer slots, a third of the size.",
    )
    use_one_hot_embeddings: bool = setting(False, ONE_HOT)
    train: TrainOptions = group(layerwise_lr_decay=1.0, trainable_layers=-1)
    device: DeviceOptions

    def _check(self) -> None:
        if not (
            self.do_train
            or self.do_eval
            or self.do_predict
            or self.strip_checkpoint
        ):
            raise ValueError(
                "At least one of `do_train` or `do_eval` must be True (or "
                "--do_predict, --strip_checkpoint)."
            )
        if (self.do_train or self.do_eval) and not self.input_file:
            if self.do_train or not self.eval_file:
                raise ValueError("--input_file is needed: records to read.")
        if self.do_predict and not self.predict_file:
            raise ValueError(
                "--do_predict needs --predict_file (queries, one a line)."
            )
        self.objectives.check(self.objective)
        on_tpu = self.device.use_tpu or (
            self.device.distribution_strategy == "tpu"
        )
        if self.group_by_length and on_tpu:
            raise ValueError(
                "--group_by_length cuts batches to different lengths, but a "
                "TPU needs one; leave --group_by_length out."
            )
        if self.separate_documents and not (self.do_train or self.do_eval):
            raise ValueError(
                "--separate_documents is for --do_train and --do_eval, which "
                "read records; leave it out."
            )
        self._check_first_weights()
        check_can_be_found(self, "bert_config_file", *self.needs_vocab)
        self._check_phases()
        if self.train.eval_every_steps and not self.eval_file:
            raise ValueError(
                "--eval_every_steps needs --eval_file: records that training "
                "does not see."
            )

    @property
    def needs_vocab(self) -> tuple[str, ...]:
        """`vocab_file` if the run cannot be without it, or nothing."""
        needs = self.do_predict or self.needs_ids or self.separate_documents
        return ("vocab_file",) * bool(needs)

    @property
    def needs_ids(self) -> bool:
        """Whether the records must be made with `vocab_file`."""
        return bool(self.masking or self.objectives.tokens(self.objective))

    def _check_first_weights(self) -> None:
        """Refuses first weights for what begins otherwise."""
        if self.first_weights == FIRST_WEIGHTS[0] or not self.do_train:
            return
        flag = f"--first_weights={self.first_weights}"
        for name, other in (
            ("init_checkpoint", self.init_checkpoint),
            ("continue_from", self.train.continue_from),
        ):
            if other:
                raise ValueError(
                    f"{flag} is for weights that are random otherwise, but "
                    f"--{name}={other} gives them; drop one of the two."
                )

    def _check_phases(self) -> None:
        """Refuses contradictions about where training begins."""
        before = self.train.continue_from
        if not before:
            return
        if not self.do_train:
            raise ValueError(
                f"--continue_from={before} is for training; add --do_train, or "
                f"drop it and give --output_dir={before}."
            )
        if self.init_checkpoint:
            raise ValueError(
                f"--continue_from={before} takes weights, optimizer slots and "
                f"step, --init_checkpoint={self.init_checkpoint} weights "
                "alone; give one of them."
            )
        if os.path.normpath(before) == os.path.normpath(self.train.output_dir):
            raise ValueError(
                f"--continue_from={before} is the --output_dir; a run resumes "
                "in its own folder without this flag. Give another "
                "--output_dir, or drop the flag."
            )
