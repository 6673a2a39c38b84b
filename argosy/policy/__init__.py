"""Policies: observation -> action, with and without exploration. What is shipped to whoever acts."""

from argosy.policy.actor_critic import (
    ActorCriticAnalysis as ActorCriticAnalysis,
    ActorCriticPolicy as ActorCriticPolicy,
)
from argosy.policy.base import (
    NetPolicy as NetPolicy,
    Policy as Policy,
    PolicyCheckpoint as PolicyCheckpoint,
    PolicyState as PolicyState,
    RolloutRequest as RolloutRequest,
    RolloutResult as RolloutResult,
)
from argosy.policy.boxes import ActionBound as ActionBound
from argosy.policy.explore import (
    EpsilonConfig as EpsilonConfig,
    EpsilonGreedy as EpsilonGreedy,
    Exploration as Exploration,
)
from argosy.policy.forward import ForwardPolicy as ForwardPolicy, RandomPolicy as RandomPolicy
from argosy.policy.noise import (
    ActionNoise as ActionNoise,
    GaussianNoise as GaussianNoise,
    NoiseConfig as NoiseConfig,
    OUNoise as OUNoise,
)
from argosy.policy.normaliser import Normaliser as Normaliser
from argosy.policy.q import QAnalysis as QAnalysis, QPolicy as QPolicy
from argosy.policy.registry import policy_class as policy_class, register_policy as register_policy
from argosy.policy.single import SingleModelPytorchPolicy as SingleModelPytorchPolicy
from argosy.policy.squashed_gaussian import (
    SquashedGaussianAnalysis as SquashedGaussianAnalysis,
    SquashedGaussianPolicy as SquashedGaussianPolicy,
)
