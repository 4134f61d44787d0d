"""What is measured, by which program and with which flags."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from studies.engine.declaring import Row
from studies.engine.scales import LENGTH

HELD_OUT, SPANS = "held_out", "spans"


@dataclasses.dataclass(frozen=True)
class Measure:
    """One number of a row, with its title in the report.

    `run` gives it: `held_out` (run_pretraining.py), `spans` (run_squad.py) or a
    task of run_classifier.py. `metric` is its name among the results, which the
    report multiplies by `factor`. `needs` is the flag of the data; "" = the
    text is enough. `flags` are the program's, beside those of every run.
    """

    title: str
    run: str
    metric: str
    needs: str = ""
    factor: float = 100.0
    less_is_better: bool = False
    flags: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def applies(self, row: Row) -> bool:
        """Whether a row has this number.

        Perplexities of different objectives measure different predictions, and
        the labels of sentence order are not those of next sentences.
        """
        if self.run != HELD_OUT:
            return True
        if row.pretraining.get("objective", "pretraining") != "pretraining":
            return False
        return self.metric != "next_sentence_accuracy" or not (
            row.records.get("next_sentence_prediction") is False
            or row.records.get("sentence_order_prediction")
        )


# Fine-tuning at the small scale: rates for 2 to 4 layers, as those that were
# searched for the smallest released models.
FINETUNING = {
    "max_seq_length": LENGTH,
    "train_batch_size": 32,
    "eval_batch_size": 64,
    "predict_batch_size": 64,
    "learning_rate": 5e-4,
    "group_by_length": True,
    "strip_checkpoint": True,
}
FROZEN = {"head": "bilstm", "learning_rate": 3e-3}
_SPANS = {"num_train_epochs": 2.0, "doc_stride": 32, "max_query_length": 24}


def _tagging(title: str, run: str, needs: str = "", **flags: Any) -> Measure:
    """A task with a label for each word."""
    flags = {"num_train_epochs": 5.0, **flags}
    return Measure(title, run, "token_accuracy", needs, flags=flags)


_OF_FEATURES = {**FROZEN, "feature_based": "concat_last_four"}
_THE_SAME = "the same, of a BiLSTM on the frozen encoder"
MEASURES = {
    "perplexity": Measure(
        title="perplexity of masked words in held-out text",
        run=HELD_OUT,
        metric="masked_lm_perplexity",
        factor=1.0,
        less_is_better=True,
    ),
    "next_sentence": Measure(
        title="accuracy of next sentence in held-out text",
        run=HELD_OUT,
        metric="next_sentence_accuracy",
    ),
    "casing": _tagging(
        "accuracy of each word's casing, from the text alone", "casing"
    ),
    "casing_frozen": _tagging(_THE_SAME, "casing_frozen", **_OF_FEATURES),
    "tags": _tagging("accuracy of parts of speech", "tags", "conllu_dir"),
    "tags_frozen": _tagging(
        _THE_SAME, "tags_frozen", "conllu_dir", **_OF_FEATURES
    ),
    "spans": Measure(
        title="F1 of answers to questions (SQuAD 1.1)",
        run=SPANS,
        metric="f1",
        needs="squad_dir",
        factor=1.0,
        flags=_SPANS,
    ),
    "similarity": Measure(
        title="Spearman correlation of similarity (STS-B)",
        run="similarity",
        metric="spearman",
        needs="glue_dir",
        flags={"num_train_epochs": 4.0},
    ),
}
