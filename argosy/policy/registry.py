"""Policies by name, for descriptions that say which policy to use without importing it."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from argosy.named import Registry
from argosy.policy.base import Policy

_POLICIES = Registry(
    "policy",
    {
        "actor-critic": ("ActorCriticPolicy", "argosy.policy.actor_critic"),
        "q": ("QPolicy", "argosy.policy.q"),
        "random": ("RandomPolicy", "argosy.policy.forward"),
        "squashed-gaussian": ("SquashedGaussianPolicy", "argosy.policy.squashed_gaussian"),
    },
)


register_policy = _POLICIES.register
"""Give a policy class, or a function that makes policies, a name for descriptions."""


def policy_class(name: str) -> Callable[..., Policy]:
    """Return what stands behind a registered name, or "MODULE:CLASS".

    Raises:
        ConfigError: there is no such policy (the nearest name is offered), or it cannot be imported.
    """
    return cast("Callable[..., Policy]", _POLICIES.load(name))
