"""Configs: checks, to and from plain data, changes by name."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Literal

import numpy as np
import pytest

from argosy.config import (
    check_arguments,
    check_choice,
    check_limits,
    check_range,
    from_plain,
    limited,
    replaced,
    to_plain,
)
from argosy.errors import ConfigError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Inner:
    width: int = 4
    sizes: tuple[int, ...] = (1, 2)

    def __post_init__(self):
        check_range(self, "width", ge=1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outer:
    lr: float = 0.5
    name: str
    kind: Literal["a", "b"] = "a"
    alpha: float | Literal["auto"] = "auto"
    limit: int | None = None
    flag: bool = False
    pair: tuple[int, float] = (1, 2.0)
    table: Mapping[str, float] = dataclasses.field(default_factory=dict)
    inner: Inner = Inner()


FULL = Outer(
    lr=1e-3, name="n", kind="b", alpha=0.2, limit=7, flag=True, pair=(3, 4.0), table={"x": 1.0}, inner=Inner(sizes=())
)


@pytest.mark.parametrize("config", [Outer(name="n"), FULL])
def test_json_round_trip_gives_an_equal_config(config):
    assert from_plain(Outer, json.loads(json.dumps(to_plain(config)))) == config


def test_plain_form_is_plain():
    assert to_plain(Inner()) == {"width": 4, "sizes": [1, 2]}


def test_ints_become_floats_and_absent_keys_defaults():
    config = from_plain(Outer, {"name": "n", "lr": 1, "alpha": 1})
    assert (config.lr, config.limit, config.alpha) == (1.0, None, 1.0)
    assert isinstance(config.lr, float)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"name": "n", "lrr": 1}, r"unknown key 'run.lrr' of Outer: did you mean 'lr'\?"),
        ({"name": "n", "inner": {"widht": 1}}, r"unknown key 'run.inner.widht' of Inner: did you mean 'width'\?"),
        ({}, "run lacks name"),
        ({"name": 3}, r"run.name is 3; it must be str"),
        ({"name": "n", "lr": "fast"}, r"run.lr is 'fast'; it must be float"),
        ({"name": "n", "lr": True}, r"run.lr is True; it must be float"),
        ({"name": "n", "flag": 1}, r"run.flag is 1; it must be bool"),
        ({"name": "n", "kind": "c"}, r"run.kind is 'c'; it must be one of 'a', 'b'"),
        ({"name": "n", "limit": 1.5}, r"run.limit is 1.5; it must be int"),
        ({"name": "n", "alpha": "x"}, r"run.alpha is 'x'; it must be float or"),
        ({"name": "n", "pair": [1]}, r"run.pair is \[1\]; it must be tuple\[int, float\]"),
        ({"name": "n", "inner": {"sizes": [1, "b"]}}, r"run.inner.sizes\[1\] is 'b'; it must be int"),
        ({"name": "n", "inner": {"width": 0}}, r"Inner.width is 0; it must be >= 1"),
        ({"name": "n", "inner": [1]}, r"run.inner is \[1\]; it must be Inner"),
        ([1], r"run is \[1\]; it must be Outer"),
    ],
)
def test_bad_plain_data_is_refused_by_name(data, message):
    with pytest.raises(ConfigError, match=message):
        from_plain(Outer, data, "run")


def test_what_cannot_be_written_is_refused():
    with pytest.raises(ConfigError, match="cannot be written"):
        to_plain({"f": print})


def test_replaced_takes_dicts_and_dotted_names():
    config = Outer(name="n")
    by_dict = replaced(config, {"lr": 1, "inner": {"width": 9}})
    by_dots = replaced(config, {"lr": 1.0, "inner.width": 9})
    whole = replaced(config, {"lr": 1.0, "inner": Inner(width=9)})
    assert by_dict == by_dots == whole == Outer(name="n", lr=1.0, inner=Inner(width=9))
    assert config == Outer(name="n")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lrr": 1}, r"unknown setting 'lrr' of Outer: did you mean 'lr'\?"),
        ({"inner.widht": 1}, r"unknown setting 'inner.widht' of Inner: did you mean 'inner.width'\?"),
        ({"inner": {"width": 1.5}}, r"inner.width is 1.5; it must be int"),
        ({"inner.width": 0}, r"Inner.width is 0"),
        ({"lr.x": 1}, r"lr is 0.5; it has no settings of its own"),
    ],
)
def test_replaced_refuses_by_name(changes, message):
    with pytest.raises(ConfigError, match=message):
        replaced(Outer(name="n"), changes)


def test_range_and_choice_name_field_value_and_allowed():
    with pytest.raises(ConfigError, match=r"Inner.sizes is \(1, -2\); it must be >= 0 and < 10"):
        check_range(Inner(sizes=(1, -2)), "sizes", ge=0, lt=10)
    with pytest.raises(ConfigError, match=r"Inner.width is 4; it must be one of 1, 2"):
        check_choice(Inner(), "width", (1, 2))
    check_range(Outer(name="n"), "limit", ge=1)


def hull(
    wood, sails: int = 2, length: float | None = None, *, kind: Literal["sloop", "yawl"] = "sloop", **rest: object
):
    pass


class Rig:
    def __init__(self, wood, masts: int):
        pass


@pytest.mark.parametrize(
    ("call", "given", "message"),
    [
        (hull, {"sails": "two"}, r"args\['sails'\] is 'two'; it must be int"),
        (hull, {"kind": "brig"}, "must be"),
        (Rig, {}, "lacks masts, which Rig needs"),
        (Rig, {"mast": 2}, "'mast', which Rig does not take: did you mean 'masts'"),
    ],
)
def test_arguments_are_checked_against_a_signature(call, given, message):
    with pytest.raises(ConfigError, match=message):
        check_arguments(call, given, "args", first=("the harbour",))


def test_what_is_given_first_needs_a_place():
    with pytest.raises(ConfigError, match=r"args: <lambda> takes 1 arguments without name, but is called with a and b"):
        check_arguments(lambda hull, *, sails=1: None, {}, "args", first=("a", "b"))
    check_arguments(lambda *hulls, sails=1: None, {"sails": 2}, "args", first=("a", "b"))


def test_right_arguments_pass():
    check_arguments(hull, {"sails": 3, "length": 2, "kind": "yawl", "anything": 1}, "args", first=("the harbour",))
    check_arguments(Rig, {"masts": 2}, "args", first=("the harbour",))
    check_arguments(lambda: None, {}, "args")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Boat:
    crew: int | None = limited(2, ge=1, lt=9)
    sheets: tuple[float, ...] = limited((0.5,), gt=0.0)
    rig: Literal["sloop", "ketch"] = limited("sloop", among=("sloop", "ketch"))
    name: str = dataclasses.field(default="Argo", metadata={"of": "a user's own"})

    def __post_init__(self):
        check_limits(self)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Yacht(Boat):
    crew: int | None = 4
    berths: int = limited(6, ge=0)
    draught: float | None = None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"crew": 9}, r"Yacht.crew is 9; it must be >= 1 and < 9"),
        ({"sheets": (1.0, 0.0)}, r"Yacht.sheets is \(1.0, 0.0\); it must be > 0"),
        ({"rig": "yawl"}, r"Yacht.rig is 'yawl'; it must be one of 'sloop', 'ketch'"),
        ({"berths": -1}, r"Yacht.berths is -1; it must be >= 0"),
        ({"berths": 1.5}, r"Yacht.berths is 1.5; it must be int"),
        ({"berths": None}, r"Yacht.berths is None; it must be int"),
        ({"sheets": 2.0}, r"Yacht.sheets is 2.0; it must be a tuple: \(2.0,\)"),
        ({"sheets": (float("nan"),)}, r"Yacht.sheets is \(nan,\); it must be > 0"),
        ({"draught": float("nan")}, r"Yacht.draught is nan; it must be a number"),
    ],
)
def test_limits_stand_beside_defaults_and_hold_in_subclasses_with_others(given, message):
    assert (Boat().crew, Yacht().crew, Yacht(crew=None).crew, Boat.crew) == (2, 4, None, 2)
    with pytest.raises(ConfigError, match=message):
        Yacht(**given)


@pytest.mark.parametrize(("berths", "first"), [(1e1, 1), (np.int64(10), np.float32(1)), (np.float32(10), np.int8(1))])
def test_whole_numbers_may_be_floats_tuples_lists_and_numbers_numpys(berths, first):
    yacht = Yacht(berths=berths, sheets=[first, 2.5])
    assert (yacht.berths, yacht.sheets) == (10, (1.0, 2.5))
    assert isinstance(yacht.berths, int)
    assert from_plain(Yacht, json.loads(json.dumps(to_plain(yacht)))) == yacht
