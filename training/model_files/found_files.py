"""--vocab_file and --bert_config_file of a run, found where its weights are."""

from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from absl import logging

from data.settings import Settings
from data.text import vocabulary
from modeling.checkpoints import huggingface, model_folder, tf1
from modeling.config import BertConfig
from training.model_files.setup import changes

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
) -> Options:
    """Returns options with the files that are found; see `find`.

    Args:
      options: of a program.
      needed: see `find`.
      configure: see `find`.

    Raises:
      ValueError, OSError: see `find`.
    """
    given = {flag: options.find(flag) for flag in FILES}
    if all(given.values()):
        return options
    places = {
        flag: options.find(flag) for flag in ("output_dir", "init_checkpoint")
    }
    return options.replace(
        **find(given, needed=needed, configure=configure, **places)
    )


def find(
    given: Mapping[str, str | None],
    *,
    output_dir: str | None,
    init_checkpoint: str | None,
    needed: Collection[str] = tuple(FILES),
    configure: Callable[[BertConfig], BertConfig] | None = None,
) -> dict[str, str | None]:
    """Finds vocabulary and configuration in output_dir or beside weights.

    Args:
      given: the flags of `FILES`. A file that is given is not looked for.
      output_dir: of the run, of trials the chosen one's folder is looked at;
        None = it has none.
      init_checkpoint: see `model_folder.find`, or None.
      needed: the files without which the run cannot be.
      configure: what the run changes in a configuration before it uses it and
        writes it to output_dir; None = nothing.

    Returns:
      Flag -> path; None = nothing was found, and it is not needed.

    Raises:
      ValueError: a file is needed and not found, or output_dir holds
        checkpoints, and its file contradicts that beside init_checkpoint.
      OSError: a file cannot be read.
    """
    missing = [flag for flag in FILES if not given[flag]]
    in_run = dict.fromkeys(missing)
    resumed = False
    if output_dir:
        run = model_folder.chosen_trial(output_dir)
        in_run = {f: model_folder.existing(run, FILES[f]) for f in missing}
        resumed = tf1.latest_name(run) is not None
    beside = dict.fromkeys(FILES)
    if init_checkpoint:
        try:
            folder = model_folder.find(init_checkpoint)
            paths = folder.vocab_file, folder.config_file
            beside = dict(zip(FILES, paths, strict=True))
        except (ValueError, OSError):
            # The weights may be gone when a run that began with them goes on.
            if any(f in needed and not in_run[f] for f in missing):
                raise
    found = dict(given)
    for flag in missing:
        if resumed and in_run[flag] and beside[flag]:
            _require_same(flag, in_run[flag], beside[flag], configure)
        # Before its first checkpoint a run may hold files of another model.
        first, second = in_run[flag], beside[flag]
        found[flag] = first or second if resumed else second or first
        if found[flag]:
            logging.info("--%s=%s, which was found.", flag, found[flag])
        elif flag in needed:
            raise _not_found(flag, output_dir, init_checkpoint)
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
        difference = "; ".join(changes(*map(configure or _unchanged, configs)))
    if difference:
        raise ValueError(
            f"--{flag} is not given, and what is found contradicts itself: "
            f"{in_run} in --output_dir, but {beside} beside --init_checkpoint "
            f"({difference}). Give the right one by --{flag}, or another "
            "--output_dir."
        )


def _unchanged(config: BertConfig) -> BertConfig:
    return config


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
