"""Later work: next sentence, sentence order, or neither."""

from studies.engine.declaring import NO_PAIRS, Row, Study

STUDY = Study(
    title="Next sentence, sentence order, or neither",
    source="Lan et al. (ALBERT, arXiv:1909.11942), Table 5",
    question="Does the model need a task on pairs of sentences, and which one?",
    rows=(
        Row("next_sentence", "next sentence (BERT)", paper=(77.2, 62.3, 79.2)),
        Row(
            "sentence_order",
            "sentence order (ALBERT)",
            records={"sentence_order_prediction": True},
            paper=(80.0, 64.0, 80.1),
        ),
        Row("none", "none", records=NO_PAIRS, paper=(78.1, 61.7, 79.0)),
        Row(
            "full_rows",
            "none, rows as full as the text allows (RoBERTa)",
            records=NO_PAIRS | {"short_seq_prob": 0.0},
        ),
    ),
    columns=("SQuAD 2.0 F1", "RACE", "mean"),
    measures=("similarity", "spans", "tags", "casing", "perplexity"),
    nearest={"spans": "SQuAD 2.0 F1", "similarity": "mean"},
    notes=(
        "Rows without a task on pairs are runs of consecutive sentences of one "
        "document; a tenth of the passes of `none` is cut short, as in BERT.",
        "Half of the pairs of `next_sentence` have a random second segment, "
        "which makes its perplexity higher by itself.",
    ),
)
