"""Policies: observation -> action, with and without exploration. What is shipped to whoever acts."""

from argosy.policy.base import (
    ActionBound,
    Policy,
    PolicyCheckpoint,
    PolicyState,
    RolloutRequest,
    RolloutResult,
)
from argosy.policy.q import QAnalysis, QPolicy

__all__ = [
    "ActionBound",
    "Policy",
    "PolicyCheckpoint",
    "PolicyState",
    "QAnalysis",
    "QPolicy",
    "RolloutRequest",
    "RolloutResult",
]
