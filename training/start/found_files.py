"""What a command leaves out, found where the weights of its model are."""

import os
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from absl import logging

from data.settings import Settings, names_of
from data.storage import files
from data.storage.json_files import read_json
from data.tasks import task_options
from data.text import vocabulary
from modeling.checkpoints import huggingface, model_folder, tf1
from modeling.config import BertConfig
from training.start import description
from training.start.setup import changes
from training.start.source import Source

Options = TypeVar("Options", bound=Settings)

# Flag -> the names of its file.
FILES = {
    "vocab_file": model_folder.VOCABULARIES,
    "bert_config_file": (model_folder.CONFIG, huggingface.CONFIG),
}


def fill(
    options: Options,
    needed: Collection[str] = tuple(FILES),
    configure: Callable[[BertConfig], BertConfig] | None = None,
) -> tuple[Options, Source]:
    """Returns options with what the command leaves out, and their model.

    Args:
      options: of a program; `given` names the flags of the command.
      needed: see `find`.
      configure: see `find`.

    Raises:
      ValueError, OSError: see `find`.
    """
    source = Source(options.find("init_checkpoint"))
    options = _remembered(options, source)
    found = find(
        {flag: options.find(flag) for flag in FILES},
        output_dir=options.find("output_dir"),
        source=source,
        needed=needed,
        configure=configure,
    )
    return options.replace(**found), source


def _remembered(options: Options, source: Source) -> Options:
    """Returns options with the values that their model was made with.

    A flag that the command leaves out has the value of the run that trained
    the model. One that the command gives, and that differs, is used for this
    command; the log says so.
    """
    # Differs from the original: a flag that is left out has its default there,
    # because the original keeps nothing but weights. A model of cased texts
    # then reads them lower-cased, without a warning.
    folder, made_with = _made_with(options, source)
    of_task = made_with.pop("task_options", {})
    now = {name: _value(options, name) for name in made_with}
    given = now if options.given is None else options.given
    changed = _left_out(made_with, now, given, folder)
    if of_task and options.given is not None:
        now = options.task_options  # holds the given ones alone
        known = task_options(options.task_name)
        of_task = {n: value for n, value in of_task.items() if n in known}
        others = _left_out(of_task, now, now, folder)
        changed["task_options"] = {**now, **others}
    return options.replace(**changed)


def _value(options: Settings, name: str) -> Any:
    if hasattr(options, name):
        return getattr(options, name)
    return options.find(name)


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
        if name in given:
            logging.warning(
                "--%s=%s, but the model of %s was made with %s; this command "
                "uses %s.",
                *(name, now[name], folder, value, now[name]),
            )
        else:
            logging.info("--%s=%s, as %s says.", name, value, folder)
            left_out[name] = value
    return left_out


def _made_with(options: Settings, source: Source) -> tuple[str, dict[str, Any]]:
    """Returns a model's folder, and field -> value of the run that made it."""
    output_dir = options.find("output_dir")
    run = model_folder.chosen_trial(output_dir) if output_dir else ""
    if run and tf1.latest_name(run):
        return run, _settings_of(run, options)
    folder = source.folder
    if not folder:
        return "", {}
    flags = source.tokenizer_flags
    if options.find("do_train") is False:
        asked_before = description.find(run) if run else None
        weights = description.place_of_weights(folder.weights, run)
        is_same = asked_before and asked_before.weights == weights
        flags |= _settings_of(run if is_same else folder.path, options)
    return folder.path, flags


def _settings_of(folder: str, options: Settings) -> dict[str, Any]:
    """Returns what a folder's `task.json` and `head.json` say of options."""
    described = description.find(folder)
    head = os.path.join(folder, model_folder.HEAD)
    values = described.options() if described else {}
    if files.exists(head):
        values |= read_json(head)
    names = names_of(type(options)) | {"long_text"}
    if options.find("do_train"):
        names.discard("save_best")  # it needs --eval_every_steps, too
    return {n: value for n, value in values.items() if n in names}


def find(
    given: Mapping[str, str | None],
    *,
    output_dir: str | None,
    source: Source,
    needed: Collection[str] = tuple(FILES),
    configure: Callable[[BertConfig], BertConfig] | None = None,
) -> dict[str, str | None]:
    """Finds vocabulary and configuration in output_dir or beside weights.

    Args:
      given: the flags of `FILES`. A file that is given is not looked for.
      output_dir: of the run, for trials the chosen one's folder is looked at;
        None = it has none.
      source: the model of --init_checkpoint.
      needed: the files without which the run cannot be.
      configure: what the run changes in a configuration before it uses it and
        writes it to output_dir; None = nothing.

    Returns:
      Flag -> path; None = nothing was found, and it is not needed.

    Raises:
      ValueError: a file is needed and not found, or output_dir holds
        checkpoints, and its file contradicts that beside init_checkpoint, or
        its vocabulary the given one.
      OSError: a file cannot be read.
    """
    run = model_folder.chosen_trial(output_dir) if output_dir else ""
    resumed = bool(run) and tf1.latest_name(run) is not None
    in_run = {
        flag: model_folder.existing(run, names) if run else None
        for flag, names in FILES.items()
    }
    vocab_file = given["vocab_file"]
    if resumed and in_run["vocab_file"] and files.exists(vocab_file or ""):
        _require_same_tokens(in_run["vocab_file"], vocab_file)
    found, missing = dict(given), [flag for flag in FILES if not given[flag]]
    if any(flag in needed and not in_run[flag] for flag in missing):
        source.require()
    for flag in missing:
        beside = source.files.get(flag)
        if resumed and in_run[flag] and beside:
            _require_same(flag, in_run[flag], beside, configure)
        # Before its first checkpoint a run may hold files of another model.
        first, second = in_run[flag], beside
        found[flag] = first or second if resumed else second or first
        if found[flag]:
            logging.info("--%s=%s, which was found.", flag, found[flag])
        elif flag in needed:
            raise _not_found(flag, output_dir, source.path)
    return found


def _require_same(
    flag: str,
    in_run: str,
    beside: str,
    configure: Callable[[BertConfig], BertConfig] | None,
) -> None:
    """Refuses a run and a checkpoint that contradict each other."""
    if flag == "vocab_file":
        difference = _token_that_differs(in_run, beside)
    else:
        configs = map(BertConfig.from_json_file, (in_run, beside))
        if configure:
            configs = map(configure, configs)
        difference = "; ".join(changes(*configs))
    if difference:
        raise ValueError(
            f"--{flag} is not given, and what is found contradicts itself: "
            f"{in_run} in --output_dir, but {beside} beside --init_checkpoint "
            f"({difference}). Give the right one by --{flag}, or another "
            "--output_dir."
        )


def _require_same_tokens(in_run: str, given: str) -> None:
    """Refuses a vocabulary that the run's model was not made with."""
    difference = _token_that_differs(in_run, given)
    if difference:
        raise ValueError(
            f"--vocab_file={given}, but the model was made with {in_run} "
            f"({difference}); leave --vocab_file out, or give another "
            "--output_dir."
        )


def _token_that_differs(in_run: str, beside: str) -> str:
    """Returns where two vocabularies differ; "" = nowhere."""
    ours, theirs = (
        [token.strip() for token in vocabulary.read_tokens(path)]
        for path in (in_run, beside)
    )
    if len(ours) != len(theirs):
        return f"{len(ours)} -> {len(theirs)} tokens"
    pairs = enumerate(zip(ours, theirs, strict=True))
    differs = [f"token {i}: {a!r} -> {b!r}" for i, (a, b) in pairs if a != b]
    more = f" and {len(differs) - 1} more" if len(differs) > 1 else ""
    return f"{differs[0]}{more}" if differs else ""


def _not_found(
    flag: str, output_dir: str | None, init_checkpoint: str | None
) -> ValueError:
    """The error for a file that is nowhere; begins as absl's."""
    places = []
    if init_checkpoint:
        places.append(f"beside --init_checkpoint={init_checkpoint}")
    if output_dir:
        places.append(f"in --output_dir={output_dir}")
    names = " or ".join(FILES[flag])
    where = " or ".join(places) or (
        "to be found, because neither --init_checkpoint nor --output_dir is "
        "given"
    )
    return ValueError(
        f"Flag --{flag} must have a value other than None: no {names} is "
        f"{where}."
    )
