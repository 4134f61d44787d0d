"""Signatures of a model that `modeling.load` has loaded."""

import dataclasses
from collections.abc import Callable
from typing import Any

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
from training.finetuning import calibrating
from training.start.description import Description, of_facts
from training.start.setup import check_length

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
    setting for questions is unknown or a value is out of bounds.
    """
    if loaded.kind == "span":
        known = names_of(WindowOptions) | names_of(AnswerOptions)
        names = ", ".join(sorted(known))
        check_names(settings, known, f"a model of the kind span takes {names}")
    top_k, most = settings.get("top_k"), loaded.config.vocab_size
    if isinstance(top_k, float) or top_k not in (None, *range(1, most + 1)):
        raise ValueError(f"top_k is {top_k!r}, expected 1, 2, ... {most}.")
    described = describe(loaded, **settings)
    if described.kind == "span":
        described.windows.check_room()
    check_length(described.max_seq_length, loaded.config, loaded.folder)
    if described.kind in _PAIRS or getattr(described, "is_pair", False):
        require_pairs(loaded.config, f"{loaded.folder} ({described.kind})")
    return serving_of(loaded, described, use_calibration).signatures


def serving_of(
    loaded: LoadedModel, described: Description, use_calibration: bool
) -> Serving:
    """Makes what a client can call, with the calibration in the folder."""
    found, weights = None, loaded.report.source
    if use_calibration:
        found = calibrating.find(loaded.folder, weights, loaded.model)
    (serving,) = (cls for cls in _SERVINGS if described.kind in cls.kinds)
    return serving(loaded.model, described, loaded.tokenizer.vocab, found)


def describe(loaded: LoadedModel, **settings: Any) -> Description:
    """Describes a model as its run did, else by the programs' defaults.

    `settings` replace fields; the usual stride is that of the new length.
    Raises ValueError if `task.json` was written by another version, or says
    another kind than the one that the model was loaded as.
    """
    facts = dict(loaded.description or _usual(loaded))
    if facts["kind"] != loaded.kind:
        raise ValueError(
            f"kind is {loaded.kind}, but {loaded.folder}/task.json says "
            f"{facts['kind']}; leave kind out."
        )
    facts["do_lower_case"] = loaded.tokenizer.basic_tokenizer.do_lower_case
    facts["never_split"] = loaded.tokenizer.never_split
    described = of_facts(facts, loaded.folder)
    if long_text := described.options().get("long_text"):
        length = settings.get("max_seq_length", described.max_seq_length)
        settings["stride"] = long_text.stride_of(length)
    return dataclasses.replace(described, **settings)


def _usual(loaded: LoadedModel) -> dict[str, Any]:
    """Returns the programs' defaults for a model that no run describes."""
    kind, most = loaded.kind, loaded.config.max_position_embeddings
    length = loaded.max_seq_length or most
    facts = {"task_name": kind, "kind": kind, "max_seq_length": length}
    if kind == "span":
        facts |= vars(WindowOptions()) | vars(AnswerOptions())
        facts["max_seq_length"] = min(facts["max_seq_length"], most)
    elif kind in KINDS:
        labels = loaded.labels or map(str, range(loaded.model.num_labels))
        facts["labels"] = () if kind == "regression" else labels
    else:
        facts |= {"top_k": TOP_K} if kind == "pretraining" else {"data": {}}
    return facts
