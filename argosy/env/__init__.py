"""Vector environments and their workers, adapters, wrappers, the registry of tasks and the env checker.

Names are imported when they are first used, so that a spawned worker process imports only what it runs (no torch).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argosy.env.adapters import GymVectorEnv, as_vector_env
    from argosy.env.atari import AtariPreprocessing
    from argosy.env.base import AsyncVectorEnv, Info, Obs, Received, VectorEnv, info_column
    from argosy.env.check import Finding, check_env
    from argosy.env.config import EnvConfig
    from argosy.env.environment import (
        Environment,
        PettingzooAEC,
        PettingzooParallel,
        StepResult,
        make_environment,
        register,
        registered_environments,
        test_environment,
    )
    from argosy.env.norm import VectorEnvNormObs, VectorEnvNormReward, VectorEnvWrapper
    from argosy.env.pettingzoo import PettingZooEnv, PettingZooParallelEnv
    from argosy.env.pool import EnvPoolVectorEnv
    from argosy.env.registry import make_vector_env, task_family, task_spaces
    from argosy.env.vector import BaseVectorEnv
    from argosy.env.venvs import DummyVectorEnv, RayVectorEnv, ShmemVectorEnv, SubprocVectorEnv
    from argosy.env.wrappers import (
        ActionMaskFromInfo,
        ContinuousToDiscrete,
        FrameStack,
        MultiDiscreteToDiscrete,
        TruncatedAsTerminated,
    )

_HOME = {
    "ActionMaskFromInfo": "wrappers",
    "AsyncVectorEnv": "base",
    "AtariPreprocessing": "atari",
    "BaseVectorEnv": "vector",
    "ContinuousToDiscrete": "wrappers",
    "DummyVectorEnv": "venvs",
    "EnvConfig": "config",
    "EnvPoolVectorEnv": "pool",
    "Environment": "environment",
    "Finding": "check",
    "FrameStack": "wrappers",
    "GymVectorEnv": "adapters",
    "Info": "base",
    "MultiDiscreteToDiscrete": "wrappers",
    "Obs": "base",
    "PettingZooEnv": "pettingzoo",
    "PettingZooParallelEnv": "pettingzoo",
    "PettingzooAEC": "environment",
    "PettingzooParallel": "environment",
    "RayVectorEnv": "venvs",
    "Received": "base",
    "ShmemVectorEnv": "venvs",
    "StepResult": "environment",
    "SubprocVectorEnv": "venvs",
    "TruncatedAsTerminated": "wrappers",
    "VectorEnv": "base",
    "VectorEnvNormObs": "norm",
    "VectorEnvNormReward": "norm",
    "VectorEnvWrapper": "norm",
    "as_vector_env": "adapters",
    "check_env": "check",
    "info_column": "base",
    "make_environment": "environment",
    "make_vector_env": "registry",
    "register": "environment",
    "registered_environments": "environment",
    "task_family": "registry",
    "task_spaces": "registry",
    "test_environment": "environment",
}

__all__ = [
    "ActionMaskFromInfo",
    "AsyncVectorEnv",
    "AtariPreprocessing",
    "BaseVectorEnv",
    "ContinuousToDiscrete",
    "DummyVectorEnv",
    "EnvConfig",
    "EnvPoolVectorEnv",
    "Environment",
    "Finding",
    "FrameStack",
    "GymVectorEnv",
    "Info",
    "MultiDiscreteToDiscrete",
    "Obs",
    "PettingZooEnv",
    "PettingZooParallelEnv",
    "PettingzooAEC",
    "PettingzooParallel",
    "RayVectorEnv",
    "Received",
    "ShmemVectorEnv",
    "StepResult",
    "SubprocVectorEnv",
    "TruncatedAsTerminated",
    "VectorEnv",
    "VectorEnvNormObs",
    "VectorEnvNormReward",
    "VectorEnvWrapper",
    "as_vector_env",
    "check_env",
    "info_column",
    "make_environment",
    "make_vector_env",
    "register",
    "registered_environments",
    "task_family",
    "task_spaces",
    "test_environment",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
