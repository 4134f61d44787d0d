"""Later work: masked words or replaced words, in equal time."""

from studies.engine.declaring import NO_PAIRS, Row, Study

STUDY = Study(
    title="Masked words or replaced words",
    source="Clark et al. (ELECTRA, arXiv:2003.10555), Tables 1, 5 (GLUE dev)",
    question="Is it better to find replaced words among all words than to "
    "predict the 15 % that are masked, in the same time?",
    rows=(
        Row("masked_lm", "masked LM", records=NO_PAIRS, paper=(75.1, 82.2)),
        Row(
            "replaced_tokens",
            "replaced words (ELECTRA)",
            records=NO_PAIRS,
            pretraining={"objective": "replaced_tokens"},
            paper=(79.9, 85.0),
        ),
    ),
    columns=("GLUE, small", "GLUE, base"),
    measures=("tags", "similarity", "spans", "casing"),
    nearest={"tags": "GLUE, small", "similarity": "GLUE, small"},
    notes=(
        "Both rows train for the same number of minutes. The paper compares "
        "at equal arithmetic, and its smallest run has hundreds of times as "
        "much.",
    ),
    minutes=8.0,
)
