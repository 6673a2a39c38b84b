"""Environments: tasks by name, vector environments and their workers, wrappers, games of several agents, the checker.

Names are imported when they are first used, so that a spawned worker process imports only what it runs (no torch).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argosy.env.agents.environment import Environment as Environment
    from argosy.env.agents.environment import StepResult as StepResult
    from argosy.env.agents.pettingzoo import PettingZoo as PettingZoo
    from argosy.env.agents.pettingzoo import PettingZooEnv as PettingZooEnv
    from argosy.env.agents.pettingzoo import PettingZooParallelEnv as PettingZooParallelEnv
    from argosy.env.agents.registry import make_environment as make_environment
    from argosy.env.agents.registry import register as register
    from argosy.env.agents.registry import registered_environments as registered_environments
    from argosy.env.atari import AtariPreprocessing as AtariPreprocessing
    from argosy.env.check import Finding as Finding
    from argosy.env.check import check_env as check_env
    from argosy.env.check import test_environment as test_environment
    from argosy.env.config import EnvConfig as EnvConfig
    from argosy.env.tasks import make_vector_env as make_vector_env
    from argosy.env.tasks import task_family as task_family
    from argosy.env.tasks import task_spaces as task_spaces
    from argosy.env.vector.adapters import GymVectorEnv as GymVectorEnv
    from argosy.env.vector.adapters import as_vector_env as as_vector_env
    from argosy.env.vector.base import BaseVectorEnv as BaseVectorEnv
    from argosy.env.vector.envpool import EnvPoolVectorEnv as EnvPoolVectorEnv
    from argosy.env.vector.kinds import DummyVectorEnv as DummyVectorEnv
    from argosy.env.vector.kinds import RayVectorEnv as RayVectorEnv
    from argosy.env.vector.kinds import ShmemVectorEnv as ShmemVectorEnv
    from argosy.env.vector.kinds import SubprocVectorEnv as SubprocVectorEnv
    from argosy.env.vector.norm import VectorEnvNormObs as VectorEnvNormObs
    from argosy.env.vector.norm import VectorEnvNormReward as VectorEnvNormReward
    from argosy.env.vector.norm import VectorEnvWrapper as VectorEnvWrapper
    from argosy.env.vector.protocol import AsyncVectorEnv as AsyncVectorEnv
    from argosy.env.vector.protocol import Infos as Infos
    from argosy.env.vector.protocol import Obs as Obs
    from argosy.env.vector.protocol import Received as Received
    from argosy.env.vector.protocol import VectorEnv as VectorEnv
    from argosy.env.vector.protocol import info_column as info_column
    from argosy.env.wrappers import ActionMaskFromInfo as ActionMaskFromInfo
    from argosy.env.wrappers import ContinuousToDiscrete as ContinuousToDiscrete
    from argosy.env.wrappers import FrameStack as FrameStack
    from argosy.env.wrappers import MultiDiscreteToDiscrete as MultiDiscreteToDiscrete
    from argosy.env.wrappers import TruncatedAsTerminated as TruncatedAsTerminated
    from argosy.env.wrappers import register_wrapper as register_wrapper

_HOME = {
    name: module
    for module, names in {
        "agents.environment": "Environment StepResult",
        "agents.pettingzoo": "PettingZoo PettingZooEnv PettingZooParallelEnv",
        "agents.registry": "make_environment register registered_environments",
        "atari": "AtariPreprocessing",
        "check": "Finding check_env test_environment",
        "config": "EnvConfig",
        "tasks": "make_vector_env task_family task_spaces",
        "vector.adapters": "GymVectorEnv as_vector_env",
        "vector.base": "BaseVectorEnv",
        "vector.envpool": "EnvPoolVectorEnv",
        "vector.kinds": "DummyVectorEnv RayVectorEnv ShmemVectorEnv SubprocVectorEnv",
        "vector.norm": "VectorEnvNormObs VectorEnvNormReward VectorEnvWrapper",
        "vector.protocol": "AsyncVectorEnv Infos Obs Received VectorEnv info_column",
        "wrappers": "ActionMaskFromInfo ContinuousToDiscrete FrameStack MultiDiscreteToDiscrete "
        "TruncatedAsTerminated register_wrapper",
    }.items()
    for name in names.split()
}

if not TYPE_CHECKING:  # who checks types has read the imports above
    __all__ = sorted(_HOME)

    def __getattr__(name: str) -> object:
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
