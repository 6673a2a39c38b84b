"""Algorithms, one file each, found through the table in `table.pyi`. Importing this package loads none of them.

An algorithm goes by the name of its file: `dqn`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from argosy.errors import ConfigError, nearest
from argosy.lazy import getter, read_table
from argosy.named import Registry

if TYPE_CHECKING:
    from argosy.algorithm.base import Algorithm as Algorithm
    from argosy.algorithm.base import AlgorithmConfig as AlgorithmConfig
    from argosy.algorithm.optim import OptimConfig as OptimConfig
    from argosy.algorithm.table import *  # noqa: F403  # all of it, and nothing else
    from argosy.algorithm.task import Task as Task
    from argosy.algorithm.wrapper import AlgorithmWrapper as AlgorithmWrapper
    from argosy.algorithm.wrapper import register_algorithm_wrapper as register_algorithm_wrapper


_TABLE = read_table(__file__)
EXPORTS = {name: module for module, names in _TABLE.items() for name in names}
"""Classes and configs of all algorithms, by the modules that define them."""

_SHARED = dict.fromkeys(("Algorithm", "AlgorithmConfig"), "argosy.algorithm.base")
_SHARED |= {"OptimConfig": "argosy.algorithm.optim", "Task": "argosy.algorithm.task"}
_SHARED |= dict.fromkeys(("AlgorithmWrapper", "register_algorithm_wrapper"), "argosy.algorithm.wrapper")

ALGORITHMS = {module.rpartition(".")[2]: (names[0], module) for module, names in _TABLE.items()}
"""Name -> (class, module)."""

_REGISTRY = Registry("algorithm", ALGORITHMS)

register_algorithm = _REGISTRY.register
"""Give an algorithm of one's own a name, for `train`, experiments and fleets."""

remember_algorithm = _REGISTRY.remember
"""Let a name stand for a class in this process, as it does in the one that sent both."""


def algorithm_class(algorithm: str | type[Algorithm[Any, Any]]) -> type[Algorithm[Any, Any]]:
    """Return the class of an algorithm by its name, of the table or registered, by "MODULE:CLASS", or as it is.

    Raises:
        ConfigError: there is none (offers the nearest name), it cannot be imported, or it is no algorithm.
    """
    name = algorithm_name(algorithm)
    if name not in _REGISTRY and ":" not in name:
        hint = "one of your own is given as MODULE:CLASS, or registered first (argosy.register_algorithm)"
        raise ConfigError(f"unknown algorithm {name!r}: {nearest(name, _REGISTRY.names())} ({hint})")
    found = _REGISTRY.load(name)
    from argosy.algorithm.base import Algorithm  # here, because it needs torch

    if not (isinstance(found, type) and issubclass(found, Algorithm)):
        raise ConfigError(f"algorithm {name!r} is {found!r}; it must be a subclass of argosy.Algorithm")
    from argosy.algorithm.wrapper import AlgorithmWrapper

    if issubclass(found, AlgorithmWrapper):
        raise ConfigError(f"{found.__name__} goes around an algorithm: name it in `wrap`, and that one as algorithm")
    lacks = [has for has in ("kind", "config_type", "action_spaces") if not hasattr(found, has)]
    if lacks := lacks + sorted(found.__abstractmethods__):
        raise ConfigError(f"algorithm {found.__name__} has no {' and no '.join(lacks)}; see help(argosy.Algorithm)")
    return found


def algorithm_name(algorithm: str | type[Algorithm[Any, Any]]) -> str:
    """Return the name of a class, for experiments: a known one or "MODULE:CLASS". A name stays as it is."""
    return algorithm if isinstance(algorithm, str) else _REGISTRY.name_of(algorithm)


def algorithm_names() -> list[str]:
    """Return the names of all algorithms: those of the table, then those that were registered."""
    return [*ALGORITHMS, *(name for name in _REGISTRY.names() if name not in ALGORITHMS and ":" not in name)]


if not TYPE_CHECKING:  # who checks types has read the table
    __getattr__ = getter(__name__, _SHARED | EXPORTS)


def __dir__() -> list[str]:
    return sorted({*globals(), *EXPORTS, *_SHARED})
