"""Classes by name: those that were registered, and "MODULE:CLASS"; imported when they are needed.

A file of settings can hold such names, too, and who wrote it then chooses what is imported. So names in files count
only when the user has given them as well: registered, run or trusted in this process, or the very same settings were
written down by an earlier process of theirs in this working directory. Names that lead to nothing, or to what cannot be
used, are ConfigErrors.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import importlib
import json
import os
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from functools import partial
from operator import attrgetter
from pathlib import Path
from types import FunctionType, MethodType, ModuleType
from typing import TypeAlias, cast

from argosy.errors import ConfigError, TrustError, nearest

Maker: TypeAlias = Callable[..., object]
Source: TypeAlias = tuple[Maker | str, str | None]
"""A class (or a function that makes its like), or a name and the module that holds it."""

_TRUSTED: set[str] = set()
_GIVEN: dict[str, Maker] = {}
"""Classes and functions that the user gave themselves, by the names that settings and files have for them."""


def code_name(code: object) -> str:
    """Return "MODULE:NAME" of a class or function, by which this process finds it from now on.

    One that is defined anew takes the place of the one before; those inside of functions are numbered.
    """
    name = getattr(code, "__qualname__", None)
    if not callable(code) or name is None:
        raise ConfigError(
            f"{code!r} is neither a class nor a function; give one that makes it, as often as it is needed"
        )
    first = full = f"{code.__module__}:{name}"
    number = 1
    while "<" in name and _GIVEN.get(full, code) is not code:
        full = f"{first}#{(number := number + 1)}"
    _GIVEN[full] = code
    _TRUSTED.add(full)
    return full


def given_code(data: object) -> dict[str, Maker]:
    """Return the code that plain data names and that this process was given, for a process that was not."""
    names = {text.partition("(")[0] for _, text in _code(data)}
    return {name: _GIVEN[name] for name in sorted(names) if name in _GIVEN}


def take_code(code: Mapping[str, Maker]) -> None:
    """Find what `given_code` returned elsewhere by the same names here."""
    _GIVEN.update(code)
    _TRUSTED.update(code)


def trust_names(data: object) -> None:
    """Let files name all the code that is named in plain data."""
    _TRUSTED.update(name for _, name in _code(data))


def trust_written(data: object) -> None:
    """Let files name all the code that is named in plain data; files that hold just this in later processes, too.

    These must be of the same user, whose home has the note, and begin in the same folder, in which they find the code.
    """
    trust_names(data)
    if names_code(data) and not _is_written(data):
        with contextlib.suppress(OSError, RuntimeError):  # no home that can be written to: they ask
            _notes().parent.mkdir(parents=True, exist_ok=True)
            with _notes().open("a") as file:
                file.write(_note(data))


def check_trusted(data: object, file: str, *, but: Container[str] = (), trust: bool = False) -> None:
    """Check that plain data from a file names no code but what the user has named.

    Args:
        data: dicts and lists of numbers and text. A text with a colon in it counts as "MODULE:CLASS".
        file: where it comes from, for the error message.
        but: keys, with dots, whose values name no code.
        trust: let it name whatever it names.

    Raises:
        TrustError: it does; names it and says how to allow it.
    """
    if trust or (names_code(data, but) and _is_written(data)):
        trust_names(data)
    unknown = [f"{key} {name!r}" for key, name in _code(data) if name not in _TRUSTED and key not in but]
    if unknown:
        raise TrustError(
            f"{file} names code that would be imported: {', '.join(unknown)}; if you know what it does, allow it by "
            "--trust (in Python: trust=True), or register it under this name"
        )


def names_code(data: object, but: Container[str] = ()) -> bool:
    """Return whether plain data names code that a process which has not been given it would refuse."""
    return any(key not in but for key, _ in _code(data))


def _notes() -> Path:
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "argosy" / "written"


def _note(data: object) -> str:
    return hashlib.sha256(json.dumps([os.getcwd(), data], sort_keys=True).encode()).hexdigest() + "\n"


def _is_written(data: object) -> bool:
    try:
        return _note(data) in _notes().read_text().splitlines(keepends=True)
    except (OSError, RuntimeError, UnicodeDecodeError):
        return False


def _code(data: object, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield key and text of everything in plain data that may be "MODULE:CLASS"."""
    if isinstance(data, Mapping):
        for name, value in data.items():
            yield from _code(value, f"{key}.{name}" if key else str(name))
    elif isinstance(data, list | tuple):
        for value in data:
            yield from _code(value, key)
    elif isinstance(data, str) and ":" in data:
        yield key, data


def import_module(module: str, name: str) -> ModuleType:
    """Import the module of "MODULE:NAME", which is `name`."""
    if not all(part.isidentifier() for part in module.split(".")):
        raise ConfigError(f"{name!r} names no module: a name of one's own is MODULE:NAME, as in my_package.envs:MyEnv")
    try:
        return importlib.import_module(module)
    except (ImportError, SyntaxError) as error:
        raise ConfigError(f"module {module!r} could not be imported: {error}") from error


def check_maker(found: object, name: str, kind: str, has: Iterable[str] = ()) -> None:
    """Check, before it is called, that what was `found` under a name can make things of a kind.

    It must be a class that `has` these attributes, or a function in Python; not, say, `os.abort`, which nobody could
    call and go on.
    """
    lacks = [attribute for attribute in has if not hasattr(found, attribute)] if isinstance(found, type) else []
    if lacks:
        raise ConfigError(f"{kind} {name!r} is the class {found!r}, which has no {' and no '.join(lacks)}")
    if not isinstance(found, type | FunctionType | MethodType | partial):
        raise ConfigError(f"{kind} {name!r} is {found!r}; it must be a class, or a function written in Python")


class Registry:
    """What names of a kind stand for, at first those `known`; a class that makes such a thing `has` some attributes."""

    def __init__(self, kind: str, known: Mapping[str, Source] | None = None, has: Iterable[str] = ()) -> None:
        self._kind, self._has = kind, tuple(has)
        self._sources = dict(known or {})

    def __contains__(self, name: object) -> bool:
        return name in self._sources

    def names(self) -> list[str]:
        """Return the registered names."""
        return sorted(self._sources)

    def register(self, name: str, cls: Maker | str, module: str | None = None) -> None:
        """Give a class a name.

        Args:
            name: how settings call it.
            cls: the class, or a function that makes its like; or its name in `module`, which is imported when it is
                needed.
            module: needed with a class's name.

        Raises:
            ConfigError: the name is taken, or a class's name came without module.
        """
        if name in self._sources:
            raise ConfigError(f"{self._kind} {name!r} is registered already")
        if isinstance(cls, str) and module is None:
            raise ConfigError(f"{self._kind} {name!r}: a class given by its name ({cls!r}) needs module=...")
        self._sources[name] = (cls, module)
        _TRUSTED.add(name)

    def name_of(self, cls: Maker) -> str:
        """Return the name of a class or function; one that has none is known as "MODULE:CLASS" from now on."""
        for name, source in self._sources.items():
            if source in ((cls, None), (getattr(cls, "__qualname__", None), getattr(cls, "__module__", None))):
                return name
        return code_name(cls)

    def remember(self, name: str, cls: type) -> None:
        """Let a name stand for a class, whatever it stood for before (a class can be defined anew)."""
        self._sources[name] = (cls, None)
        _TRUSTED.add(name)

    def source(self, name: str) -> Source:
        """Return what `register` was given for a name, or the parts of "MODULE:CLASS"."""
        if name in self._sources:
            return self._sources[name]
        if name in _GIVEN:
            return _GIVEN[name], None
        if ":" not in name:
            hint = nearest(name, self._sources) if self._sources else "one of your own is MODULE:NAME"
            raise ConfigError(f"unknown {self._kind} {name!r}; {hint}")
        module, cls = name.split(":", 1)
        return cls, module

    def load(self, name: str) -> Maker:
        """Return the class behind a name."""
        cls, module = self.source(name)
        if not isinstance(cls, str):
            return cls
        assert module is not None
        try:
            found: object = attrgetter(cls)(import_module(module, name))
        except (ConfigError, AttributeError) as error:
            raise ConfigError(
                f"{self._kind} {name!r}: {cls!r} could not be imported from {module!r}: {error}{elsewhere(name)}"
            ) from error
        check_maker(found, name, self._kind, self._has)
        return cast(Maker, found)

    def call(self, text: str) -> tuple[Maker, dict[str, object]]:
        """Return the class behind "NAME", or "NAME(key=value, ...)" with the arguments."""
        name, bracket, _ = text.partition("(")
        cls = self.load(name)
        if not bracket:
            return cls, {}
        try:
            parsed = cast(ast.Call, ast.parse("_" + text.removeprefix(name), mode="eval").body)
            arguments = {cast(str, keyword.arg): ast.literal_eval(keyword.value) for keyword in parsed.keywords}
            understood = isinstance(parsed.func, ast.Name) and not parsed.args and None not in arguments
        except (SyntaxError, ValueError, AttributeError):
            understood = False
        if not understood:
            raise ConfigError(
                f"{self._kind} {text!r}: what stands in brackets must be keyword arguments with plain values, as in "
                f"'{name}(size=4)'"
            )
        return cls, arguments


def elsewhere(name: str) -> str:
    """Return what to do about "MODULE:NAME" that only the process which defined it can find; else nothing."""
    if not name.startswith("__main__:") and "<" not in name:
        return ""
    return "; it was defined in a script or inside of a function: move it to a module that can be imported from here"
