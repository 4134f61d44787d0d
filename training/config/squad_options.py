"""Options of run_squad.py."""

from data.settings import group, optional, setting, switch
from data.squad import window_options
from data.squad.articles import SquadData
from modeling.choices import WORD_HEADS
from training.config.distill_options import DistillOptions
from training.config.finetuning_options import FinetuningOptions, TaskRunOptions


class SquadOptions(TaskRunOptions):
    """Options of run_squad.py."""

    train_file: str | None = optional("SQuAD's JSON to train on.")
    predict_file: str | None = optional("SQuAD's JSON to answer, and to score.")
    tfds: str | None = optional(
        "[new] Name in tensorflow-datasets, as squad/v2.0; replaces both files."
    )
    tfds_data_dir: str | None = optional("[new] Folder of tensorflow-datasets.")
    do_predict: bool = switch("Whether to answer --predict_file.")
    find_null_threshold: bool = switch(
        "[new] Find and save the null_score_diff_threshold with the best F1."
    )
    count_windows: bool = switch("[new] Epochs count windows, not questions.")
    score_padding: bool = switch(
        "[new] Include padding in the loss and among the best starts and ends, "
        "as the original; batches are not trimmed."
    )
    write_html: bool = switch("[new] Write predictions.html, answers marked.")
    verbose_logging: bool = switch("Has no effect.")
    head: str = setting(
        "linear",
        "[new] After the encoder: linear, or bilstm (two layers, then linear).",
        choices=WORD_HEADS,
    )
    distillation: DistillOptions = group(DistillOptions(), unlabeled_file="")
    # Evaluation is prediction, in batches of predict_batch_size.
    finetuning: FinetuningOptions = group(eval_batch_size=8)
    # `finetuning` has its max_seq_length.
    windows: window_options.WindowOptions
    # A threshold of None is the one saved in output_dir, or 0.
    answers: window_options.AnswerOptions

    def _check(self) -> None:
        # The checks and words of the original's validate_flags_or_throw.
        needed = (
            ("do_train", self.do_train, "train_file"),
            ("do_predict", self.do_predict, "predict_file"),
            ("eval_every_steps", self.watches, "predict_file"),
        )
        if not (self.do_train or self.do_predict or self.do_export):
            raise ValueError(
                "At least one of `do_train` or `do_predict` must be True."
            )
        for why, is_asked, name in needed:
            if is_asked and not (self.tfds or getattr(self, name)):
                raise ValueError(
                    f"If `{why}` is True, then `{name}` must be specified."
                )
        self._exclude("tfds", "train_file", "predict_file")
        super()._check()
        self._need("write_html", "do_predict")
        window_options.check_null_threshold(self, "do_predict")

    @property
    def train_data(self) -> SquadData | None:
        """The questions to train on; None = do not train."""
        return self._data(self.train_file, "train") if self.do_train else None

    @property
    def predict_data(self) -> SquadData | None:
        """The questions to answer or to evaluate on; None = none."""
        asks = self.do_predict or self.watches
        return self._data(self.predict_file, "validation") if asks else None

    def _data(self, path: str | None, split: str) -> SquadData:
        return SquadData(path or "", self.tfds or "", self.tfds_data_dir, split)
