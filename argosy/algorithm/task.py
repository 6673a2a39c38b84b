"""What an algorithm is made for, and whether it can be made for that, or of a policy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, TypeVar, cast

import torch
from gymnasium import spaces

from argosy.env.spaces import is_array_space, is_bounded, parts_of
from argosy.errors import ConfigError, SpaceError
from argosy.net import NetConfig
from argosy.policy import Policy

if TYPE_CHECKING:
    from argosy.algorithm.base import Algorithm

Space = spaces.Space[Any]
P = ParamSpec("P")
PolicyT = TypeVar("PolicyT", bound=Policy)
Kind = Literal["onpolicy", "offpolicy", "offline"]
"""Where an algorithm's experience comes from."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """What an algorithm is made for."""

    observation_space: Space
    """Of one agent."""
    action_space: Space
    """Of one agent."""
    net: NetConfig | None = None
    """Shape of the networks; None: the algorithm's own."""
    device: str | torch.device = "cpu"
    """Where the networks are."""
    state_space: Space | None = None
    """What critics alone see (the simulator's state, all agents' observations); None: the same as the policy."""
    num_agents: int = 1
    """More than 1: a joint learner, whose rows have an axis of agents, with rewards [B, N]."""
    policy: Callable[[Space, Space], Policy] | None = None
    """Makes a policy of one's own for the two spaces; None: the algorithm's."""

    def policy_or(
        self, make: Callable[Concatenate[Space, Space, P], PolicyT], *args: P.args, **kwargs: P.kwargs
    ) -> PolicyT:
        """Return the policy that is asked for, or else what `make` makes of the two spaces and what follows.

        It is on the device.
        """
        both = self.observation_space, self.action_space
        own = None if self.policy is None else self.policy(*both)
        return (make(*both, *args, **kwargs) if own is None else cast(PolicyT, own)).to(self.device)


def check_spaces(
    cls: type[Algorithm[Any, Any]], observation_space: Space, action_space: Space, *, own_policy: bool = False
) -> None:
    """Check that an algorithm can learn from such observations, in such an action space.

    Args:
        cls: the algorithm.
        observation_space: of one row.
        action_space: of one row.
        own_policy: its policy is given, and may act in a Box without bounds.

    Raises:
        SpaceError: it cannot; names the algorithms that can.
    """
    both = (("observation", observation_space, cls.observation_spaces), ("action", action_space, cls.action_spaces))
    for what, space, _ in both:
        if not hasattr(space, "contains"):
            raise SpaceError(f"the {what} space is {space!r:.60}; of a vector env take single_{what}_space")
    needs = [
        f"a {' or '.join(kind.__name__ for kind in allowed)} {what} space, not {space}"
        for what, space, allowed in both
        if not isinstance(space, allowed)
    ]
    if not needs and (own_policy or _has_bounds(cls, action_space)):
        return
    from argosy.algorithm import algorithm_class, algorithm_names  # here, because that module names this one

    classes = {name: algorithm_class(name) for name in algorithm_names()}
    fitting = [
        name
        for name, other in classes.items()
        if isinstance(observation_space, other.observation_spaces)
        and isinstance(action_space, other.action_spaces)
        and _has_bounds(other, action_space)
    ]
    raise SpaceError(
        f"{cls.__name__} needs {(*needs, f'finite bounds of actions, not {action_space}')[0]};"
        f" algorithms that fit it: {', '.join(fitting) or f'none; {_wrapper(action_space)} makes one that fits'}"
    )


def _wrapper(action_space: Space) -> str:
    """Return what may turn actions in which nothing acts into others."""
    nested = parts_of(action_space) is not None and is_array_space(action_space)
    return "--env.wrappers FlatAction" if nested else "a wrapper of yours (env.wrappers)"


def _has_bounds(cls: type[Algorithm[Any, Any]], action_space: Space) -> bool:
    """Return whether an action space has the bounds that an algorithm's own policy needs."""
    return not (cls.needs_bounds and isinstance(action_space, spaces.Box)) or is_bounded(action_space)


def check_policy(cls: type[Algorithm[Any, Any]], policy: object) -> None:
    """Check that an algorithm can be made of a policy.

    Raises:
        ConfigError: it is none, a bare network for instance.
        SpaceError: it acts in spaces in which the algorithm cannot learn.
    """
    if not isinstance(policy, Policy):
        raise ConfigError(
            f"{cls.__name__} is made of a policy, not of a {type(policy).__name__}; a network of your own goes into"
            f" NetConfig: {cls.__name__}.make(config, Task(observation_space=..., action_space=...,"
            " net=NetConfig(encoder=MyNetwork)))"
        )
    if hasattr(cls, "action_spaces"):  # one that is only ever handed its policy need not say so
        check_spaces(cls, policy.observation_space, policy.action_space, own_policy=True)
