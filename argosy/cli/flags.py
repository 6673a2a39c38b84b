"""Flags from dataclasses, with errors of one line."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import re
import sys
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TextIO, TypeVar, cast

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


@_REGISTRY.primitive_rule
def _arguments(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Mapping[str, object]] | None:
    """Read arguments for a class of the user's own, e.g. of `--net.encoder`, as a JSON object."""
    if typing.get_origin(info.type) is not Mapping:
        return None
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="JSON",
        instance_from_str=lambda args: _json_object(args[0]),
        is_instance=lambda value: isinstance(value, Mapping),
        str_from_instance=lambda value: [json.dumps(dict(value))],
    )


def _json_object(text: str) -> Mapping[str, object]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ValueError(f"{text!r} is no JSON object such as '{{\"momentum\": 0.9}}'")
    return found


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
        raise ConfigError(_first_message(errors.getvalue())) from None
    sys.stderr.write(errors.getvalue())
    if unknown:
        wrong = next((arg.partition("=")[0] for arg in unknown if arg.startswith("-")), None)
        if wrong is None:
            raise ConfigError(f"unexpected argument {unknown[0]!r}; {prog} --help lists the options")
        own = [name for name, hint in typing.get_type_hints(flags).items() if not dataclasses.is_dataclass(hint)]
        known = [f"--{name.replace('_', '-')}" for name in (*names, *own)]
        raise ConfigError(f"unknown flag {wrong!r}: {nearest_setting(wrong, known)}")
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
    message = " ".join(lines) or "the command line cannot be read"
    return re.sub(r"^Error parsing (?!-)\S+: ", "", message)  # our configs name themselves
