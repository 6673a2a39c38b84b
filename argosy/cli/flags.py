"""Flags from dataclasses, with errors of one line."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import re
import sys
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TextIO, TypeVar, cast

import tyro
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from argosy.errors import ConfigError
from argosy.synonyms import nearest_setting

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class SideBySide:
    """What commands take that may make several runs."""

    jobs: int = 0
    """How many of several runs side by side; 0: as many as cores."""
    address: str | None = None
    """Ray cluster on whose machines they run (auto: the one of this machine); these share the folder of the runs."""
    json: bool = False
    """Print the result as one line of JSON, last, on standard output."""
    quiet: bool = False
    """No progress bar and no report."""

    @property
    def stream(self) -> TextIO:
        """Where reports go: standard output is left to the line of JSON, if there is one."""
        return sys.stderr if self.json else sys.stdout


_REGISTRY = ConstructorRegistry()


def _read(
    kind: Any, metavar: str, read: Callable[[list[str]], object], write: Callable[[Any], list[str]], **more: Any
) -> None:
    """Let flags of a type be read, and their defaults written, by functions of ours."""
    of, within, how = typing.get_origin(kind) or kind, typing.get_args(kind), {"nargs": 1, **more}

    @_REGISTRY.primitive_rule
    def rule(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[object] | None:
        if (typing.get_origin(info.type) or info.type, typing.get_args(info.type)) != (of, within):
            return None
        return PrimitiveConstructorSpec(
            metavar=metavar,
            instance_from_str=read,
            is_instance=lambda value: isinstance(value, of),
            str_from_instance=write,
            **how,
        )


def _json_object(text: str) -> Mapping[str, object]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ValueError(f"{text!r} is no JSON object such as '{{\"momentum\": 0.9}}'")
    return found


def _whole(text: str) -> int:
    with contextlib.suppress(ValueError):
        if (number := float(text)).is_integer():
            return int(number) if "e" in text.lower() else int(text)
    raise ValueError(f"{text!r} is no whole number such as 64 or 1e6")


def _two(args: list[str]) -> tuple[float, float]:
    text = ",".join(args)
    with contextlib.suppress(ValueError):
        first, second = map(float, text.split(","))
        return first, second
    raise ValueError(f"{text!r} are no two numbers such as 0.9 0.999")


_read(Mapping[str, object], "JSON", lambda args: _json_object(args[0]), lambda value: [json.dumps(dict(value))])
_read(int, "INT", lambda args: _whole(args[0]), lambda value: [str(value)])
_read(
    tuple[int, ...],
    "[INT [INT ...]]",
    lambda args: tuple(map(_whole, filter(None, ",".join(args).split(",")))),
    lambda value: list(map(str, value)),
    nargs="*",
)
_read(tuple[float, float], "FLOAT FLOAT", _two, lambda value: list(map(str, value)), nargs="*")
_read(type(None), "{None}", lambda args: None, lambda value: ["None"], choices=("None", "none"))


def check_once(args: Sequence[str]) -> None:
    """Refuse a flag that is given twice, of which the last alone would count."""
    flags = [arg.partition("=")[0].replace("_", "-") for arg in args if re.match("--[A-Za-z]|-[A-Za-z]$", arg)]
    if twice := [flag for flag in flags if flags.count(flag) > 1]:
        raise ConfigError(f"{twice[0]} is given twice; give it once, several values as {twice[0]} ONE ANOTHER")


def gathered(settings: Mapping[str, object], args: Sequence[str]) -> list[str]:
    """Let `--env.kwargs.size 3 --env.kwargs.name left` stand for `--env.kwargs '{"size": 3, "name": "left"}'`.

    What is no JSON is a text.
    """
    found = {name: dict(value) for name, value in settings.items() if isinstance(value, Mapping)}
    changed, rest, items = set(), [], iter(args)
    for arg in items:
        flag, equals, value = arg.partition("=")
        section, _, key = flag.removeprefix("--").replace("-", "_").rpartition(".")
        if not flag.startswith("--") or section not in found:
            rest.append(arg)
            continue
        text = value if equals else next(items, None)
        if text is None:
            raise ConfigError(f"{flag} needs a value")
        try:
            found[section][key] = json.loads(text)
        except ValueError:
            found[section][key] = text
        changed.add(section)
    for section in sorted(changed):
        rest += [f"--{section.replace('_', '-')}", json.dumps(found[section])]
    return rest


def parse(
    flags: type[T],
    args: Sequence[str],
    *,
    prog: str,
    default: T | None = None,
    names: Iterable[str] = (),
) -> T:
    """Read the arguments of the command `prog` into the dataclass `flags`; `--help` prints them, and exits.

    Args:
        flags: the dataclass.
        args: the command line behind the command.
        prog: the command, for messages.
        default: values of flags that are not given.
        names: flags to offer for a misspelt one, beside the fields of `flags`.
    """
    check_once(args)
    errors = io.StringIO()
    try:
        with contextlib.redirect_stderr(errors):
            parsed, unknown = tyro.cli(
                flags,
                args=list(args),
                prog=prog,
                default=tyro.MISSING_NONPROP if default is None else default,
                return_unknown_args=True,
                registry=_REGISTRY,
            )
    except SystemExit as exit_:
        if exit_.code in (0, None):
            raise
        raise ConfigError(_by_flag(_first_message(errors.getvalue()))) from None
    except ConfigError as error:  # of the outermost settings
        raise ConfigError(_by_flag(f"Error parsing Flags: {error}")) from error
    sys.stderr.write(errors.getvalue())
    if unknown:
        wrong = next((arg.partition("=")[0] for arg in unknown if arg.startswith("-")), None)
        if wrong is None:
            switch = "a switch takes no value: --double or --no-double, --net.norm-obs or --net.no-norm-obs; "
            hint = switch if unknown[0].lower() in ("true", "false") else ""
            raise ConfigError(f"unexpected argument {unknown[0]!r}; {hint}{prog} --help lists the options")
        own = [name for name, hint in typing.get_type_hints(flags).items() if not dataclasses.is_dataclass(hint)]
        known = [f"--{name.replace('_', '-')}" for name in (*names, *own)]
        hint = nearest_setting(wrong, known)
        hint = hint if hint.startswith("did") else getattr(flags, "others", hint)
        raise ConfigError(f"unknown flag {wrong!r}: {hint}")
    return cast(T, parsed)


def _first_message(box: str) -> str:
    """Return the first paragraph under the title of tyro's boxed error (drawn with ASCII where need be) as one line."""
    lines: list[str] = []
    for line in box.splitlines()[1:]:
        text = line.strip("│| \t")
        if not text.strip("─-╰╯+"):
            if lines:
                break
        else:
            lines.append(text)
    return " ".join(lines) or "the command line cannot be read"


def _by_flag(message: str) -> str:
    """Name the flag in the place of the config that has refused a value, or tyro's words for it."""

    def flag(found: re.Match[str]) -> str:
        return f"--{'.'.join(filter(None, found.groups()))} is ".replace("_", "-") if found[2] else ""

    return re.sub(r"^Error parsing (?:Flags|config)?\.?([^-:]\S*)?: (?:[A-Z]\w*\.(\w+) is )?", flag, message)
