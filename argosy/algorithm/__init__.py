"""Algorithms, one file each. Importing this package loads none of them (nor torch)."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from argosy.errors import ConfigError, nearest

if TYPE_CHECKING:
    from argosy.algorithm.base import Algorithm, AlgorithmConfig
    from argosy.algorithm.dqn import DQN, DQNConfig
    from argosy.algorithm.ppo import PPO, PPOConfig
    from argosy.algorithm.sac import SAC, SACConfig

__all__ = [
    "ALGORITHMS",
    "DQN",
    "PPO",
    "SAC",
    "Algorithm",
    "AlgorithmConfig",
    "DQNConfig",
    "PPOConfig",
    "SACConfig",
    "algorithm_class",
    "algorithm_names",
]

ALGORITHMS: dict[str, str] = {
    "dqn": "argosy.algorithm.dqn:DQN",
    "ppo": "argosy.algorithm.ppo:PPO",
    "sac": "argosy.algorithm.sac:SAC",
}
"""Name -> "module:class"."""

_LAZY = {
    "Algorithm": "argosy.algorithm.base",
    "AlgorithmConfig": "argosy.algorithm.base",
    "DQN": "argosy.algorithm.dqn",
    "DQNConfig": "argosy.algorithm.dqn",
    "PPO": "argosy.algorithm.ppo",
    "PPOConfig": "argosy.algorithm.ppo",
    "SAC": "argosy.algorithm.sac",
    "SACConfig": "argosy.algorithm.sac",
}


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


def __getattr__(name: str) -> object:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
