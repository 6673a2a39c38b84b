"""Whether an algorithm can be made of a policy, and for a task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gymnasium import spaces

from argosy.errors import ConfigError, SpaceError
from argosy.policy.base import Policy

if TYPE_CHECKING:
    from argosy.algorithm.base import Algorithm


def check_spaces(
    cls: type[Algorithm[Any, Any]], observation_space: spaces.Space[Any], action_space: spaces.Space[Any]
) -> None:
    """Check that an algorithm can learn from such observations, in such an action space.

    Raises:
        SpaceError: it cannot; names the algorithms that can.
    """
    both = (("observation", observation_space, cls.observation_spaces), ("action", action_space, cls.action_spaces))
    for what, space, allowed in both:
        if isinstance(space, allowed):
            continue
        from argosy.algorithm import algorithm_class, algorithm_names  # here, because that module names this one

        classes = {name: algorithm_class(name) for name in algorithm_names()}
        fitting = [
            name
            for name, other in classes.items()
            if isinstance(observation_space, other.observation_spaces) and isinstance(action_space, other.action_spaces)
        ]
        raise SpaceError(
            f"{cls.__name__} needs a {' or '.join(kind.__name__ for kind in allowed)} {what} space, not {space};"
            f" algorithms that fit it: {', '.join(fitting) or 'none yet'}"
        )


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
        check_spaces(cls, policy.observation_space, policy.action_space)
