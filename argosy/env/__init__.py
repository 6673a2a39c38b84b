"""Vector environments and their workers, adapters, wrappers, the registry of tasks and the env checker."""

from argosy.env.adapters import GymVectorEnv, as_vector_env
from argosy.env.base import AsyncVectorEnv, Info, Obs, Received, VectorEnv, info_column
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
from argosy.env.pool import EnvPoolVectorEnv
from argosy.env.registry import make_vector_env, task_family, task_spaces
from argosy.env.vector import BaseVectorEnv
from argosy.env.venvs import DummyVectorEnv, ShmemVectorEnv, SubprocVectorEnv

__all__ = [
    "AsyncVectorEnv",
    "BaseVectorEnv",
    "DummyVectorEnv",
    "EnvConfig",
    "EnvPoolVectorEnv",
    "Environment",
    "GymVectorEnv",
    "Info",
    "Obs",
    "PettingzooAEC",
    "PettingzooParallel",
    "Received",
    "ShmemVectorEnv",
    "StepResult",
    "SubprocVectorEnv",
    "VectorEnv",
    "VectorEnvNormObs",
    "VectorEnvNormReward",
    "VectorEnvWrapper",
    "as_vector_env",
    "info_column",
    "make_environment",
    "make_vector_env",
    "register",
    "registered_environments",
    "task_family",
    "task_spaces",
    "test_environment",
]
