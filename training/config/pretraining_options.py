"""What run_pretraining.py is told; no TensorFlow: see `finetuning_options`."""

import dataclasses
import os

from data.pretraining.options import PretrainingDataOptions
from training.config.options import DeviceOptions, TrainOptions


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingOptions:
    """What run_pretraining.py does.

    Attributes:
      bert_config_file: JSON file with the model's sizes.
      input_file: files or globs of records; for evaluation too, unless
        eval_file says otherwise.
      eval_file: records to evaluate on.
      skip_bad_records: leave out what is damaged of either.
      init_checkpoint: weights to start from, or None.
      max_seq_length: wordpieces of an example; as the records were made.
      max_predictions_per_seq: masked wordpieces of an example; likewise.
      masking: how to mask records while they are read; None = they have
        masks.
      do_train: train.
      do_eval: evaluate the last checkpoint.
      eval_batch_size: examples of one evaluation batch.
      max_eval_steps: evaluation batches.
      do_predict: answer the queries of predict_file.
      predict_file: text file, see `query_lines.read_queries`.
      vocab_file: vocabulary, for queries and masking.
      do_lower_case: casing of the vocabulary, for queries.
      predict_top_k: words for each [MASK].
      strip_checkpoint: write the last checkpoint without optimizer slots.
      use_one_hot_embeddings: look words up by matrix product (TPU).
      train: options of the loop.
      device: options of the device.
    """

    bert_config_file: str
    input_file: str | None
    eval_file: str | None = None
    skip_bad_records: bool = False
    init_checkpoint: str | None = None
    max_seq_length: int = 128
    max_predictions_per_seq: int = 20
    masking: PretrainingDataOptions | None = None
    do_train: bool = False
    do_eval: bool = False
    eval_batch_size: int = 8
    max_eval_steps: int = 100
    do_predict: bool = False
    predict_file: str | None = None
    vocab_file: str | None = None
    do_lower_case: bool = True
    predict_top_k: int = 5
    strip_checkpoint: bool = False
    use_one_hot_embeddings: bool = False
    train: TrainOptions
    device: DeviceOptions

    def __post_init__(self):
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
        if self.do_predict and not (self.predict_file and self.vocab_file):
            raise ValueError(
                "--do_predict needs --predict_file (queries, one a line) "
                "and --vocab_file."
            )
        if self.masking and not self.vocab_file:
            raise ValueError(
                "--masking=dynamic needs --vocab_file: the vocabulary that the "
                "records were made with."
            )
        for name in ("eval_batch_size", "max_eval_steps", "predict_top_k"):
            if getattr(self, name) < 1:
                raise ValueError(
                    f"--{name}={getattr(self, name)}; it must be at least 1."
                )
        self._check_phases()
        if self.train.eval_every_steps and not self.eval_file:
            raise ValueError(
                "--eval_every_steps needs --eval_file: records that training "
                "does not see."
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
                f"--continue_from={before} is the --output_dir; a run goes on "
                "in its own folder by itself. Give another --output_dir, or "
                "drop the flag."
            )
