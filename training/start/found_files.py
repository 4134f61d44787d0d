"""What a command leaves out, found where the weights of its model are."""

import os
from collections.abc import Callable, Collection, Mapping
from typing import Any

from absl import logging

from data.settings import Settings, first_change, names_of
from data.storage import files, manifests, outputs
from data.storage.json_files import find_json
from data.tasks import has_dev_file, task_names, task_options
from data.text import vocabulary
from modeling.checkpoints import huggingface, model_folder, tf1
from modeling.checkpoints.vector_form import VectorForm
from modeling.config import BertConfig
from training.config.distill_options import DistillOptions
from training.loop.checkpointing import CheckpointManager
from training.start import description
from training.start.description import Description
from training.start.setup import changes
from training.start.source import Source

# Flag -> the names of its file.
FILES = {
    "vocab_file": model_folder.VOCABULARIES,
    "bert_config_file": (model_folder.CONFIG, huggingface.CONFIG),
}
# Flags of a task whose defaults `task.json` does not name.
_READ_BY = {"kind", "label_column", "label_separator"}


def fill(
    options: Settings,
    needed: Collection[str] = tuple(FILES),
    configure: Callable[[BertConfig], BertConfig] | None = None,
    kinds: Collection[str] = (),
) -> tuple[Any, Source, Description | None]:
    """Finds what the command leaves out.

    A flag that the command leaves out has the value of the run that trained the
    model. One that the command gives, and that differs, is used for this
    command; the log says so. For `needed` and `configure` see `find`; `kinds`
    are those of the models that the program knows, () = any.

    Returns the completed options, the model of --init_checkpoint, and
    `task.json` of output_dir, None = it says nothing of the model. Raises
    ValueError or OSError as `find`, or if a file of the model is damaged, or
    output_dir holds a model of another kind.
    """
    output_dir, run, is_trained = _place_of(options)
    named = options.find("init_checkpoint")
    answers = options.find("do_train") is False
    described = description.find(run) if is_trained or run and answers else None
    if described and is_trained and description.is_elsewhere(described.weights):
        described = None  # of an earlier command, about another model
    description.require_kind(run, described, kinds)
    is_known = is_trained or named
    if weights := not is_known and described and described.weights:
        # Nothing was trained there: an earlier command, or a conversion, said
        # which weights it is about.
        weights = model_folder.place_of(run, weights)
        options = options.replace(init_checkpoint=weights)
    source = Source(options.find("init_checkpoint"))
    if weights:
        source.require()
    if not is_trained:
        _require_no_other_model(options, source)
    folder, made_with = "", {}
    if is_trained:
        folder = run
        made_with = _settings_of(run, described) or Source(run).tokenizer_flags
        _require_recorded(options, run, described)
    elif source.folder:
        folder = source.folder.path
        weights = description.place_of_weights(source.folder.weights, run)
        if described and described.weights != weights:
            described = None  # of an earlier command, about another model
        made_with = source.tokenizer_flags
        if answers:
            folder, said = _settings_beside(source, run, described, bool(named))
            made_with = made_with | said
    options = _with_settings(options, made_with, folder)
    given = {flag: options.find(flag) for flag in FILES}
    found = find(given, output_dir, source, needed, configure)
    return options.replace(**found), source, described


def _require_no_other_model(options: Settings, source: Source) -> None:
    """Refuses an output_dir with a model whose files the run would replace."""
    # Differs from the original: it writes its own configuration beside such a
    # model, which then is read with the wrong one.
    output_dir = options.find("output_dir")
    there = output_dir and model_folder.given_weights(output_dir)
    if not there:
        return
    source.require()
    used = source.folder.weights if source.folder else ""
    is_used = any(
        files.exists(there + end) and outputs.are_same(there + end, used + end)
        for end in (".index", f"/{huggingface.CONFIG}")
    )
    # A folder of Hugging Face with a second model could not be loaded.
    if not is_used or there == output_dir and options.find("do_train"):
        raise ValueError(
            f"--output_dir={output_dir} holds a model of its own ({there}), "
            "whose files the run would replace; give another --output_dir, "
            f"and to begin with this model --init_checkpoint={there}."
        )


def _place_of(options: Settings) -> tuple[str | None, str, bool]:
    """The folder that a command goes on with, see `_run_in` for the others."""
    output_dir, before = map(options.find, ("output_dir", "continue_from"))
    if before and not files.is_folder(before):
        raise FileNotFoundError(
            f"--continue_from={before} is not there; give a run's folder."
        )
    run, is_trained = _run_in(output_dir)
    if before and not is_trained:
        return before, *_run_in(before)
    return output_dir, run, is_trained


def _run_in(output_dir: str | None) -> tuple[str, bool]:
    """The folder of a run or of the chosen trial; whether it is trained."""
    run = model_folder.chosen_trial(output_dir) if output_dir else ""
    return run, bool(run) and tf1.has_run(run)


def _settings_beside(
    source: Source, run: str, described: Description | None, is_named: bool
) -> tuple[str, dict[str, Any]]:
    """Returns what is said of the weights of `source`, and the folder with it.

    It is `run`, unless the command names a model whose own folder says it.
    """
    folder, facts = source.folder.path, source.folder.description
    kind = facts["kind"] if is_named and facts else ""
    if described and described.kind != kind:
        folder = run
    else:
        described = facts and description.of_facts(facts, folder)
    made_with = _settings_of(folder, described)
    made_with.pop("save_best", None)  # it is about checkpoints of a run
    return folder, made_with


def _settings_of(folder: str, described: Description | None) -> dict[str, Any]:
    """Returns what a folder's `task.json` and `head.json` say of options."""
    head = os.path.join(folder, model_folder.HEAD)
    values = described.options() if described else {}
    return values | find_json(head)


def _require_recorded(
    options: Settings, run: str, described: Description | None
) -> None:
    """Refuses other flags than a checkpoint records, if `task.json` is gone."""
    made_from = CheckpointManager(run).made_from()
    is_known = described or "never_split" not in made_from  # pretrained
    if is_known or options.find("do_train"):  # see `Start.check_input`
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


def _with_settings(
    options: Settings, made_with: Mapping[str, Any], folder: str
) -> Settings:
    """Returns options with the settings of a model that the command lacks."""
    # Differs from the original: a flag that is left out has its default there,
    # because the original keeps nothing but weights. A model of cased texts
    # then reads them lower-cased, without a warning.
    names = names_of(type(options)) | {"long_text"}
    if options.find("do_train"):
        names.discard("save_best")  # it needs --eval_every_steps, too
    else:
        names -= names_of(DistillOptions)
    known = {n: value for n, value in made_with.items() if n in names}
    of_task = known.pop("task_options", {})
    if hasattr(options, "task_name"):
        name = known.pop("task_name", "")  # the same model reads tsv and csv
        if not (options.task_name or name):
            raise ValueError(
                "Flag --task_name must have a value other than None: "
                f"--output_dir={options.find('output_dir')} has no task.json "
                "of a model that was trained there, which would name the task."
            )
        if not options.task_name:
            logging.info("--task_name=%s, as the model's folder says.", name)
            options = options.replace(task_name=name)
    now = {name: getattr(options, name, options.find(name)) for name in known}
    given = now if options.given is None else options.given
    changed = _left_out(known, now, given, folder)
    if of_task and options.given is not None:
        now = options.task_options  # holds the given ones alone
        usual = task_options(options.task_name)
        of_task = {n: value for n, value in of_task.items() if n in usual}
        of_task = _read_by(name, now) | of_task
        given = {n: usual[n] for n in options.given & usual.keys()} | now
        kind = given.get("kind")
        if kind not in (None, of_task.get("kind", "single")):
            of_task.pop("choice_columns", None)  # which are of the other kind
            now = {**now, "kind": kind}
            options = options.replace(task_options=now)
        if "dev_share" in of_task:
            of_task |= _dev_share(of_task, options, folder)
        found = _left_out(of_task, given, given, folder)
        changed["task_options"] = now | found
    return options.replace(**changed)


def _read_by(task_name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Defaults of given flags, with which a model may have been trained."""
    is_known = task_name.lower() in task_names()
    usual = task_options(task_name) if is_known else {}
    return {
        n: usual[n] for n in _READ_BY & given.keys() & usual.keys() if usual[n]
    }


def _dev_share(
    of_task: Mapping[str, Any], options: Settings, folder: str
) -> dict[str, float | None]:
    """The share of the dev set that a command uses, if it has no dev file.

    Raises ValueError if it would score rows that the model was trained on.
    """
    trained, given = of_task["dev_share"], options.task_options
    share = given.get("dev_share")
    if share is None:
        has_file = has_dev_file(
            options.task_name, options.data_dir, {**of_task, **given}
        )
        return {"dev_share": None if has_file else trained}
    if share != trained and not options.find("do_train"):
        was = "none" if trained is None else f"--dev_share={trained}"
        raise ValueError(
            f"--dev_share={share}, but the model of {folder} was trained with "
            f"{was}, so that it would be scored on rows that it was trained "
            "on. Leave the flag out, or give other rows by --dev_file."
        )
    return {"dev_share": trained}  # `_left_out` warns of another one


def _left_out(
    made_with: Mapping[str, Any],
    now: Mapping[str, Any],
    given: Collection[str],
    folder: str,
) -> dict[str, Any]:
    """Returns the values that a command leaves out; warns of other ones."""
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


def find(
    given: Mapping[str, str | None],
    output_dir: str | None,
    source: Source,
    needed: Collection[str] = tuple(FILES),
    configure: Callable[[BertConfig], BertConfig] | None = None,
) -> dict[str, str | None]:
    """Finds vocabulary and configuration in output_dir or beside weights.

    A file that is `given`, by a flag of `FILES`, is not looked for. The program
    may have no `output_dir`; the run cannot be without the files `needed`;
    `configure` is what it changes in a configuration before it uses and writes
    it. Returns flag -> path; None = not found, and not needed. Raises OSError
    for an unreadable file; ValueError if a needed one is missing, or files of a
    trained output_dir contradict those beside init_checkpoint or the given one.
    """
    run, resumed = _run_in(output_dir)
    found = dict(given)
    for flag, names in FILES.items():
        in_run = model_folder.existing(names, run) if run else None
        if given[flag]:
            is_there = resumed and in_run and files.exists(given[flag])
            if flag == "vocab_file" and is_there:
                vocabulary.require_same(in_run, given[flag])
            continue
        if flag in needed and not in_run:
            source.require()
        # The fields of a folder are `vocab_file` and `config_file`.
        beside = getattr(source.folder, flag.removeprefix("bert_"), None)
        if resumed and in_run and beside:
            _require_same(flag, in_run, beside, configure)
        # Before its first checkpoint a run may hold files of another model.
        found[flag] = in_run or beside if resumed else beside or in_run
        if found[flag]:
            logging.info("--%s=%s, which was found.", flag, found[flag])
        elif flag in needed:
            named = f"beside --init_checkpoint={source.path}"
            places = [named] * bool(source.path)
            places += [f"in {output_dir}"] * bool(output_dir)
            raise ValueError(
                f"Flag --{flag} must have a value other than None: no "
                f"{' or '.join(names)} is {' or '.join(places) or 'given'}."
            )
    return found


def _require_same(
    flag: str,
    in_run: str,
    beside: str,
    configure: Callable[[BertConfig], BertConfig] | None,
) -> None:
    """Refuses a run and a checkpoint that contradict each other."""
    if flag == "vocab_file":
        difference = vocabulary.difference(in_run, beside)
    else:
        configs = map(BertConfig.from_json_file, (in_run, beside))
        if configure:
            configs = map(configure, configs)
        difference = "; ".join(changes(*configs))
    if difference:
        raise ValueError(
            f"--{flag} is not given, and what is found contradicts itself: "
            f"{in_run} in --output_dir, but {beside} beside --init_checkpoint "
            f"({difference}). Give one by --{flag}, or another --output_dir."
        )
