"""Names of a package that are imported when they are first used, so that importing the package costs little.

They stand once, in the package's `table.pyi`, whose lines type checkers read as imports.
"""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Callable, Mapping
from pathlib import Path


def read_table(package: str) -> dict[str, list[str]]:
    """Return what each module of a table exports, in its order; `package` is the path of the __init__.py beside it."""
    lines = ast.parse(Path(package).with_name("table.pyi").read_text(encoding="utf-8")).body
    return {str(line.module): [name.name for name in line.names] for line in lines if isinstance(line, ast.ImportFrom)}


def homes(package: str) -> dict[str, str]:
    """Return the module of each name in a table."""
    return {name: module for module, names in read_table(package).items() for name in names}


def getter(package: str, modules: Mapping[str, str]) -> Callable[[str], object]:
    """Return the `__getattr__` of a package some of whose names come from other modules, its own modules included."""

    def get(name: str) -> object:
        if name not in modules:
            module = f"{package}.{name}"
            if not name.startswith("_") and importlib.util.find_spec(module):
                return importlib.import_module(module)
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(modules[name]), name)

    return get
