"""What policies do not see of an observation: entries that critics alone are to know (`NetConfig.critic_only`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from gymnasium import spaces

from argosy.env.spaces import Space
from argosy.errors import ConfigError

if TYPE_CHECKING:
    from argosy.policy.base import NetPolicy


def seen_by(policy: NetPolicy, keys: tuple[str, ...]) -> Space:
    """Return the space of a policy's observations without some entries.

    Raises:
        ConfigError: they are not there, nothing is left, or the policy acts by the values that it learns.
    """
    from argosy.policy.actor_critic import ActorCriticPolicy  # here, because these are made of what calls this
    from argosy.policy.deterministic import SquashingPolicy

    space, setting = policy.observation_space, f"NetConfig.critic_only is {keys}"
    if not keys:
        return space
    if not isinstance(policy, ActorCriticPolicy | SquashingPolicy):
        raise ConfigError(
            f"{setting}, but {type(policy).__name__} acts by the values that it learns, and would need it; choose an "
            "algorithm with an actor and critics, e.g. PPO or SAC"
        )
    parts = space.spaces if isinstance(space, spaces.Dict) else {}
    said = f"observations have {list(parts)}" if parts else f"observations are no Dict but {space}"
    kept = {key: part for key, part in parts.items() if key not in keys}
    if unknown := [key for key in keys if key not in parts]:
        raise ConfigError(f"{setting}; there is no entry {unknown[0]!r}: {said}")
    if not set(kept) - set(policy.no_input) or policy.mask_key in keys:
        needed = f"{policy.mask_key!r}" if policy.mask_key in keys else "something to look at"
        raise ConfigError(f"{setting}, but a policy needs {needed}: {said}")
    return spaces.Dict(kept)


def sees_all(policy: NetPolicy, obs: Any) -> bool:
    """Say whether observations have what only critics see, too."""
    space = policy.observation_space
    return policy.acts_on is space or all(key in obs for key in cast(spaces.Dict, space).spaces)
