"""Does one run after another."""

from collections.abc import Callable, Mapping
from typing import TypeVar

from absl import logging

from training.config.run_options import DeviceOptions
from training.devices.strategy import check_together, create_strategy

Settings = TypeVar("Settings")
Outcome = TypeVar("Outcome")


def repeat(
    what: str,
    runs: Mapping[str, Settings],
    run: Callable[[Settings], Outcome],
    device: DeviceOptions,
    may_fail: tuple[type[Exception], ...] = (),
) -> tuple[dict[str, Outcome], dict[str, str]]:
    """Does one run after another; `runs` are name -> the argument of `run`.

    `what` is a word for the log, such as `Task`. Several workers of `device`
    begin each run together. `may_fail` are errors of a run that do not stop the
    others. Returns name -> what `run` returned, and name -> why it failed.
    """
    outcomes, failures = {}, {}
    for number, (name, settings) in enumerate(runs.items(), start=1):
        place = what, number, len(runs), name
        logging.info("***** %s %d of %d: %s *****", *place)
        point = f"{name}, with {', '.join(failures) or 'none'} failed before"
        check_together(create_strategy(device), f"{what} {point}")
        try:
            outcomes[name] = run(settings)
        except may_fail as error:
            logging.error("%s failed: %s", name, error)
            failures[name] = str(error)
    return outcomes, failures
