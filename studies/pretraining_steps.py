"""Figure 5 of the paper: how long pretraining pays."""

from studies.engine.declaring import LEFT_TO_RIGHT, Row, Study

_PARTS = 6


def _rows(name, line, **settings):
    """A row for each checkpoint; the last one, the whole run, comes first."""
    for part in range(_PARTS, 0, -1):
        is_whole = part == _PARTS
        yield Row(
            name if is_whole else f"{name}_{part}_of_{_PARTS}",
            f"{line}, {part}/{_PARTS} of the steps",
            encoder="" if is_whole else name,
            share=part / _PARTS,
            line=line,
            **settings,
        )


STUDY = Study(
    title="How long pretraining pays",
    source="Devlin et al., appendix C.1, Figure 5 (Base, MNLI dev)",
    question="Does more pretraining still help, and is the masked LM slower "
    "than the left-to-right LM, because it predicts fewer words?",
    rows=(
        *_rows("masked_lm", "masked LM"),
        *_rows("left_to_right", "left to right", **LEFT_TO_RIGHT),
    ),
    columns=("MNLI-m",),
    measures=("tags", "similarity", "casing", "perplexity"),
    notes=(
        "The figure has no table of numbers. In its text, Base gains almost "
        "1.0 % on MNLI from 500K to 1M steps, and the masked LM is ahead of "
        "the left-to-right model almost immediately.",
        "All checkpoints of a line are of one run, whose learning rate falls "
        "to 0 at its end.",
    ),
)
