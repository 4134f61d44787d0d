"""Table 6 of the paper: how the size of the model matters."""

from studies.engine.declaring import Row, Study


def _row(paper_sizes, numbers, sizes=None, title=""):
    """A size of the paper, and the small size that stands for it."""
    paper = f"L{paper_sizes[0]}_H{paper_sizes[1]}_A{paper_sizes[2]}"
    here = "L{}_H{}_A{}".format(*sizes) if sizes else paper
    return Row(
        name=here,
        title=title or f"{paper} of the paper",
        sizes=_sizes(*sizes) if sizes else {},
        paper_sizes=_sizes(*paper_sizes),
        scales=("small", "paper") if sizes else ("paper",),
        paper=numbers,
    )


def _small(layers, hidden, heads):
    """A small size without a counterpart in the paper."""
    return Row(
        name=f"L{layers}_H{hidden}_A{heads}",
        title=f"{layers} layers x {hidden}, {heads} heads",
        sizes=_sizes(layers, hidden, heads),
        scales=("small",),
    )


def _sizes(layers, hidden, heads):
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
    rows=(
        _row(
            *((6, 768, 12), (4.68, 81.9, 84.8, 91.3), (4, 256, 4)),
            title="4 layers x 256, 4 heads (paper: 6 x 768, 12 heads)",
        ),
        _row(
            *((6, 768, 3), (5.24, 80.6, 82.2, 90.7), (4, 256, 1)),
            title="4 layers x 256, 1 head (paper: 6 x 768, 3 heads)",
        ),
        _row(
            *((3, 768, 12), (5.84, 77.9, 79.8, 88.4), (2, 256, 4)),
            title="2 layers x 256, 4 heads (paper: 3 x 768, 12 heads)",
        ),
        _small(4, 128, 2),
        _small(2, 128, 2),
        _row((12, 768, 12), (3.99, 84.4, 86.7, 92.9)),
        _row((12, 1024, 16), (3.54, 85.7, 86.9, 93.3)),
        _row((24, 1024, 16), (3.23, 86.6, 87.8, 93.7)),
    ),
    columns=("LM (ppl)", "MNLI-m", "MRPC", "SST-2"),
    measures=("perplexity", "tags", "similarity", "casing", "next_sentence"),
    nearest={"perplexity": "LM (ppl)", "similarity": "MRPC"},
    num_steps=1000,
)
