"""Policies: observation -> action, with and without exploration. What is shipped to whoever acts."""

from argosy.policy.actor_critic import ActorCriticAnalysis, ActorCriticPolicy
from argosy.policy.base import (
    ActionBound,
    Policy,
    PolicyCheckpoint,
    PolicyState,
    RolloutRequest,
    RolloutResult,
)
from argosy.policy.forward import ForwardPolicy
from argosy.policy.q import QAnalysis, QPolicy
from argosy.policy.registry import policy_class, register_policy
from argosy.policy.sac import SACAnalysis, SACPolicy
from argosy.policy.single import SingleModelPytorchPolicy

__all__ = [
    "ActionBound",
    "ActorCriticAnalysis",
    "ActorCriticPolicy",
    "ForwardPolicy",
    "Policy",
    "PolicyCheckpoint",
    "PolicyState",
    "QAnalysis",
    "QPolicy",
    "RolloutRequest",
    "RolloutResult",
    "SACAnalysis",
    "SACPolicy",
    "SingleModelPytorchPolicy",
    "policy_class",
    "register_policy",
]
