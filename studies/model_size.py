"""Table 6 of the paper: how the size of the model matters."""

from studies.engine.declaring import Row, Study

# Layers, hidden size and heads of a small model; those of the paper's model
# for which it stands; the paper's numbers.
_SIZES = (
    ((4, 256, 4), (6, 768, 12), (4.68, 81.9, 84.8, 91.3)),
    ((4, 256, 1), (6, 768, 3), (5.24, 80.6, 82.2, 90.7)),
    ((2, 256, 4), (3, 768, 12), (5.84, 77.9, 79.8, 88.4)),
    ((4, 128, 2), None, ()),
    ((2, 128, 2), None, ()),
    (None, (12, 768, 12), (3.99, 84.4, 86.7, 92.9)),
    (None, (12, 1024, 16), (3.54, 85.7, 86.9, 93.3)),
    (None, (24, 1024, 16), (3.23, 86.6, 87.8, 93.7)),
)


def _row(here, of_paper, numbers):
    layers, hidden, heads = here or of_paper
    title = f"{layers} layers x {hidden}, {heads} head{'s' * (heads > 1)}"
    if here and of_paper:
        title += " (paper: {} x {}, {} heads)".format(*of_paper)
    scales = {"small": here, "paper": of_paper}
    return Row(
        f"L{layers}_H{hidden}_A{heads}",
        title,
        sizes=_members(*here) if here else {},
        paper_sizes=_members(*of_paper) if of_paper else {},
        scales=tuple(scale for scale, sizes in scales.items() if sizes),
        paper=numbers,
    )


def _members(layers, hidden, heads):
    """The sizes as members of bert_config.json."""
    return {
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "intermediate_size": 4 * hidden,
    }


STUDY = Study(
    title="How the size of the model matters",
    source="Devlin et al., section 5.2, Table 6 (dev sets, mean of 5 restarts)",
    question="Do deeper and wider models predict and learn better?",
    rows=tuple(_row(*sizes) for sizes in _SIZES),
    columns=("LM (ppl)", "MNLI-m", "MRPC", "SST-2"),
    measures=("perplexity", "tags", "similarity", "casing", "next_sentence"),
    nearest={"perplexity": "LM (ppl)", "similarity": "MRPC"},
    num_steps=1000,
)
