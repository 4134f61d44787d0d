"""Fine-tuning tasks: their examples and the scores of predictions.

rows         tab- or comma-separated tables and JSON lines to rows
python_rows  tables that are Python objects to JSON lines
table_files  files of a user's table: names, formats, separators
splits       a dev set drawn from the train set
examples     the classes of examples
task         the base class of tasks, and their registration
glue         the nine tasks of GLUE, its diagnostic set, XNLI
choice       SWAG, CODAH, RACE
conll        a label for each word: CoNLL-2003, CoNLL-U
user         tables of the user
tfds         tasks whose examples come from tensorflow-datasets

class_weights  weights of the labels in the training loss
"""

import importlib
import inspect
import pkgutil
from collections.abc import Mapping
from typing import Any

from data.settings import nearest
from data.tasks.examples import (  # noqa: F401
    ChoiceExample,
    InputExample,
    TaggingExample,
)
from data.tasks.task import (  # noqa: F401
    KINDS,
    DataProcessor,
    Task,
    make_task,
    register,
    task_class,
    task_names,
)
from data.tasks.tfds import make_tfds_task

# Options that name the files of a table; without a folder they are whole paths.
FILES = ("train_file", "dev_file", "test_file")
# A data set of tensorflow-datasets has splits and typed values, not files.
_OF_FILES = (*FILES, "quoted", "separator", "drop_missing")

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")


def get_task(name: str, data_dir: str | None, **options: Any) -> Task:
    """Creates a task by its name, one of `task_names`; not case-sensitive.

    Without `data_dir`, examples are read from tensorflow-datasets: the data set
    `tfds` ("" = the task's default) in `tfds_data_dir`. Other options are those
    of the task's class, such as `language` of xnli. None = not given.
    """
    key = name.lower()
    require_task(name)
    options = {o: value for o, value in options.items() if value is not None}
    tfds, folder = options.pop("tfds", None), options.pop("tfds_data_dir", None)
    unread, where = (), ""
    if tfds is not None:
        unread, where = _OF_FILES, f" with --tfds={tfds}"
    known = [option for option in task_options(name) if option not in unread]
    for option in options:
        if option not in known:
            raise ValueError(
                f"--task_name={name}{where} has no option --{option}; it takes "
                f"{', '.join(known) or 'none'}."
            )
    if data_dir and tfds is not None:
        raise ValueError(
            f"--data_dir={data_dir} and --tfds={tfds}: give one, not both."
        )
    if data_dir or (tfds is None and any(map(options.get, FILES))):
        return make_task(key, data_dir or "", options)
    if tfds is None:
        named = f" or files (--{', --'.join(FILES)})," * (FILES[0] in known)
        raise ValueError(
            f"--task_name={name}: give --data_dir, the folder of its files,"
            f"{named} or --tfds."
        )
    return make_tfds_task(key, tfds, folder, options)


def has_dev_file(
    name: str, data_dir: str | None, options: Mapping[str, Any]
) -> bool:
    """Whether a table, given as to `get_task`, has a file of its dev set."""
    names = task_options(name).keys() - {"dev_share"}
    options = {n: value for n, value in options.items() if n in names}
    task = make_task(name.lower(), data_dir or "", options)
    return bool(task.files.beside_train("dev"))


def require_task(name: str) -> None:
    """Raises ValueError with the nearest name if there is no such task."""
    key = name.lower()
    if key not in task_names():
        raise ValueError(
            f"--task_name={name}: no such task{nearest(key, task_names())}; "
            f"there are {', '.join(task_names())}."
        )


def task_options(name: str) -> dict[str, Any]:
    """The options of a task, each with its default."""
    parameters = inspect.signature(task_class(name.lower())).parameters
    return {n: p.default for n, p in parameters.items() if n != "data_dir"}
