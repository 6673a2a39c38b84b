"""What configs share: range checks, to and from JSON, changes by name.

A config is a frozen keyword-only dataclass beside its class. What these functions refuse is a ConfigError that names
the setting, its value and what is allowed; of an unknown name the nearest known one.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
import operator
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import TypedDict, TypeVar, Unpack, cast

from argosy.errors import ConfigError, nearest
from argosy.named import code_name
from argosy.synonyms import nearest_setting

T = TypeVar("T")

Plain = None | bool | int | float | str | list["Plain"] | dict[str, "Plain"]
"""What JSON can hold."""


class Bounds(TypedDict, total=False):
    """Of a number: >=, >, <=, <."""

    ge: float
    gt: float
    le: float
    lt: float


_SIGNS = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}


def check_range(config: object, *fields: str, **bounds: Unpack[Bounds]) -> None:
    """Check numeric fields of `config`; None is right, tuples of numbers are checked element by element."""
    for field in fields:
        value = getattr(config, field)
        for number in value if isinstance(value, tuple) else () if value is None else (value,):
            if not all(getattr(operator, name)(number, bound) for name, bound in bounds.items()):
                allowed = " and ".join(f"{_SIGNS[name]} {bound}" for name, bound in bounds.items())
                raise ConfigError(f"{type(config).__name__}.{field} is {value!r}; it must be {allowed}")


def check_choice(config: object, field: str, allowed: tuple[object, ...]) -> None:
    """Check that one field of `config` is among the `allowed` values."""
    value = getattr(config, field)
    if value not in allowed:
        choices = ", ".join(repr(choice) for choice in allowed)
        raise ConfigError(f"{type(config).__name__}.{field} is {value!r}; it must be one of {choices}")


def limited(default: T, *, among: tuple[object, ...] | None = None, **bounds: Unpack[Bounds]) -> T:
    """Return a dataclass's field with a default, and a range or choices to which `check_limits` holds it."""
    limits = bounds if among is None else {"allowed": among}
    return dataclasses.field(default=default, metadata={"limits": limits})


def check_limits(config: object) -> None:
    """Check all fields of `config`: numbers, choices and parts by their annotations, what is `limited` by its limits.

    A whole number may be written 1e6, a tuple as a list, a part as a dict; NaN is never right. Limits hold where a
    subclass has another default, too.
    """
    own: type = type(config)
    for name, hint in _judged(own).items():
        object.__setattr__(config, name, _convert(hint, getattr(config, name), f"{own.__name__}.{name}"))
    for cls in own.__mro__:
        for name, field in vars(cls).get("__dataclass_fields__", {}).items():
            limits = field.metadata.get("limits")
            if limits is not None:
                (check_choice if "allowed" in limits else check_range)(config, name, **limits)
    for name in _judged(own):
        value = getattr(config, name)
        if any(isinstance(x, float) and math.isnan(x) for x in (value if isinstance(value, tuple) else (value,))):
            raise ConfigError(f"{own.__name__}.{name} is {value!r}; it must be a number")


class Checked:
    """Base of configs all of whose fields are checked when they are made, see `check_limits`."""

    def __post_init__(self) -> None:
        check_limits(self)


def name_code(config: object, field: str) -> None:
    """Let a class or function that stands in a field, or in its tuple, be known by its name (see `code_name`)."""

    def named(value: object) -> object:
        return code_name(value) if callable(value) else value

    value = getattr(config, field)
    value = tuple(map(named, value)) if isinstance(value, tuple | list) else named(value)
    object.__setattr__(config, field, value)  # of a frozen dataclass


def to_plain(value: object) -> Plain:
    """Turn a config into what JSON can hold: dataclasses become dicts, tuples become lists."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ConfigError(f"{value!r} ({type(value).__name__}) cannot be written into a config file")


def from_plain(expected: type[T], data: object, name: str = "") -> T:
    """Make a config of the dataclass `expected` from what `to_plain` returned; absent keys take their defaults.

    Args:
        expected: the dataclass; its annotations say what each key may hold.
        data: the dict; dataclasses that are already made may stand in it.
        name: where `data` comes from, for error messages.
    """
    return cast(T, _convert(expected, data, name))


def replaced(config: T, changes: Mapping[str, object], name: str = "") -> T:
    """Return a copy of the dataclass `config` with `changes`.

    A nested config changes by a dict, `{"env": {"num_envs": 4}}`, or by a key with dots, `{"env.num_envs": 4}`; where
    both are about a setting, the key with dots counts.
    """
    if not dataclasses.is_dataclass(config) or isinstance(config, type):
        raise ConfigError(f"{name or 'config'} is {config!r}; it has no settings of its own")
    groups: dict[str, dict[str, object]] = {}
    values: dict[str, object] = {}
    hints, prefix = _hints(type(config)), f"{name}.".removeprefix("config.") if name else ""  # as users name it
    for key, value in sorted(changes.items(), key=lambda change: "." in change[0]):
        first, _, rest = key.partition(".")
        full = prefix + first
        if first not in hints:
            known = [prefix + hint for hint in hints]
            raise ConfigError(f"unknown setting {full!r} of {type(config).__name__}: {nearest_setting(full, known)}")
        if rest:
            groups.setdefault(first, {})[rest] = value
        elif isinstance(value, Mapping) and dataclasses.is_dataclass(getattr(config, first)):
            groups.setdefault(first, {}).update(value)
        else:
            values[first] = _convert(hints[first], value, full)
    for first, inner in groups.items():
        values[first] = replaced(values.get(first, getattr(config, first)), inner, prefix + first)
    return cast(T, dataclasses.replace(config, **values))


def check_arguments(
    call: Callable[..., object], given: Mapping[str, object], name: str, *, first: Sequence[str] = ()
) -> None:
    """Check the keyword arguments `given` against the signature of a function or class, before it is called elsewhere.

    `name` is theirs, for the error; `first` says what the call will give without name, before these.
    """
    every = list(inspect.signature(call).parameters.values())
    places = [p for p in every if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    parameters = [p for p in every if p not in places[: len(first)]]
    known = {p.name: p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    anything = any(p.kind is p.VAR_KEYWORD for p in parameters)
    shown = getattr(call, "__name__", repr(call))
    if len(places) < len(first) and not any(p.kind is p.VAR_POSITIONAL for p in every):
        raise ConfigError(
            f"{name}: {shown} takes {len(places)} arguments without name, but is called with {' and '.join(first)} "
            "first; let it take what it is called with"
        )
    for key in given:
        if key not in known and not anything:
            hint = nearest(key, known) if known else "it takes none"
            raise ConfigError(f"{name} holds {key!r}, which {shown} does not take: {hint}")
    missing = [key for key, p in known.items() if p.default is p.empty and key not in given]
    if missing:
        raise ConfigError(f"{name} lacks {', '.join(missing)}, which {shown} needs")
    try:
        hints = typing.get_type_hints(call.__init__ if isinstance(call, type) else call)  # type: ignore[misc]  # a class's own
    except (NameError, TypeError):  # names that only a type checker sees
        return
    for key, value in given.items():
        if _is_plain(hints.get(key)):
            _convert(hints[key], value, f"{name}[{key!r}]")


def _is_plain(hint: object, *, text: bool = True) -> bool:
    """Whether `_convert` can judge values of a type: numbers, text, choices, configs, and tuples and unions of them."""
    if dataclasses.is_dataclass(hint) or hint in (bool, int, float, type(None)):
        return True
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType, tuple):
        return all(arg is Ellipsis or _is_plain(arg, text=text) for arg in args)
    return origin is typing.Literal or (text and hint is str)


@functools.cache
def _judged(cls: type) -> dict[str, object]:
    """Return the fields of a dataclass that `_convert` judges when it is made; text may stand for code, see there."""
    try:
        return {name: hint for name, hint in _hints(cls).items() if _is_plain(hint, text=False)}
    except (NameError, TypeError):  # names that only a type checker sees
        return {}


def _hints(cls: type) -> dict[str, object]:
    """Return the types of a dataclass's fields, in order."""
    hints = typing.get_type_hints(cls)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls)}


def _convert(expected: object, value: object, name: str) -> object:
    """Check `value` against an annotation; lists become tuples, dicts become dataclasses, ints become floats."""
    origin, args = typing.get_origin(expected), typing.get_args(expected)
    if expected is object:
        return value
    if expected is str and callable(value):
        return code_name(value)
    if origin in (typing.Union, types.UnionType):
        return _convert_union(args, value, name)
    if origin is typing.Literal:
        if value in args:
            return value
    elif origin in (tuple, list) and isinstance(value, list | tuple):
        kinds = list(args) if origin is tuple and args[-1] is not Ellipsis else [args[0]] * len(value)
        if len(kinds) == len(value):
            return origin(_convert(kinds[i], item, f"{name}[{i}]") for i, item in enumerate(value))
    elif origin in (dict, Mapping) and isinstance(value, Mapping):
        return {str(key): _convert(args[1], item, f"{name}.{key}") for key, item in value.items()}
    elif isinstance(expected, type):
        if dataclasses.is_dataclass(expected) and isinstance(value, Mapping):
            return _convert_dataclass(expected, value, name)
        if expected is float and not isinstance(value, bool | float) and isinstance(value, Real):  # numpy's, too
            return float(value)
        if expected is int and not isinstance(value, int) and isinstance(value, Real) and float(value).is_integer():
            return round(value)
        if isinstance(value, expected) and not (isinstance(value, bool) and expected in (int, float)):
            return value
    shown = expected.__name__ if isinstance(expected, type) else str(expected).replace("typing.", "")
    if origin is typing.Literal:
        shown = f"one of {', '.join(map(repr, args))}"
    elif origin is tuple and args[-1] is Ellipsis:
        shown = f"a tuple: ({value!r},)"
    raise ConfigError(f"{name or 'config'} is {value!r}; it must be {shown}")


def _convert_union(choices: tuple[object, ...], value: object, name: str) -> object:
    if type(value) in choices:
        return value
    errors = []
    for choice in choices:
        try:
            if choice is not type(None):
                return _convert(choice, value, name)
        except ConfigError as error:
            errors.append(error)
    if len(errors) == 1:
        raise errors[0]
    shown = " or ".join(getattr(choice, "__name__", str(choice)) for choice in choices)
    raise ConfigError(f"{name} is {value!r}; it must be {shown.replace('NoneType', 'None')}")


def _convert_dataclass(cls: type, data: Mapping[str, object], name: str) -> object:
    hints = _hints(cls)
    prefix = f"{name}." if name else ""
    for key in data:
        if key not in hints:
            raise ConfigError(f"unknown key {prefix + key!r} of {cls.__name__}: {nearest_setting(key, hints)}")
    required = [f.name for f in dataclasses.fields(cls) if f.default is f.default_factory is dataclasses.MISSING]
    if missing := sorted(set(required) - set(data)):
        raise ConfigError(f"{name or cls.__name__} lacks {', '.join(missing)}")
    return cls(**{key: _convert(hints[key], value, prefix + key) for key, value in data.items()})
