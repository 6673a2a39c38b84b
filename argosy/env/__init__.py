"""Environments: tasks by name, vector environments and their workers, wrappers, games of several agents, the checker.

Names are imported when they are first used, so that a spawned worker process imports only what it runs (no torch).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argosy.env.agents.environment import Environment, StepResult
    from argosy.env.agents.pettingzoo import PettingZoo, PettingZooEnv, PettingZooParallelEnv
    from argosy.env.agents.registry import make_environment, register, registered_environments
    from argosy.env.atari import AtariPreprocessing
    from argosy.env.check import Finding, check_env, test_environment
    from argosy.env.config import EnvConfig
    from argosy.env.tasks import make_vector_env, task_family, task_spaces
    from argosy.env.vector.adapters import GymVectorEnv, as_vector_env
    from argosy.env.vector.base import BaseVectorEnv
    from argosy.env.vector.envpool import EnvPoolVectorEnv
    from argosy.env.vector.kinds import DummyVectorEnv, RayVectorEnv, ShmemVectorEnv, SubprocVectorEnv
    from argosy.env.vector.norm import VectorEnvNormObs, VectorEnvNormReward, VectorEnvWrapper
    from argosy.env.vector.protocol import AsyncVectorEnv, Infos, Obs, Received, VectorEnv, info_column
    from argosy.env.wrappers import (
        ActionMaskFromInfo,
        ContinuousToDiscrete,
        FrameStack,
        MultiDiscreteToDiscrete,
        TruncatedAsTerminated,
        register_wrapper,
    )

_HOME = {
    "ActionMaskFromInfo": "wrappers",
    "AsyncVectorEnv": "vector.protocol",
    "AtariPreprocessing": "atari",
    "BaseVectorEnv": "vector.base",
    "ContinuousToDiscrete": "wrappers",
    "DummyVectorEnv": "vector.kinds",
    "EnvConfig": "config",
    "EnvPoolVectorEnv": "vector.envpool",
    "Environment": "agents.environment",
    "Finding": "check",
    "FrameStack": "wrappers",
    "GymVectorEnv": "vector.adapters",
    "Infos": "vector.protocol",
    "MultiDiscreteToDiscrete": "wrappers",
    "Obs": "vector.protocol",
    "PettingZoo": "agents.pettingzoo",
    "PettingZooEnv": "agents.pettingzoo",
    "PettingZooParallelEnv": "agents.pettingzoo",
    "RayVectorEnv": "vector.kinds",
    "Received": "vector.protocol",
    "ShmemVectorEnv": "vector.kinds",
    "StepResult": "agents.environment",
    "SubprocVectorEnv": "vector.kinds",
    "TruncatedAsTerminated": "wrappers",
    "VectorEnv": "vector.protocol",
    "VectorEnvNormObs": "vector.norm",
    "VectorEnvNormReward": "vector.norm",
    "VectorEnvWrapper": "vector.norm",
    "as_vector_env": "vector.adapters",
    "check_env": "check",
    "info_column": "vector.protocol",
    "make_environment": "agents.registry",
    "make_vector_env": "tasks",
    "register": "agents.registry",
    "register_wrapper": "wrappers",
    "registered_environments": "agents.registry",
    "task_family": "tasks",
    "task_spaces": "tasks",
    "test_environment": "check",
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
    "Infos",
    "MultiDiscreteToDiscrete",
    "Obs",
    "PettingZoo",
    "PettingZooEnv",
    "PettingZooParallelEnv",
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
    "register_wrapper",
    "registered_environments",
    "task_family",
    "task_spaces",
    "test_environment",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
