"""Whether what is to act in an env is a policy, and one for such an env."""

from __future__ import annotations

from gymnasium import spaces

from argosy.env.spaces import Space, is_array_space, leaves, normal_form
from argosy.errors import ConfigError, SpaceError
from argosy.policy.base import Policy


def fitting_policy(given: object, observation_space: Space, action_space: Space) -> Policy:
    """Return what is to act as it is, if it is a policy for these spaces.

    Their bounds and types of numbers may differ from those of its own, not their entries, shapes and choices; what only
    critics see may be missing.

    Raises:
        ConfigError: it is no policy.
        SpaceError: it is one of other spaces.
    """
    if not isinstance(given, Policy):
        own = getattr(given, "policy", None)
        hint = "give its policy: algorithm.policy" if isinstance(own, Policy) else "a subclass of argosy.Policy acts"
        raise ConfigError(f"the policy is of the type {type(given).__name__}; {hint}")
    for what, mine, acts_on, theirs in (
        ("observations of", given.observation_space, given.acts_on, observation_space),
        ("actions in", given.action_space, given.action_space, action_space),
    ):
        if is_array_space(mine) and _form(theirs) not in (_form(mine), _form(acts_on)):
            raise SpaceError(f"{type(given).__name__} was made for {what} {mine}; those of this env are {theirs}")
    return given


def _form(space: Space) -> object:
    """Return what has to be equal of two spaces for a policy of one to act in the other."""
    if isinstance(space, spaces.Discrete):
        return int(space.n), int(space.start)
    if isinstance(space, spaces.MultiDiscrete):
        return space.nvec.tolist(), space.start.tolist()
    return [(name, shape) for name, shape, _ in leaves(normal_form(space))]
