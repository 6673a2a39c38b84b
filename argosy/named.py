"""Classes by name: those that were registered, and "MODULE:CLASS"; imported when they are needed."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import TypeAlias, cast

from argosy.errors import ConfigError, nearest

Maker: TypeAlias = Callable[..., object]
Source: TypeAlias = tuple[Maker | str, str | None]
"""A class (or a function that makes its like), or a name and the module that holds it."""


class Registry:
    """What names stand for.

    Args:
        kind: of the things, for error messages.
        known: by name.
    """

    def __init__(self, kind: str, known: Mapping[str, Source] | None = None) -> None:
        self._kind = kind
        self._sources = dict(known or {})

    def __contains__(self, name: object) -> bool:
        return name in self._sources

    def names(self) -> list[str]:
        """Return the registered names."""
        return sorted(self._sources)

    def register(self, name: str, cls: Maker | str, module: str | None = None) -> None:
        """Give a class a name.

        Raises:
            ConfigError: the name is taken, or a class's name came without module.
        """
        if name in self._sources:
            raise ConfigError(f"{self._kind} {name!r} is registered already")
        if isinstance(cls, str) and module is None:
            raise ConfigError(f"{self._kind} {name!r}: a class given by its name ({cls!r}) needs module=...")
        self._sources[name] = (cls, module)

    def source(self, name: str) -> Source:
        """Return what `register` was given for a name, or the parts of "MODULE:CLASS".

        Raises:
            ConfigError: it is neither; the nearest name is offered.
        """
        if name in self._sources:
            return self._sources[name]
        if ":" not in name:
            raise ConfigError(f"unknown {self._kind} {name!r}; {nearest(name, self._sources)}")
        module, cls = name.split(":", 1)
        return cls, module

    def load(self, name: str) -> Maker:
        """Return the class behind a name.

        Raises:
            ConfigError: there is none, or it cannot be imported.
        """
        cls, module = self.source(name)
        if not isinstance(cls, str):
            return cls
        assert module is not None
        try:
            return cast(Maker, getattr(importlib.import_module(module), cls))
        except (ImportError, AttributeError) as error:
            raise ConfigError(
                f"{self._kind} {name!r}: {cls!r} could not be imported from {module!r}: {error}"
            ) from error
