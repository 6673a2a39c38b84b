"""Policies by name, for descriptions that say which policy to use without importing it."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from argosy.errors import ConfigError, nearest
from argosy.policy.base import Policy

_REGISTERED: dict[str, tuple[Callable[..., Policy] | str, str | None]] = {
    "actor-critic": ("ActorCriticPolicy", "argosy.policy.actor_critic"),
    "q": ("QPolicy", "argosy.policy.q"),
    "sac": ("SACPolicy", "argosy.policy.sac"),
}


def register_policy(name: str, cls: Callable[..., Policy] | str, *, module: str | None = None) -> None:
    """Give a policy a name.

    Args:
        name: how descriptions call it.
        cls: the class; or its name in `module`, which is imported when it is needed.
        module: needed with a class's name.

    Raises:
        ConfigError: the name is taken, or a class's name came without module.
    """
    if name in _REGISTERED:
        raise ConfigError(f"a policy {name!r} is registered already")
    if isinstance(cls, str) and module is None:
        raise ConfigError(f"register_policy({name!r}, {cls!r}): a class given by its name needs module=...")
    _REGISTERED[name] = (cls, module)


def policy_class(name: str) -> Callable[..., Policy]:
    """Return what stands behind a registered name, or "MODULE:CLASS".

    Raises:
        ConfigError: there is no such policy (the nearest name is offered), or it cannot be imported.
    """
    if name in _REGISTERED:
        cls, module = _REGISTERED[name]
    elif ":" in name:
        module, cls = name.split(":", 1)
    else:
        raise ConfigError(f"unknown policy {name!r}; {nearest(name, _REGISTERED)}")
    if not isinstance(cls, str):
        return cls
    assert module is not None
    try:
        found: Callable[..., Policy] = getattr(importlib.import_module(module), cls)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"policy {name!r}: {cls!r} could not be imported from {module!r}: {error}") from error
    return found
