import dataclasses
import math

import numpy as np
import pytest

from data.settings import Settings, check_names, fields_of, group, make, setting


class Inner(Settings):
    size: int = setting(8, "Rows.", least=1)
    share: float = setting(0.5, "Share.", least=0, most=1)
    folder: str = setting("a", "Folder.")


class Outer(Settings):
    kind: str | None = setting(None, "Kind.", choices=("", "x", "y"))
    rates: tuple[float, ...] = setting((), "Rates.", flag="some_rates")
    rate: float = setting(1.0, "Rate.", above=0, most=1, flag="the_rate")
    epochs: float = setting(3.0, "Epochs.", above=0)
    folder: str = setting(help="Folder.")
    inner: Inner = group(size=3)
    other: Inner | None = None

    def _check(self):
        if self.kind == "x" and self.rate == 1:
            raise ValueError("--kind=x contradicts --the_rate=1.")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"size": 0}, "--size=0; it must be at least 1."),
        ({"share": -0.1}, "--share=-0.1; it must be 0 to 1."),
        ({"share": 1.1}, "--share=1.1; it must be 0 to 1."),
        ({"share": float("nan")}, "--share=nan; it must be 0 to 1."),
        ({"rate": 0.0}, "--the_rate=0.0; it must be above 0, and 1 at most."),
        ({"rate": 1.5}, "--the_rate=1.5; it must be above 0, and 1 at most."),
        ({"epochs": float("inf")}, "--epochs=inf; it must be above 0."),
        ({"kind": "z"}, "--kind=z; it must be one of x, y."),
        ({"kind": "x"}, "--kind=x contradicts --the_rate=1."),
    ],
)
def test_values_out_of_bounds_are_refused(changed, message):
    with pytest.raises(ValueError) as error:
        Outer(folder="b", inner=Inner()).replace(**changed)
    assert str(error.value) == message


def test_values_at_the_bounds():
    Inner(size=1, share=0.0)
    Outer(kind="", rate=1.0, folder="", inner=Inner(share=1.0))


def test_values_are_made_of_the_types_of_their_fields():
    made = make(
        Outer,
        {
            "some_rates": np.array([1, 2], np.float32),
            "the_rate": np.int64(1),
            "share": 1,
            "folder": np.str_("b"),
        },
    )
    assert made == Outer(
        rates=(1.0, 2.0),
        rate=1.0,
        folder="b",
        inner=Inner(size=3, share=1.0, folder="b"),
    )
    values = (*made.rates, made.rate, made.inner.share, made.folder)
    assert [type(value) for value in values] == [float] * 4 + [str]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"folder": 3}, "--folder=3; it must be a string"),
        ({"share": True}, "--share=True; it must be a number"),
        ({"some_rates": 0.5}, "--some_rates=0.5; it must be a list, each item"),
        ({"some_rates": "ab"}, "--some_rates='ab'; it must be a list, each it"),
        ({"some_rates": ["a"]}, r"--some_rates=\['a'\]; it must be a list"),
        (
            {"some_rates": [math.nan]},
            r"--some_rates=\[nan\]; it must be a list",
        ),
        ({"the_rate": math.nan}, "--the_rate=nan; it must be a number"),
        ({"size": None}, "--size=None; it must be a whole number"),
    ],
)
def test_values_of_another_type_are_refused(changed, message):
    with pytest.raises(ValueError, match=message):
        make(Inner if "size" in changed else Outer, {"folder": "b"} | changed)


def test_a_value_is_replaced_wherever_it_is():
    before = Outer(kind="y", folder="b", inner=Inner(), other=Inner())
    inner = Inner(folder="c")
    assert before.replace(folder="c", rates=(1.0,)) == Outer(
        kind="y", folder="c", rates=(1.0,), inner=inner, other=inner
    )
    assert before.inner.folder == "a"


def test_fields():
    fields = {field.name: field for field in fields_of(Outer)}
    assert fields["kind"].type is str
    assert fields["kind"].is_optional
    assert fields["rates"].item is float
    assert fields["rates"].flag == "some_rates"
    assert fields["folder"].default is dataclasses.MISSING
    assert fields["inner"].is_group
    assert fields["inner"].fixed == {"size": 3}
    # It may be None, if it is not given.
    assert not fields["other"].is_group
    assert fields["other"].flag is None


def test_a_name_that_is_no_setting_is_refused_with_the_nearest():
    names = {"kind", "rate"}
    check_names(["kind", "rate"], names | {"folder"}, "")
    fault = r"no setting 'rates' \(the nearest is rate\); give kind or rate."
    with pytest.raises(ValueError, match=fault):
        check_names(["kind", "rates"], names, "give kind or rate")
    with pytest.raises(ValueError, match="no setting 'zzz'; give kind or rate"):
        check_names(["kind", "zzz"], names, "give kind or rate")
