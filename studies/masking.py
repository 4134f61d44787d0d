"""Table 8 of the paper: what takes the place of a masked word."""

from studies.engine.declaring import Row, Study


def _mix(mask, same, random, *numbers):
    name = f"mask{mask}_same{same}_random{random}"
    title = f"{mask} % [MASK], {same} % the same, {random} % random"
    masking = {"mask_token_prob": mask / 100, "random_token_prob": random / 100}
    return Row(name, title, masking=masking, paper=numbers)


STUDY = Study(
    title="What takes the place of a masked word",
    source="Devlin et al., appendix C.2, Table 8 (Base, dev sets)",
    question="[MASK] never occurs in fine-tuning: does it help to leave some "
    "words as they are, or to put random ones?",
    rows=(
        _mix(80, 10, 10, 84.2, 95.4, 94.9),
        _mix(100, 0, 0, 84.3, 94.9, 94.0),
        _mix(80, 0, 20, 84.1, 95.2, 94.6),
        _mix(80, 20, 0, 84.4, 95.2, 94.7),
        _mix(0, 20, 80, 83.7, 94.8, 94.6),
        _mix(0, 0, 100, 83.6, 94.9, 94.6),
    ),
    columns=("MNLI", "NER fine-tuned", "NER features"),
    measures=("tags", "tags_frozen", "casing", "casing_frozen", "perplexity"),
    nearest={"tags": "NER fine-tuned", "tags_frozen": "NER features"},
    notes=(
        "The held-out text is masked 80/10/10 for every row.",
        "The features are the last four layers, concatenated, so the model has "
        "four.",
        "The paper's numbers differ by 0.9 at most; expect few clear signs.",
    ),
    num_steps=1000,
    sizes={"num_hidden_layers": 4},
)
