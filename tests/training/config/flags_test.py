import dataclasses

import pytest
from absl import flags as absl_flags

from data.settings import Settings, group, setting
from training.config import flags


class Inner(Settings):
    t_size: int = setting(8, "Rows.", least=1)
    t_steps: int = setting(help="Steps.")
    t_place: str = setting(help="Folder.")


class Outer(Settings):
    name: str | None = setting(None, "[new] Name.", flag="t_name")
    t_rates: tuple[float, ...] = setting((), "Rates.")
    t_words: list[str] | None = setting(None, "Words.")
    t_share: float = setting(0.5, "Share.")
    t_fuse: bool | None = setting(None, "Fuse.")
    t_kind: str = setting("a", "Kind.", choices=("a", "b"))
    t_layers: tuple[int, ...] = setting(
        (1, 2), "Layers.", parse=lambda text: tuple(map(int, text.split("+")))
    )
    facts: dict = dataclasses.field(default_factory=dict)
    inner: Inner = group(t_steps=1)


@pytest.fixture
def parse():
    before = set(absl_flags.FLAGS)

    def parse(*arguments):
        absl_flags.FLAGS(["program", *arguments])

    yield parse
    for name in set(absl_flags.FLAGS) - before:
        delattr(absl_flags.FLAGS, name)


def test_defaults(parse):
    flags.define(Outer, t_size=4)
    parse("--t_place=x", "--t_layers=3")
    assert flags.read(Outer) == Outer(
        t_layers=(3,), inner=Inner(t_size=4, t_steps=1, t_place="x")
    )
    assert "t_steps" not in absl_flags.FLAGS
    assert flags.value("t_layers") == "3"
    assert flags.given("t_size") is None
    assert flags.given("t_place") == "x"


def test_values(parse):
    flags.define(Outer)
    parse(
        *("--t_name=n", "--t_rates=1,2e-5", "--t_words=v,w", "--t_share=1"),
        *("--t_fuse", "--t_kind=b", "--t_layers=5+6"),
        *("--t_size=2", "--t_place=x"),
    )
    assert flags.read(Outer, facts={"a": 1}, t_place="y") == Outer(
        name="n",
        t_rates=(1.0, 2e-5),
        t_words=["v", "w"],
        t_share=1.0,
        t_fuse=True,
        t_kind="b",
        t_layers=(5, 6),
        facts={"a": 1},
        inner=Inner(t_size=2, t_steps=1, t_place="y"),
    )


def test_only_flags_that_are_not_given_are_filled(parse):
    flags.define(Outer)
    parse("--t_place=x", "--t_size=8", "--t_layers=3")
    for name, value in {"t_size": 2, "t_share": 0.25, "t_fuse": True}.items():
        flags.FLAGS.set_default(name, value)
    options = flags.read(Outer)
    assert options.inner.t_size == 8
    assert (options.t_share, options.t_fuse) == (0.25, True)


def test_a_field_without_a_default_is_required(parse):
    flags.define(Outer)
    with pytest.raises(absl_flags.IllegalFlagValueError, match="--t_place mus"):
        parse()


def test_bad_values_are_refused(parse):
    flags.define(Outer)
    parse("--t_place=x", "--t_rates=1,b", "--t_size=0")
    message = "--t_rates=1,b: could not convert .*; give numbers, as 1,2"
    with pytest.raises(ValueError, match=message):
        flags.read(Outer)
    with pytest.raises(ValueError, match="--t_size=0; it must be at least 1."):
        flags.read(Inner, t_steps=1)


def test_some_flags_of_a_class_all_of_them_new(parse):
    flags.define(Outer, only=["name", "t_share"], is_new=True)
    helps = {
        name: absl_flags.FLAGS[name].help
        for name in absl_flags.FLAGS
        if name.startswith("t_")
    }
    # Groups are always defined.
    assert helps.pop("t_size") == "[new] Rows."
    assert helps.pop("t_place") == "[new] Folder."
    assert helps == {"t_name": "[new] Name.", "t_share": "[new] Share."}


def test_workers_may_have_other_places(parse, monkeypatch):
    monkeypatch.setattr(flags, "_PLACES", ("t_place",))
    flags.define(Inner, t_steps=5)
    parse("--t_place=x")
    shared = flags.shared_values()
    assert shared["t_steps"] == 5
    assert "t_place" not in shared
    assert "verbosity" not in shared
