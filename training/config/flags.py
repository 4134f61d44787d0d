"""Flags made of options classes, and options made of the parsed flags.

Only programs import this. `define` makes a flag of each field: name, type,
default and help come from the field. `read` makes the options.
"""

import dataclasses
import textwrap
from collections.abc import Collection, Iterator
from typing import Any

from absl import flags

from data import settings

FLAGS = flags.FLAGS
# The flags belong to the program that calls `define`: its --help shows them.
flags.disclaim_key_flags()

# These may differ between the workers of a run.
_PLACES = ("output_dir", "export_dir", "tfds_data_dir")
_ABSL = "absl."
# Marks a flag that the original lacks.
_NEW = "[new] "
_WIDTH = 80  # columns of --help
_DEFINE = {
    bool: flags.DEFINE_bool,
    int: flags.DEFINE_integer,
    float: flags.DEFINE_float,
    str: flags.DEFINE_string,
}


def define(
    options_class: type,
    *,
    only: Collection[str] | None = None,
    is_new: bool = False,
    **defaults: Any,
) -> None:
    """Defines the flags of an options class and of the groups in it.

    A flag that is defined already stays as it is: several classes may read it.
    A flag is required if its field has no default and cannot be None. `only`
    these fields get flags, None = all; groups keep theirs. `is_new` tells that
    the original's program has none of them. `defaults` replace the fields'.
    """
    for field in settings.flat_fields(options_class):
        in_group = field.owner is not options_class
        is_asked = only is None or field.name in only or in_group
        if field.flag and is_asked and field.flag not in FLAGS:
            # The docstring's first line is the flags' title in --help.
            title = field.owner.__doc__.split("\n", 1)[0].rstrip(".")
            _define_flag(field, title, is_new, defaults)


def _define_flag(
    field: settings.Field, title: str, is_new: bool, defaults: dict[str, Any]
) -> None:
    """Defines the flag of a field; absl keeps the title as its module."""
    default = defaults.get(field.name, field.default)
    is_required = default is dataclasses.MISSING and not field.is_optional
    if default is dataclasses.MISSING:
        default = None
    meaning = field.setting.help
    if is_new and not meaning.startswith(_NEW):
        meaning = _NEW + meaning
    make, choices = _DEFINE.get(field.type, flags.DEFINE_list), ()
    if field.setting.choices is not None:
        make, choices = flags.DEFINE_enum, (field.setting.choices,)
    elif field.setting.parse:
        make, default = flags.DEFINE_string, ",".join(map(str, default))
    elif field.item and default is not None:
        default = list(default)
    how = {"module_name": title, "required": is_required}
    make(field.flag, default, *choices, meaning, **how)


def read(options_class: type, **values: Any) -> Any:
    """Makes options of a class from the parsed flags.

    `values` replace those of the flags, see `settings.make`. Fields without a
    flag keep their defaults; a field `given` holds the names of the flags that
    the command gives. Raises ValueError if a value is out of bounds, or values
    contradict each other.
    """
    found = {
        field.flag: _value(field)
        for field in settings.flat_fields(options_class)
        if field.flag in FLAGS
    }
    found["given"] = frozenset(n for n in FLAGS if FLAGS[n].present)
    return settings.make(options_class, found | values)


def _value(field: settings.Field) -> Any:
    """The value of a flag; a list has items of the field's type."""
    found = value(field.flag)
    if field.setting.parse or field.item is None or found is None:
        return found
    try:
        return field.type(map(field.item, found))
    except ValueError as error:
        raise ValueError(
            f"--{field.flag}={','.join(found)}: {error}; give numbers, as 1,2."
        ) from None


def value(name: str) -> Any:
    """The parsed value of a flag."""
    return FLAGS[name].value


def given(name: str) -> Any:
    """The value of a flag; None if the command does not give it."""
    return value(name) if FLAGS[name].present else None


def given_values() -> dict[str, Any]:
    """Flag -> value, for the flags that the command gives."""
    return {flag.name: flag.value for flag in _own_flags() if flag.present}


def refuse_unread(known: Collection[str], reader: str) -> None:
    """Raises ValueError for a flag of the command that is not `known`.

    A boolean that has its default is accepted. `reader` says in the error what
    does not read the flag.
    """
    for flag in _own_flags():
        is_asked = not flag.boolean or flag.value != flag.default
        if flag.present and is_asked and flag.name not in known:
            raise ValueError(
                f"--{flag.name}: {reader} does not read it; leave it out, or "
                "give it to a command of its own."
            )


def help_text(is_full: bool = False) -> str:
    """Describes the flags by groups: the required ones, the original's, ours.

    Of ours it has a line each. `is_full` has the whole texts of all, and adds
    absl's own flags, such as the ones for the log.
    """
    groups: dict[str, list[str]] = {"Required": []}
    ours: dict[str, list[str]] = {}
    of_absl = []
    for title, defined in FLAGS.flags_by_module_dict().items():
        if title.startswith(_ABSL):
            of_absl.append(FLAGS.module_help(title).strip() + "\n")
            continue
        for flag in defined:
            if flag.validators:
                groups["Required"].append(_entry(flag))
            elif is_full or _NEW not in flag.help:
                groups.setdefault(title, []).append(_entry(flag))
            else:
                ours.setdefault(f"{_NEW}{title}", []).append(_line(flag))
    lines = []
    for title, entries in (groups | ours).items():
        if entries:
            lines += [f"{title}:", *entries, ""]
    return "\n".join(lines + of_absl if is_full else lines)


def _name(flag: flags.Flag) -> str:
    return f"  --{'[no]' if flag.boolean else ''}{flag.name}: "


def _line(flag: flags.Flag) -> str:
    """Name and meaning of a flag on one line, without its choices."""
    meaning = flag.help.partition(_NEW)[2]
    room = _WIDTH - len(_name(flag))
    return _name(flag) + textwrap.shorten(meaning, room, placeholder=" ...")


def _entry(flag: flags.Flag) -> str:
    """Name, meaning and default of a flag."""
    text = _name(flag) + flag.help
    if default := (flag.default_as_str or "").strip("'"):
        text += f" Default: {default}."
    return flags.text_wrap(text, indent="      ", firstline_indent="  ")


def shared_values() -> dict[str, object]:
    """Flag -> value, for the flags that all workers must be given alike."""
    return {f.name: f.value for f in _own_flags() if f.name not in _PLACES}


def _own_flags() -> Iterator[flags.Flag]:
    """Yields all flags but absl's, which are those of the log."""
    for module, defined in FLAGS.flags_by_module_dict().items():
        if not module.startswith(_ABSL):
            yield from defined
