"""`modeling.load(FOLDER)`: a model with its weights and its tokenizer."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from data.text import vocabulary
from data.text.tokenization import FullTokenizer
from data.text.tokenizer_files import read_settings
from modeling import checkpoints, objectives
from modeling.bert import BertModel
from modeling.checkpoints import LoadReport, huggingface
from modeling.checkpoints.model_folder import ModelFolder, find
from modeling.checkpoints.vector_form import VectorForm, read_max_seq_length
from modeling.choices import require_one_of
from modeling.config import BertConfig
from modeling.layers import loaded_later

ENCODER, PRETRAINING, SPAN = "encoder", "pretraining", "span"
VECTORS = "vectors"
# Kind -> name of its objective.
_OBJECTIVES = {
    PRETRAINING: "pretraining",
    **dict.fromkeys(huggingface.TASKS, "tasks"),
    SPAN: "spans",
    VECTORS: "sentence_vectors",
}
KINDS = (ENCODER, *_OBJECTIVES)
_Shapes = Mapping[str, Any]  # of variables
# Any of these variables shows the kind of a model.
_HEADS = {
    SPAN: ("cls/squad/output_weights",),
    PRETRAINING: (
        "cls/predictions/output_bias",
        "cls/seq_relationship/output_weights",
    ),
}
_OUTPUT = "output_weights"


@dataclasses.dataclass(frozen=True, kw_only=True)
class LoadedModel:
    """A model of a folder, with all that its use needs.

    Attributes:
      kind: `encoder`; `pretraining`; a kind of `TaskModel`, such as
        `classification`; `span`, for answers to questions; or `vectors`, for
        a vector of each text.
      model: a `BertModel`, `PretrainingModel`, `TaskModel`, `SpanModel` or
        `SentenceEncoder`.
      encoder: the model's `BertModel`.
      config: its sizes.
      tokenizer: with the folder's vocabulary. A `pretraining` model's tokenizer
        leaves `[MASK]` whole.
      labels: names of the labels in the order of their ids; None = the model
        has none, or the folder does not name them.
      report: which variables were loaded.
      max_seq_length: most wordpieces of a row in its training; None = the
        folder does not say.
      description: the content of `task.json`, which our runs write; None = the
        folder has none.
      folder: its path; for trials, the chosen trial's folder.
    """

    kind: str
    model: Any
    encoder: BertModel
    config: BertConfig
    tokenizer: FullTokenizer
    labels: list[str] | None
    report: LoadReport
    max_seq_length: int | None
    description: Mapping[str, Any] | None
    folder: str


def load(
    folder: str,
    *,
    kind: str | None = None,
    num_choices: int | None = None,
    vocab_file: str | None = None,
    do_lower_case: bool | None = None,
    dtype: str = "float32",
    **options: Any,
) -> LoadedModel:
    """Loads a model from a folder of the original, Hugging Face or a run.

    Example:
      loaded = modeling.load("/models/uncased_L-12_H-768_A-12")
      loaded.tokenizer.tokenize("Hello world")
      print(loaded.report)

    Args:
      folder: see `checkpoints.model_folder.find`.
      kind: what the model is for, see `LoadedModel`; None = what the folder
        says. `encoder` leaves heads aside.
      num_choices: choices of an example, for a multiple-choice model of Hugging
        Face, which does not say.
      vocab_file: path of the vocabulary; None = the folder's.
      do_lower_case: whether text is lower-cased; None = what the folder says,
        else whether the vocabulary has no capitals and no accents.
      dtype: `float32`, `mixed_bfloat16` or `mixed_float16`.
      **options: other arguments of `BertModel` but `name` and `output_key`.

    Raises:
      FileNotFoundError: the folder has no model, or a file of it is missing.
      ValueError: the folder holds several models, one of an unknown kind, or
        files that are damaged or do not fit each other; or `num_choices` is
        given for a model of another kind.
    """
    if wrong := {"name", "output_key"} & options.keys():
        raise ValueError(f"{min(wrong)} is for BertModel.from_folder alone.")
    found = find(folder)
    config = found.read_config()
    checkpoint = checkpoints.open_checkpoint(found.weights)
    kind = kind or _kind_of(found, checkpoint.shapes)
    if num_choices is not None and kind != "choice":
        raise ValueError(
            f"num_choices={num_choices} is for a model of the kind choice, but "
            f"{found.path} is of the kind {kind}; leave it out."
        )
    labels = _labels(found, kind, checkpoint.shapes, num_choices)
    tokenizer = tokenizer_of(found, kind, config, vocab_file, do_lower_case)
    make = BertModel if kind == ENCODER else objectives.get(_OBJECTIVES[kind])
    arguments = _arguments(found, kind, checkpoint.shapes, num_choices)
    with loaded_later(checkpoint.shapes):
        model = make(config, dtype=dtype, **arguments, **options)
    return LoadedModel(
        kind=kind,
        model=model,
        encoder=getattr(model, "bert", model),
        config=config,
        tokenizer=tokenizer,
        labels=labels,
        report=_assign(checkpoint, kind, model),
        max_seq_length=max_seq_length_of(found, config),
        description=found.description,
        folder=found.path,
    )


def max_seq_length_of(found: ModelFolder, config: BertConfig) -> int | None:
    """Returns the most wordpieces of a row; None = no file says it."""
    length = (found.description or {}).get("max_seq_length")
    said = read_max_seq_length(found.path)
    # In Hugging Face's folder others may have changed theirs since.
    if said and (found.is_huggingface or not length):
        # A file of a tokenizer may say more than the model has.
        length = min(said, config.max_position_embeddings)
    return length


def _kind_of(found: ModelFolder, shapes: _Shapes) -> str:
    """Returns the kind that the files say, or that the variables show."""
    if found.kind:
        return found.kind
    if VectorForm.find(found.path):
        return VECTORS
    for kind, names in _HEADS.items():
        if any(name in shapes for name in names):
            return kind
    if _OUTPUT in shapes:
        raise ValueError(
            f"{found.weights} has an output layer of {shapes[_OUTPUT][0]} rows "
            "that does not say what it answers; pass kind=, one of "
            f"{', '.join(huggingface.TASKS)} (ask.py: --kind), or {ENCODER}."
        )
    if larger := huggingface.larger_head(shapes):
        raise ValueError(
            f"{found.weights} is an ELECTRA whose head ({larger}) has one more "
            f"dense layer than ours; pass kind='{ENCODER}' to ignore the head."
        )
    return ENCODER


def _arguments(
    found: ModelFolder, kind: str, shapes: _Shapes, num_choices: int | None
) -> dict[str, Any]:
    """Returns the arguments of an objective beside the encoder's."""
    if kind == VECTORS:
        return {"form": VectorForm.find(found.path) or VectorForm()}
    if kind == SPAN and found.head:
        return {"head": found.head["head"]}
    if kind not in huggingface.TASKS:
        return {}
    if found.description and found.kind == kind:
        return dict(found.description["model"])
    size = num_choices if kind == "choice" else shapes.get(_OUTPUT, (0,))[0]
    if not size and kind == "choice":
        raise ValueError(
            f"{found.weights} does not say how many choices an example has; "
            "pass num_choices= (ask.py: --num_choices)."
        )
    return {"kind": kind, "num_labels": size, **found.head}


def _labels(
    found: ModelFolder, kind: str, shapes: _Shapes, num_choices: int | None
) -> list[str] | None:
    """Returns the names of a model's labels, if it has any."""
    require_one_of(KINDS, f"{found.path}: its kind of model is", kind)
    if kind not in huggingface.TASKS:
        return None
    if _OUTPUT not in shapes:
        raise _lacks(found.weights, kind, _OUTPUT)
    labels = list((found.description or {}).get("labels") or found.labels)
    if kind == "regression" or not labels:
        return None
    expected = shapes[_OUTPUT][0]
    but = f"the output layer of {found.weights} has {expected};"
    if kind == "choice":
        # Transformers writes two of these if the user gave no names.
        if labels == huggingface.numbered(len(labels)):
            return None
        expected = num_choices or len(labels)
        but = f"num_choices is {expected}; pass num_choices={len(labels)}, or"
    if len(labels) != expected:
        raise ValueError(
            f"{found.path} names {len(labels)} labels ({', '.join(labels)}), "
            f"but {but} correct the names."
        )
    return labels


def tokenizer_of(
    found: ModelFolder,
    kind: str,
    config: BertConfig,
    vocab_file: str | None = None,
    do_lower_case: bool | None = None,
) -> FullTokenizer:
    """Returns the tokenizer, if its vocabulary fits the model."""
    path = vocab_file or found.vocab_file
    if not path:
        raise FileNotFoundError(
            f"{found.path} has no vocab.txt and no tokenizer.json; pass "
            "vocab_file= (--vocab_file), or take BertModel.from_folder alone."
        )
    vocab = vocabulary.load_vocab(path)
    if vocab_file and found.vocab_file and found.description:
        vocabulary.require_same(found.vocab_file, vocab_file)
    vocabulary.require_tokens(vocab, ("[UNK]", "[CLS]", "[SEP]"), path)
    vocabulary.require_size(vocab, path, config.vocab_size, found.config_file)
    settings = read_settings(found.path, found.facts)
    lower = settings.lower_case(do_lower_case, vocab)
    # Not twice: a run of run_pretraining.py may name [MASK], too.
    whole = dict.fromkeys(("[MASK]",) if kind == PRETRAINING else ())
    whole |= dict.fromkeys(settings.never_split)
    return FullTokenizer(path, lower, never_split=list(whole))


def _assign(checkpoint: Any, kind: str, model: Any) -> LoadReport:
    """Assigns the weights; refuses a model without its head's weights."""
    layers = [model] if kind == ENCODER else model.layers
    variables = checkpoints.variables_by_name(layers)
    report = checkpoints.require_fit(checkpoint, variables)
    heads = report.missing
    if not getattr(model, "reads_pooler", False):
        heads = [n for n in heads if not checkpoints.is_of_encoder(n)]
    # A model of Hugging Face may have one of both heads of pretraining.
    is_pretrained = any(name in report.loaded for name in _HEADS[PRETRAINING])
    if heads and not is_pretrained:
        raise _lacks(checkpoint.prefix, kind, heads[0])
    checkpoints.assign(checkpoint, {n: variables[n] for n in report.loaded})
    report.log()
    return report


def _lacks(weights: str, kind: str, name: str) -> ValueError:
    """The error for weights without a variable of the head."""
    return ValueError(
        f"{weights} is no {kind} model: it has no {name}. Pass kind=, or the "
        "folder of a model that was trained for this."
    )
