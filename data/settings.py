"""Options classes: a field states its default, its help and its bounds once.

    class Options(Settings):
        batch_size: int = setting(32, "Rows of a batch.", least=1)

The programs' flags and their help come from such classes, see
`training.config.flags`. A value out of bounds is refused when the options are
made: `--batch_size=0; it must be at least 1.`
"""

import dataclasses
import difflib
import functools
import math
import typing
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

# Types of settings, as errors call them.
_EXPECTED = {
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    str: "a string",
}


class Setting(NamedTuple):
    """Help and bounds of a field; see `setting`.

    A value, or each of a list, is at least `least`, `above` this value and at
    most `most` (which comes with one of them), or one of `choices`. `flag` is
    the flag's name; None = the field's. `parse` converts the flag's text, or
    Python's value in its place, for types that absl does not know.
    """

    help: str
    least: float | None = None
    most: float | None = None
    above: float | None = None
    choices: Sequence[str] | None = None
    flag: str | None = None
    parse: Callable[[Any], Any] | None = None

    def holds(self, value: Any) -> bool:
        """Whether a value is within the bounds; None always is."""
        return value is None or (
            (self.least is None or self.least <= value < math.inf)
            and (self.most is None or value <= self.most)
            and (self.above is None or self.above < value < math.inf)
            and (self.choices is None or value in self.choices)
        )

    @property
    def expected(self) -> str:
        """The bounds in words, such as `at least 1`."""
        if self.choices is not None:
            return f"one of {', '.join(filter(None, self.choices))}"
        if self.above is not None:
            most = "" if self.most is None else f", and {self.most} at most"
            return f"above {self.above}{most}"
        if self.most is not None:
            return f"{self.least} to {self.most}"
        return f"at least {self.least}"


class Field(NamedTuple):
    """A field of an options class.

    `type` is without `| None` (`is_optional`), a list's is `list` or `tuple`
    and `item` the type of its items. A `default` of `dataclasses.MISSING` = the
    value is required. A field without `setting` has no flag. `fixed` are, for
    options within options, values that have no flag there.
    """

    owner: type
    name: str
    type: Any
    item: type | None
    default: Any
    is_optional: bool
    setting: Setting | None
    fixed: Mapping[str, Any]

    @property
    def flag(self) -> str | None:
        """The name of its flag; None = it has none."""
        return self.setting and (self.setting.flag or self.name)

    @property
    def key(self) -> str:
        """The name of its flag, or its own."""
        return self.flag or self.name

    @property
    def is_group(self) -> bool:
        """Whether it always holds options of its own."""
        is_class = isinstance(self.type, type) and not self.is_optional
        return is_class and issubclass(self.type, Settings)


@typing.dataclass_transform(frozen_default=True, kw_only_default=True)
class Settings:
    """Base of options classes, each of which is a frozen dataclass.

    Values that are out of bounds or contradict each other raise ValueError.
    """

    def __init_subclass__(cls, kw_only: bool = True):
        dataclasses.dataclass(cls, frozen=True, kw_only=kw_only)

    def __post_init__(self):
        for field in fields_of(type(self)):
            value = getattr(self, field.name)
            values = value or () if field.item else [value]
            if field.setting and not all(map(field.setting.holds, values)):
                raise ValueError(
                    f"--{field.flag}={in_flag(value)}; it must be "
                    f"{field.setting.expected}."
                )
        self._check()

    def _check(self) -> None:
        """Refuses values that contradict each other; subclasses override it."""

    def _flat(self) -> Iterator[tuple[Field, Any]]:
        """Yields fields and values, those of groups in place of the group."""
        for field in fields_of(type(self)):
            value = getattr(self, field.name)
            if isinstance(value, Settings):
                yield from value._flat()
            else:
                yield field, value

    def find(self, name: str) -> Any:
        """Returns a field's value, in a group too; None = no such field."""
        found = (value for field, value in self._flat() if field.name == name)
        return next(filter(lambda value: value is not None, found), None)

    def changed(self) -> dict[str, Any]:
        """Returns flag -> value where it is not the default, groups included.

        A field without a flag has its own name.
        """
        return {f.key: value for f, value in self._flat() if value != f.default}

    def replace(self, **values: Any) -> Self:
        """Returns a copy with other values, wherever a field occurs."""
        changed = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Settings):
                value = value.replace(**values)
            changed[field.name] = values.get(field.name, value)
        return dataclasses.replace(self, **changed)


def setting(
    default: Any = dataclasses.MISSING, help: str = "", **bounds: Any
) -> Any:
    """Returns a dataclass field that is also a flag.

    Without a `default` the value must be given. `help` says what it means;
    `[new]` marks what the original release lacks. For `bounds` see `Setting`.
    """
    metadata = {"setting": Setting(help, **bounds)}
    return dataclasses.field(default=default, metadata=metadata)


# Settings that are None, or False, unless a value is given; and bounds.
optional = functools.partial(setting, None)
switch = functools.partial(setting, False)
positive = functools.partial(setting, least=1)
amount = functools.partial(setting, least=0)
share = functools.partial(setting, least=0, most=1)


def group(default: Any = dataclasses.MISSING, **fixed: Any) -> Any:
    """Returns a dataclass field for options within options.

    Such a field needs no `group` if all fields within it have flags. `fixed`
    are values of fields within it, which have no flags.
    """
    return dataclasses.field(default=default, metadata={"fixed": fixed})


def make(options_class: type, values: Mapping[str, Any]) -> Any:
    """Makes options from values that are not sorted into groups.

    `values` are flag -> value, or field -> value for a field without a flag. A
    value holds wherever the field occurs, in groups too, but not where a group
    fixes it. Lists, tuples and NumPy's values are converted to the field's
    type; fields without a value have their default. Raises TypeError for a
    field without value and default; ValueError for a wrong type, a value out of
    bounds or values that contradict each other.
    """
    given = {}
    for field in fields_of(options_class):
        if field.is_group:
            given[field.name] = make(field.type, {**values, **field.fixed})
        elif field.key in values:
            given[field.name] = _converted(field, values[field.key])
    return options_class(**given)


@functools.cache
def typed(function: Callable) -> Callable:
    """Decorates a function: ValueError for a keyword of another type."""
    # The last annotation is what it returns.
    *fields, _ = ((*hint, None) for hint in function.__annotations__.items())
    options = dataclasses.make_dataclass(function.__name__, fields)

    @functools.wraps(function)
    def checked(*arguments, **values):
        make(options, values)
        return function(*arguments, **values)

    return checked


def _converted(field: Field, value: Any) -> Any:
    """Converts a value to a field's type; refuses other types."""
    if field.setting and field.setting.parse:
        return field.setting.parse(value)
    if hasattr(value, "tolist"):
        value = value.tolist()  # from NumPy
    if value is None and field.is_optional:
        return None
    kind = field.item or field.type
    if kind not in _EXPECTED:
        return value
    items, expected = [value], _EXPECTED[kind]
    if field.item:
        items, expected = value, f"a list, each item {expected}"
    if isinstance(items, list | tuple) and all(_is_a(kind, x) for x in items):
        return field.type(map(kind, items)) if field.item else kind(value)
    raise ValueError(f"--{field.key}={value!r:.60}; it must be {expected}.")


def _is_a(expected: type, value: Any) -> bool:
    """Returns whether a value has a type; a float may be written as an int."""
    if isinstance(value, bool):
        return expected is bool
    types = int | float if expected is float else expected
    return isinstance(value, types) and value == value  # not nan


def names_of(options_class: type) -> set[str]:
    """Returns the names of all fields that `make` takes values for."""
    return {field.key for field in flat_fields(options_class)}


def check_names(
    names: Collection[str], known: Collection[str], known_ones: str
) -> None:
    """Raises ValueError for unknown setting names, with the nearest known one.

    `known_ones` says what the known names are, for the error.
    """
    for name in names:
        if name not in known:
            near = nearest(name, known)
            raise ValueError(
                f"there is no setting {name!r}{near}; {known_ones}."
            )


def nearest(name: str, known: Collection[str]) -> str:
    """Returns ` (the nearest is X)` for an unknown name; "" = none is near."""
    found = difflib.get_close_matches(name, sorted(known), n=1)
    return f" (the nearest is {found[0]})" if found else ""


def flat_fields(options_class: type) -> Iterator[Field]:
    """Yields the fields of an options class, those of groups unless fixed."""
    for field in fields_of(options_class):
        if field.is_group:
            within = flat_fields(field.type)
            yield from (f for f in within if f.name not in field.fixed)
        else:
            yield field


def first_change(name: str, now: Any, before: Any) -> tuple[str, Any, Any]:
    """Returns the first flag in which two values of a field differ, and both.

    `name` is the field's; a group has several flags. For both see `in_flag`.
    """
    for field in flat_fields(type(now)) if isinstance(now, Settings) else ():
        values = [getattr(value, field.name) for value in (now, before)]
        if values[0] != values[1]:
            return field.flag, *map(in_flag, values)
    return name, in_flag(now), in_flag(before)


def in_flag(value: Any) -> Any:
    """A value as a command gives it: those of a list with commas between."""
    if isinstance(value, list | tuple):
        value = ",".join(map(str, value))
    return "''" if value == "" else value


@functools.cache
def fields_of(options_class: type) -> tuple[Field, ...]:
    """Returns the fields of an options class, groups unopened."""
    hints, found = typing.get_type_hints(options_class), []
    for field in dataclasses.fields(options_class):
        hint = hints[field.name]
        is_optional = type(None) in typing.get_args(hint)
        if is_optional:
            hint, _ = typing.get_args(hint)
        item = None
        if typing.get_origin(hint) in (list, tuple):
            item, hint = typing.get_args(hint)[0], typing.get_origin(hint)
        said = field.metadata.get("setting"), field.metadata.get("fixed", {})
        kind = hint, item, field.default, is_optional
        found.append(Field(options_class, field.name, *kind, *said))
    return tuple(found)
