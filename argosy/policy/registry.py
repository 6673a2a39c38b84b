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
        "random": ("RandomPolicy", "argosy.policy.uniform"),
        "squashed-gaussian": ("SquashedGaussianPolicy", "argosy.policy.squashed_gaussian"),
    },
)


def register_policy(name: str, cls: Callable[..., Policy] | str, *, module: str | None = None) -> None:
    """Give a policy a name.

    Args:
        name: how descriptions call it.
        cls: the class; or its name in `module`, which is imported when it is needed.
        module: needed with a class's name.

    Raises:
        ConfigError: the name is taken, or a class's name came without module.
    """
    _POLICIES.register(name, cls, module)


def policy_class(name: str) -> Callable[..., Policy]:
    """Return what stands behind a registered name, or "MODULE:CLASS".

    Raises:
        ConfigError: there is no such policy (the nearest name is offered), or it cannot be imported.
    """
    return cast("Callable[..., Policy]", _POLICIES.load(name))
