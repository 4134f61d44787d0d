"""Signatures of a model that `modeling.load` has loaded."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from data.calibration import KINDS as CALIBRATED
from data.settings import check_names, names_of
from data.squad.window_options import AnswerOptions, WindowOptions
from data.tasks.task import KINDS
from modeling.embeddings import require_pairs
from modeling.loading import LoadedModel
from training.export.pretraining_signatures import PretrainingServing
from training.export.serving import Serving
from training.export.span_signatures import SpanServing
from training.export.task_signatures import TaskServing
from training.export.vector_signatures import VectorServing
from training.finetuning import calibrating, explaining
from training.start import description

TOP_K = 5
_SERVINGS = (PretrainingServing, SpanServing, TaskServing, VectorServing)
_PAIRS = ("span", "choice")  # whose rows have two texts


def signatures_of(
    loaded: LoadedModel, use_calibration: bool = True, **settings: Any
) -> dict[str, Callable[..., Any]]:
    """Returns the signatures that an export of the model would have.

    The model is not an encoder alone. `settings` are fields of its description,
    with other values than the model's run used, such as `top_k`. The
    signatures' names are in the table of `Serving`. Raises ValueError if a
    setting for questions is unknown, a value is out of bounds, or the model
    would fill masks without the words after them.
    """
    if loaded.kind == "span":
        known = names_of(WindowOptions) | names_of(AnswerOptions)
        names = ", ".join(sorted(known))
        check_names(settings, known, f"a model of the kind span takes {names}")
    if loaded.kind == "pretraining" and loaded.config.left_to_right:
        raise ValueError(
            f"{loaded.report.source} reads left to right (left_to_right in its "
            "bert_config.json): at a [MASK] it does not see the words after "
            "it. Use its vectors (encode), or load a masked LM."
        )
    top_k, most = settings.get("top_k"), loaded.config.vocab_size
    if top_k is not None and not 1 <= top_k <= most:
        raise ValueError(f"top_k is {top_k}, expected 1 to {most}.")
    described = dataclasses.replace(describe(loaded), **settings)
    if described.kind in _PAIRS or getattr(described, "is_pair", False):
        require_pairs(loaded.config, f"{loaded.folder} ({described.kind})")
    return serving_of(loaded, described, use_calibration).signatures


def serving_of(
    loaded: LoadedModel,
    described: description.Description,
    use_calibration: bool,
) -> Serving:
    """Makes what a client can call, with the calibration in the folder."""
    found = None
    if use_calibration and described.kind in CALIBRATED:
        weights = loaded.report.source
        found = calibrating.find(loaded.folder, weights, loaded.model)
    (serving,) = (cls for cls in _SERVINGS if described.kind in cls.kinds)
    return serving(loaded.model, described, loaded.tokenizer.vocab, found)


def explain(
    loaded: LoadedModel,
    text: Any,
    label: str | None,
    answer: Mapping[str, Any],
    max_seq_length: int,
) -> dict[str, Any]:
    """Explains a text's label as `Model.explain` of bert.py says.

    `answer` is what `Model.predict` says of the text, None as `label` = its
    label. Raises ValueError for a model of another kind and an unknown label.
    """
    said = dataclasses.replace(describe(loaded), max_seq_length=max_seq_length)
    explainer = explaining.Explainer(loaded.model, loaded.tokenizer.vocab, said)
    labels = [*answer["probabilities"]]
    if label is None:
        best = max(labels, key=answer["probabilities"].get)
        label = answer.get("label", best)
    if label not in labels:
        raise ValueError(
            f"label is {label!r}, but the labels of {loaded.folder} are "
            f"{', '.join(labels)}."
        )
    texts = (text,) if isinstance(text, str) else tuple(text)
    found = explainer.explain(texts, labels.index(label))
    names = ("text", "start", "end", "value")
    words = [dict(zip(names, word, strict=True)) for word in found.words]
    for word in words:
        word["word"] = texts[word["text"]][word["start"] : word["end"]]
    scores = {"score": found.score, "baseline": found.baseline}
    return {"label": label, **scores, "words": words}


def describe(loaded: LoadedModel) -> description.Description:
    """Describes a model as its run did, else by the programs' defaults.

    Raises ValueError if `task.json` was written by another version.
    """
    facts = dict(loaded.description or _usual(loaded))
    facts["do_lower_case"] = loaded.tokenizer.basic_tokenizer.do_lower_case
    facts["never_split"] = loaded.tokenizer.never_split
    return description.of_facts(facts, loaded.folder)


def _usual(loaded: LoadedModel) -> dict[str, Any]:
    """Returns the programs' defaults for a model that no run describes."""
    kind, most = loaded.kind, loaded.config.max_position_embeddings
    facts = {"task_name": kind, "kind": kind, "model": {}, "weights": ""}
    facts["max_seq_length"] = loaded.max_seq_length or most
    if kind == "span":
        facts |= dataclasses.asdict(WindowOptions())
        facts |= dataclasses.asdict(AnswerOptions())
        facts["max_seq_length"] = min(facts["max_seq_length"], most)
    elif kind in KINDS:
        labels = loaded.labels or map(str, range(loaded.model.num_labels))
        facts["labels"] = () if kind == "regression" else labels
    else:
        facts |= {"top_k": TOP_K} if kind == "pretraining" else {"data": {}}
    return facts
