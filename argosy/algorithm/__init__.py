"""Algorithms, one file each, found through the table in `table.pyi`. Importing this package loads none of them.

An algorithm goes by the name of its file: `dqn`.
"""

from __future__ import annotations

import ast
import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from argosy.errors import ConfigError, nearest

if TYPE_CHECKING:
    from argosy.algorithm.base import Algorithm as Algorithm
    from argosy.algorithm.base import AlgorithmConfig as AlgorithmConfig
    from argosy.algorithm.table import *  # noqa: F403  # all of it, and nothing else


def _read_table() -> dict[str, list[str]]:
    """Return what each module of the table exports, the algorithm's class first."""
    lines = ast.parse(Path(__file__).with_name("table.pyi").read_text(encoding="utf-8")).body
    return {str(line.module): [name.name for name in line.names] for line in lines if isinstance(line, ast.ImportFrom)}


_TABLE = _read_table()
EXPORTS = {name: module for module, names in _TABLE.items() for name in names}
"""Classes and configs of all algorithms, by the modules that define them."""

ALGORITHMS: dict[str, str] = {module.rpartition(".")[2]: f"{module}:{names[0]}" for module, names in _TABLE.items()}
"""Name -> "module:class"."""


def algorithm_class(name: str) -> type[Algorithm[Any, Any]]:
    """Return the class of an algorithm by its name.

    Raises:
        ConfigError: there is none; offers the nearest name.
    """
    if name not in ALGORITHMS:
        raise ConfigError(f"unknown algorithm {name!r}: {nearest(name, ALGORITHMS)}")
    module, cls = ALGORITHMS[name].split(":")
    found: type[Algorithm[Any, Any]] = getattr(importlib.import_module(module), cls)
    return found


def algorithm_names() -> list[str]:
    """Return the names of all algorithms."""
    return list(ALGORITHMS)


if not TYPE_CHECKING:  # who checks types has read the table

    def __getattr__(name: str) -> object:
        module = "argosy.algorithm.base" if name in ("Algorithm", "AlgorithmConfig") else EXPORTS.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(module), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *EXPORTS, "Algorithm", "AlgorithmConfig"})
