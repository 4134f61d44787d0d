"""The main function of the programs that fine-tune, evaluate and export."""

from collections.abc import Callable, Sequence
from typing import Any

from training import program
from training.config import flags
from training.config.finetuning_options import TaskRunOptions
from training.config.run_options import DeviceOptions, ExportOptions


def main(
    works: Sequence[str],
    read_options: Callable[[], TaskRunOptions],
    run: Callable[[Any], Any],
    **of_export: Any,
) -> None:
    """Does what the flags ask: one of the `works`, and --do_export.

    `run` takes the options that `read_options` returns, after TensorFlow is
    loaded; `of_export` are fields of `ExportOptions`. An export alone needs no
    options of the run if the folder has a `task.json`.
    """
    exported = options = None
    if flags.value("do_export"):
        exported = flags.read(ExportOptions, **of_export)
    check_strip(flags.value("strip_checkpoint"), flags.value("do_train"))
    if any(map(flags.value, works)) or not exported:
        options = read_options()
    device, output_dir = flags.read(DeviceOptions), flags.value("output_dir")
    program.load_tensorflow()
    from training.devices import session
    from training.export import saved_model

    given = flags.given_values()
    if exported and not saved_model.describes_export(output_dir, given):
        options = options or read_options()
    with session.joined(device, output_dir, flags.shared_values()) as folder:
        if options:
            run(options.replace(output_dir=folder))
        if exported and folder == output_dir:  # as of the chief
            saved_model.run(exported)


def check_strip(strip_checkpoint: bool, do_train: bool) -> None:
    """Raises ValueError if --strip_checkpoint may meet an unfinished run.

    Only programs call this: the chosen one of several trials is evaluated with
    options without `do_train`.
    """
    if strip_checkpoint and not do_train:
        raise ValueError(
            "--strip_checkpoint removes what training needs; give --do_train, "
            "too, and the flags of the run. A finished run trains nothing."
        )
