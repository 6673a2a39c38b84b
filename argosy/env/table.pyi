"""The names of `argosy.env`: type checkers read this as imports, argosy as a table."""

from argosy.env.agents.central import CentralState as CentralState
from argosy.env.agents.environment import Environment as Environment, StepResult as StepResult
from argosy.env.agents.pettingzoo import (
    PettingZoo as PettingZoo,
    PettingZooEnv as PettingZooEnv,
    PettingZooParallelEnv as PettingZooParallelEnv,
)
from argosy.env.agents.registry import (
    make_environment as make_environment,
    register as register,
    registered_environments as registered_environments,
)
from argosy.env.agents.team import Team as Team
from argosy.env.atari import AtariPreprocessing as AtariPreprocessing
from argosy.env.check import Finding as Finding, check_env as check_env, test_environment as test_environment
from argosy.env.config import EnvConfig as EnvConfig
from argosy.env.tasks import make_vector_env as make_vector_env, task_family as task_family, task_spaces as task_spaces
from argosy.env.vector.adapters import GymVectorEnv as GymVectorEnv, as_vector_env as as_vector_env
from argosy.env.vector.base import BaseVectorEnv as BaseVectorEnv
from argosy.env.vector.envpool import EnvPoolVectorEnv as EnvPoolVectorEnv
from argosy.env.vector.kinds import (
    DummyVectorEnv as DummyVectorEnv,
    RayVectorEnv as RayVectorEnv,
    ShmemVectorEnv as ShmemVectorEnv,
    SubprocVectorEnv as SubprocVectorEnv,
)
from argosy.env.vector.norm import (
    VectorEnvNormObs as VectorEnvNormObs,
    VectorEnvNormReward as VectorEnvNormReward,
    VectorEnvWrapper as VectorEnvWrapper,
)
from argosy.env.vector.protocol import (
    AsyncVectorEnv as AsyncVectorEnv,
    Infos as Infos,
    Obs as Obs,
    Received as Received,
    VectorEnv as VectorEnv,
    info_column as info_column,
)
from argosy.env.wrappers import (
    ActionMaskFromInfo as ActionMaskFromInfo,
    ContinuousToDiscrete as ContinuousToDiscrete,
    FlatAction as FlatAction,
    FrameStack as FrameStack,
    MultiDiscreteToDiscrete as MultiDiscreteToDiscrete,
    TruncatedAsTerminated as TruncatedAsTerminated,
    register_wrapper as register_wrapper,
)
