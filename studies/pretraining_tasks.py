"""Table 5 of the paper: what each pretraining task adds."""

from studies.engine.declaring import LEFT_TO_RIGHT, NO_PAIRS, Row, Study

STUDY = Study(
    title="What each pretraining task adds",
    source="Devlin et al., section 5.1, Table 5 (Base, dev sets)",
    question="What is lost without next sentence prediction, and what without "
    "the context on the right?",
    rows=(
        Row(
            "bert",
            "masked LM and next sentence",
            paper=(84.4, 88.4, 86.7, 92.7, 88.5),
        ),
        Row(
            "no_nsp",
            "no next sentence",
            records=NO_PAIRS,
            paper=(83.9, 84.9, 86.5, 92.6, 87.9),
        ),
        Row(
            "left_to_right",
            "left to right, no next sentence",
            paper=(82.1, 84.3, 77.5, 92.1, 77.8),
            **LEFT_TO_RIGHT,
        ),
        Row(
            "left_to_right_bilstm",
            "the same, with a BiLSTM added in fine-tuning",
            encoder="left_to_right",
            finetuning={"head": "bilstm"},
            paper=(82.1, 84.1, 75.7, 91.6, 84.9),
            **LEFT_TO_RIGHT,
        ),
    ),
    columns=("MNLI-m", "QNLI", "MRPC", "SST-2", "SQuAD F1"),
    measures=("tags", "spans", "similarity", "casing", "perplexity")
    + ("next_sentence",),
    nearest={"tags": "SQuAD F1", "spans": "SQuAD F1", "similarity": "MRPC"},
    notes=(
        "The left-to-right rows predict every wordpiece of a row and keep the "
        "left-to-right attention in fine-tuning, as in the paper.",
        "The paper does not say where its left-to-right model reads a "
        "sentence's class; here it is the last real wordpiece.",
        "The paper has no parts of speech: they stand beside its other task on "
        "single tokens, SQuAD.",
    ),
)
