"""Fills in omitted flags with the values of the run that made the model."""

from collections.abc import Collection, Mapping
from typing import Any

from absl import logging

from data.finetuning.long_text import LongTextOptions
from data.settings import Settings, fields_of, first_change, names_of
from data.storage import manifests
from data.tasks import has_dev_file, task_names, task_options
from data.tasks.user import usual_texts
from modeling.checkpoints.vector_form import VectorForm
from training.config.distill_options import DistillOptions
from training.loop.checkpointing import CheckpointManager

# Flags of a task whose defaults `task.json` does not name.
_READ_BY = {"kind", "text_columns", "label_column", "label_separator"}
# Flags of a task by which rows are drawn as the dev set.
_DRAWN_BY = {"dev_share", "text_columns", "choice_columns"}


def require_recorded(options: Settings, run: str) -> None:
    """Refuses other flags than a checkpoint records, if `task.json` is gone."""
    made_from = CheckpointManager(run).made_from()
    is_pretrained = "never_split" not in made_from
    if is_pretrained or options.find("do_train"):  # see `Start.check_input`
        return
    names = names_of(type(options)) - names_of(DistillOptions)
    recorded = {n: made_from[n] for n in sorted(names & made_from.keys())}
    now = {name: options.find(name) for name in recorded}
    now["never_split"] = [*now["never_split"]]  # as JSON holds it
    if long_text := getattr(options, "long_text", None):
        recorded["long_text_stride"] = made_from.get("stride", 0)
        now["long_text_stride"] = long_text.stride_of(now["max_seq_length"])
    if changed := manifests.changes(recorded, now):
        raise ValueError(
            f"{run} has no task.json, and its run had other flags: "
            f"{'; '.join(changed)}. Put the file back, or give those flags."
        )
    logging.warning("%s has no task.json: give all flags of its run.", run)


def left_out(
    options: Settings, made_with: Mapping[str, Any], folder: str
) -> dict[str, Any]:
    """Returns the model's settings that the command does not give.

    A flag that the command gives, and that differs, is used for this command;
    the log says so.
    """
    if options.given is None:  # nothing is left out
        return {}
    # Differs from the original: a flag that is left out has its default there,
    # because the original keeps nothing but weights. A model of cased texts
    # then reads them lower-cased, without a warning.
    names, trains = names_of(type(options)), options.find("do_train")
    # save_best needs --eval_every_steps, too.
    names -= {"save_best"} if trains else names_of(DistillOptions)
    known = {n: value for n, value in made_with.items() if n in names}
    of_task, task = known.pop("task_options", {}), {}
    if hasattr(options, "task_name"):
        trained = known.pop("task_name", "")
        task["task_name"] = name = options.task_name or _named(trained, options)
        if of_task:
            of_task = _read_by(trained, options.task_options, of_task)
            task["task_options"] = _task_options(options, name, of_task, folder)
    now = {name: getattr(options, name, options.find(name)) for name in known}
    given = options.given
    own = names_of(LongTextOptions) & given
    if own and "long_text" in known:
        found = _completed(now["long_text"], known["long_text"], own)
        task["long_text"] = now["long_text"] = found
        given = {*given, "long_text"}
    return task | _left_out(known, now, given, folder)


def _completed(
    now: LongTextOptions, known: LongTextOptions, given: Collection[str]
) -> LongTextOptions:
    """Fills omitted flags with the model's values if both modes are equal."""
    if "long_text" in given and now.mode != known.mode:
        return now
    left_out = (f for f in fields_of(type(now)) if f.flag not in given)
    return now.replace(**{f.name: getattr(known, f.name) for f in left_out})


def _named(trained: str, options: Settings) -> str:
    """The task that a model was trained for; a command need not name it."""
    if not trained:
        raise ValueError(
            "Flag --task_name must have a value other than None: no task.json "
            f"of a model names it in --output_dir={options.find('output_dir')}."
        )
    logging.info("--task_name=%s, as the model's folder says.", trained)
    return trained


def _read_by(
    task_name: str, given: Mapping[str, Any], of_task: Mapping[str, Any]
) -> dict[str, Any]:
    """Adds defaults of given flags, with which a model may be trained."""
    usual = task_options(task_name) if task_name.lower() in task_names() else {}
    if "text_columns" in usual:
        usual["text_columns"] = [*usual_texts(of_task.get("kind", "single"))]
    names = _READ_BY & given.keys() & usual.keys()
    return {n: usual[n] for n in names if usual[n]} | of_task


def _task_options(
    options: Settings, name: str, of_task: Mapping[str, Any], folder: str
) -> dict[str, Any]:
    """Returns the options of a command's task; the command gives some.

    Raises ValueError if it would score rows that the model was trained on.
    """
    given, usual = dict(options.task_options), task_options(name)
    of_task = {n: value for n, value in of_task.items() if n in usual}
    now = {n: usual[n] for n in options.given & usual.keys()} | given
    kind = now.get("kind")
    if kind not in (None, of_task.get("kind", "single")):
        of_task.pop("choice_columns", None)  # which are of the other kind
        given["kind"] = kind
    if "dev_share" in of_task:
        where = name, options.data_dir, {**of_task, **given}
        if given.get("dev_share") is None and has_dev_file(*where):
            of_task["dev_share"] = None
        before = {n: of_task.get(n) for n in _DRAWN_BY}
        drawn = before | {n: given[n] for n in _DRAWN_BY & given.keys()}
        changed = drawn["dev_share"] and manifests.changes(before, drawn)
        # `_left_out` warns of a training with other flags.
        if changed and options.find("do_eval") and not options.find("do_train"):
            raise ValueError(
                f"the dev set would have rows that the model of {folder} was "
                f"trained on: {'; '.join(changed)}. Leave the flag out, or "
                "give other rows by --dev_file."
            )
    return given | _left_out(of_task, now, now, folder)


def _left_out(
    made_with: Mapping[str, Any],
    now: Mapping[str, Any],
    given: Collection[str],
    folder: str,
) -> dict[str, Any]:
    """Returns values for omitted flags; warns of given flags that differ."""
    left_out = {}
    for name, value in made_with.items():
        if value == now.get(name):
            continue
        flag, ours, theirs = first_change(name, now.get(name), value)
        if name in given:
            logging.warning(
                "--%s=%s, but the model of %s was made with %s; this command "
                "uses %s.",
                *(flag, ours, folder, theirs, ours),
            )
        else:
            logging.info("--%s=%s, as %s says.", flag, theirs, folder)
            left_out[name] = value
    return left_out


def warn_of_other_form(folder: str, changes: Mapping[str, Any]) -> None:
    """Warns of flags with which a model's vectors were not trained."""
    if form := VectorForm.find(folder):
        made_with = {name: getattr(form, name) for name in changes}
        _left_out(made_with, changes, changes, folder)
