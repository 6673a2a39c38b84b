"""Policies: observation -> action, with and without exploration. What is shipped to whoever acts."""

from argosy.policy.actor_critic import ActorCriticAnalysis, ActorCriticPolicy
from argosy.policy.base import (
    NetPolicy,
    Policy,
    PolicyCheckpoint,
    PolicyState,
    RolloutRequest,
    RolloutResult,
)
from argosy.policy.boxes import ActionBound
from argosy.policy.explore import EpsilonConfig, EpsilonGreedy, Exploration
from argosy.policy.forward import ForwardPolicy, RandomPolicy
from argosy.policy.noise import ActionNoise, GaussianNoise, NoiseConfig, OUNoise
from argosy.policy.normaliser import Normaliser
from argosy.policy.q import QAnalysis, QPolicy
from argosy.policy.registry import policy_class, register_policy
from argosy.policy.single import SingleModelPytorchPolicy
from argosy.policy.squashed_gaussian import SquashedGaussianAnalysis, SquashedGaussianPolicy

__all__ = [
    "ActionBound",
    "ActionNoise",
    "ActorCriticAnalysis",
    "ActorCriticPolicy",
    "EpsilonConfig",
    "EpsilonGreedy",
    "Exploration",
    "ForwardPolicy",
    "GaussianNoise",
    "NetPolicy",
    "NoiseConfig",
    "Normaliser",
    "OUNoise",
    "Policy",
    "PolicyCheckpoint",
    "PolicyState",
    "QAnalysis",
    "QPolicy",
    "RandomPolicy",
    "RolloutRequest",
    "RolloutResult",
    "SingleModelPytorchPolicy",
    "SquashedGaussianAnalysis",
    "SquashedGaussianPolicy",
    "policy_class",
    "register_policy",
]
