"""Table 7 of the paper: a frozen encoder against fine-tuning."""

from studies.engine.declaring import Row, Study
from studies.engine.measures import FROZEN

_COLUMN = "NER, dev F1"


def _frozen(mix, title, *numbers):
    own = FROZEN | {"feature_based": mix}
    return Row(mix, title, encoder="fine_tuning", finetuning=own, paper=numbers)


STUDY = Study(
    title="A frozen encoder against fine-tuning",
    source="Devlin et al., section 5.3, Table 7 (Base, CoNLL-2003, 5 restarts)",
    question="Which layers of a frozen encoder hold what a tagger needs, and "
    "how much is lost without fine-tuning?",
    rows=(
        Row("fine_tuning", "fine-tuning", paper=(96.4,)),
        _frozen("embeddings", "embeddings", 91.0),
        _frozen("second_to_last", "second to last layer", 95.6),
        _frozen("last", "last layer", 94.9),
        _frozen("sum_last_four", "sum of the last four"),
        _frozen("weighted_last_four", "weighted sum of the last four", 95.9),
        _frozen("concat_last_four", "last four concatenated", 96.1),
        _frozen("weighted_all", "weighted sum of all layers", 95.5),
    ),
    columns=(_COLUMN,),
    measures=("tags", "casing"),
    nearest={"tags": _COLUMN},
    notes=(
        "A BiLSTM of two layers, as wide as the encoder, reads the features.",
        "The paper labels names in CoNLL-2003, with the sentences around. The "
        "paper has no sum without weights.",
    ),
    sizes={"num_hidden_layers": 4},
    takes_model=True,
)
