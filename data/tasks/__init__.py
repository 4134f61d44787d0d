"""Fine-tuning tasks: what their files hold, and how predictions are scored.

rows         tab- or comma-separated tables and JSON lines to rows
python_rows  tables that are Python objects to JSON lines
examples     what one example of a task is
task         what a task is, and how one is added
glue         the nine tasks of GLUE and its diagnostic set
xnli         XNLI
swag         SWAG and CODAH
race         RACE
conll        a label for every word: CoNLL-2003, CoNLL-U
user         the user's own table
tfds         the same tasks from tensorflow-datasets
"""

import difflib
import importlib
import inspect
import pkgutil
from typing import Any

from data.tasks.examples import (
    ChoiceExample,
    Example,
    InputExample,
    PaddingInputExample,
    TaggingExample,
)
from data.tasks.task import (
    KINDS,
    DataProcessor,
    Submission,
    Task,
    make_task,
    register,
    task_class,
    task_names,
)
from data.tasks.tfds import make_tfds_task

__all__ = [
    "KINDS",
    "ChoiceExample",
    "DataProcessor",
    "Example",
    "InputExample",
    "PaddingInputExample",
    "Submission",
    "TaggingExample",
    "Task",
    "get_task",
    "register",
    "require_task",
    "task_names",
    "task_options",
]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")


def get_task(
    name: str,
    data_dir: str | None,
    *,
    tfds: str | None = None,
    tfds_data_dir: str | None = None,
    **options: Any,
) -> Task:
    """Makes a task by its name.

    Args:
      name: one of `task_names`; not case-sensitive.
      data_dir: folder of its files; None or "" = from tensorflow-datasets.
      tfds: name of a data set there; None or "" = the task's own.
      tfds_data_dir: where such data sets are.
      **options: of this task (see its class), such as `language` of xnli;
        None = not given.

    Returns:
      The task.

    Raises:
      ValueError: there is no such task, or an option is not for it.
    """
    key = name.lower()
    require_task(name)
    options = {o: value for o, value in options.items() if value is not None}
    known = task_options(key)
    for option in options:
        if option not in known:
            raise ValueError(
                f"--{option} is no option of --task_name={name}, which takes "
                f"{', '.join(known) or 'none'}."
            )
    if data_dir and tfds:
        raise ValueError(
            f"--data_dir={data_dir} and --tfds={tfds} both say where the "
            "examples are; give one."
        )
    if data_dir:
        return make_task(key, data_dir, options)
    if tfds is None:
        raise ValueError(
            f"--task_name={name}: give --data_dir, the folder of its files, or "
            "--tfds."
        )
    return make_tfds_task(key, tfds, tfds_data_dir, options)


def require_task(name: str) -> None:
    """Refuses a name that `get_task` does not take, and says the nearest."""
    key = name.lower()
    if key not in task_names():
        nearest = difflib.get_close_matches(key, task_names(), n=1)
        raise ValueError(
            f"--task_name={name}: no such task"
            + (f" (the nearest is {nearest[0]})" if nearest else "")
            + f"; there are {', '.join(task_names())}."
        )


def task_options(name: str) -> tuple[str, ...]:
    """The options that `get_task` takes for a task."""
    cls = task_class(name.lower())
    options = inspect.signature(cls).parameters
    return tuple(o for o in options if o not in ("data_dir", "source"))
