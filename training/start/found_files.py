"""Vocabulary and configuration, found where the weights of a model are."""

import os
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from absl import logging

from data.settings import Settings
from data.storage import files, outputs
from data.text import tokenization, vocabulary
from modeling.checkpoints import huggingface, model_folder, tf1
from modeling.config import BertConfig
from training.start import description, remembered
from training.start.description import Description
from training.start.setup import changes
from training.start.source import Source

TABLE = "glue.json"  # of several tasks
# Flag -> the names of its file.
FILES = {
    "vocab_file": model_folder.VOCABULARIES,
    "bert_config_file": (model_folder.CONFIG, huggingface.CONFIG),
}


class Files(NamedTuple):
    """The files that a program's options name; `read_files` reads them.

    Attributes:
      options: the options, completed by `fill`.
      config: sizes of the model.
      tokenizer: splits texts into wordpieces of the vocabulary.
      source: the model of --init_checkpoint.
      described: `task.json` of output_dir; None = it says nothing of the model.
    """

    options: Any
    config: BertConfig
    tokenizer: tokenization.FullTokenizer
    source: Source
    described: Description | None


def read_files(options: Any, kinds: Collection[str] = ()) -> Files:
    """Reads the configuration and the vocabulary of a run.

    Raises ValueError or OSError if a file is missing or does not fit, or
    output_dir holds a model of none of `kinds`; () = any.
    """
    options, source, described = fill(options, kinds=kinds)
    config = source.read_config(options.find("bert_config_file"))
    tokenizer = load_tokenizer(options, config, source)
    return Files(options, config, tokenizer, source, described)


def load_tokenizer(
    options: Settings,
    config: BertConfig,
    source: Source,
    tokens: Collection[str] = ("[UNK]", "[CLS]", "[SEP]"),
) -> tokenization.FullTokenizer:
    """Reads the vocabulary of a program and checks that it fits the model.

    It must have `tokens`. A warning is logged if it was made for the other
    case. Raises FileNotFoundError if it is missing; ValueError if the name of
    the checkpoint says the other case, or it is not the model's, or not that
    of the run in output_dir. A vocabulary beside --init_checkpoint must be the
    one that its run had.
    """
    path, lower = options.vocab_file, options.do_lower_case
    weights = source.folder.weights if source.folder else source.path
    # Differs from the original: extract_features.py checks the case, too,
    # because wrong vectors look like right ones.
    tokenization.validate_case_matches_checkpoint(lower, weights)
    tokenizer = tokenization.FullTokenizer(path, lower, options.never_split)
    vocab, config_file = tokenizer.vocab, options.find("bert_config_file")
    vocabulary.require_tokens(vocab, tokens, path)
    vocabulary.require_size(vocab, path, config.vocab_size, config_file)
    vocabulary.warn_of_case(vocab, path, lower)
    # Differs from the original: it reads any vocabulary, so that ids may stand
    # for other words than in training.
    folders = [options.find("output_dir")]
    if source.folder and source.folder.vocab_file == path:
        folders.append(source.folder.path)
    for folder in filter(None, folders):
        description.require_vocabulary(folder, tokenizer)
    return tokenizer


def fill(
    options: Settings,
    needed: Collection[str] = tuple(FILES),
    configure: Callable[[BertConfig], BertConfig] = lambda config: config,
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
    answers = options.find("do_train") is False
    described = description.find(run) if is_trained or run and answers else None
    if described and is_trained and description.is_elsewhere(described.weights):
        described = None  # of an earlier command, about another model
    description.require_kind(run, described, kinds)
    source, changed = Source(options.find("init_checkpoint")), {}
    if is_trained:
        made_with = description.settings_of(run, described)
        made_with = made_with or Source(run).tokenizer_flags
        folder = run
        if not described:
            remembered.require_recorded(options, run)
    else:
        if described and described.weights and not source.path:
            # An earlier command, or a conversion, said which weights it is
            # about.
            source = Source(model_folder.described_weights(run))
            source.require()
            changed["init_checkpoint"] = source.path
        _require_no_other_model(options, source)
        described, folder, made_with = _beside(options, source, run, described)
    changed |= remembered.left_out(options, made_with, folder)
    given = {flag: options.find(flag) for flag in FILES}
    changed |= find(given, output_dir, source, needed, configure)
    return options.replace(**changed), source, described


def _require_no_other_model(options: Settings, source: Source) -> None:
    """Refuses an output_dir with a model whose files the run would replace."""
    # Differs from the original: it writes its own configuration beside such a
    # model, which then is read with the wrong one.
    output_dir = options.find("output_dir")
    if not (there := output_dir and model_folder.given_weights(output_dir)):
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
    if output_dir and files.exists(os.path.join(output_dir, TABLE)):
        names = model_folder.DESCRIPTION, "trials.json"
        found = [x for n in names for x in files.find_in(output_dir, f"*/{n}")]
        raise ValueError(
            f"--output_dir={output_dir} holds runs of several tasks; give that "
            f"of one, {', '.join(map(os.path.dirname, found))}, or another."
        )
    run, is_trained = _run_in(output_dir)
    if is_trained or not before:
        return output_dir, run, is_trained
    if not files.is_folder(before):
        raise FileNotFoundError(
            f"--continue_from={before} is not there; give a run's folder."
        )
    return before, *_run_in(before)


def _run_in(output_dir: str | None) -> tuple[str, bool]:
    """The folder of a run or of the chosen trial; whether it is trained."""
    run = model_folder.chosen_trial(output_dir) if output_dir else ""
    return run, bool(run) and tf1.has_run(run)


def _beside(
    options: Settings, source: Source, run: str, described: Description | None
) -> tuple[Description | None, str, dict[str, Any]]:
    """Finds the settings of a model: in `run`, and in the model's own folder.

    The own folder counts if the command names the model and the folder says
    what kind it is. To begin a training, only the tokenizer's flags are taken.

    Returns `described` if it is about this model, the folder that says the
    settings, and the settings.
    """
    if not source.folder:
        return described, "", {}
    folder, facts = source.folder.path, source.folder.description
    weights = description.place_of_weights(source.folder.weights, run)
    if described and described.weights != weights:
        described = None  # of an earlier command, about another model
    if options.find("do_train") is not False:
        return described, folder, source.tokenizer_flags
    said, is_own = described, options.find("init_checkpoint") and facts
    if described and not (is_own and facts["kind"] == described.kind):
        folder = run
    else:
        said = facts and description.of_facts(facts, folder)
    settings = description.settings_of(folder, said)
    settings.pop("save_best", None)  # it is about checkpoints of a run
    return described, folder, source.tokenizer_flags | settings


def find(
    given: Mapping[str, str | None],
    output_dir: str | None,
    source: Source,
    needed: Collection[str] = tuple(FILES),
    configure: Callable[[BertConfig], BertConfig] = lambda config: config,
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
        in_run = files.first_of(names, run) if run else None
        if given[flag]:
            is_there = resumed and in_run and files.exists(given[flag])
            if flag == "vocab_file" and is_there:
                vocabulary.require_same(in_run, given[flag])
            continue
        # The fields of a folder are `vocab_file` and `config_file`.
        beside = getattr(source.folder, flag.removeprefix("bert_"), None)
        if resumed and in_run and beside:
            _require_same(flag, in_run, beside, configure)
        # Differs from the original: the flags are required only if nothing is
        # found, because the files beside the weights are the model's own.
        # Before its first checkpoint a run may hold files of another model.
        found[flag] = in_run or beside if resumed else beside or in_run
        if found[flag]:
            logging.info("--%s=%s, which was found.", flag, found[flag])
        elif flag in needed:
            source.require()
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
    configure: Callable[[BertConfig], BertConfig],
) -> None:
    """Refuses a run and a checkpoint that contradict each other."""
    if flag == "vocab_file":
        difference = vocabulary.difference(in_run, beside)
    else:
        configs = map(BertConfig.from_json_file, (in_run, beside))
        difference = "; ".join(changes(*map(configure, configs)))
    if difference:
        raise ValueError(
            f"--{flag} is not given, and what is found contradicts itself: "
            f"{in_run} in --output_dir, but {beside} beside --init_checkpoint "
            f"({difference}). Give one by --{flag}, or another --output_dir."
        )
