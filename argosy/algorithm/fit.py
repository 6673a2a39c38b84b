"""Whether an algorithm can be made of a policy, and for a task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gymnasium import spaces

from argosy.errors import ConfigError, SpaceError
from argosy.policy.base import Policy

if TYPE_CHECKING:
    from argosy.algorithm.base import Algorithm


def check_action_space(cls: type[Algorithm[Any, Any]], space: spaces.Space[Any]) -> None:
    """Check that an algorithm can learn in an action space.

    Raises:
        SpaceError: it cannot; names the algorithms that can.
    """
    if not isinstance(space, cls.action_spaces):
        from argosy.algorithm import algorithm_class, algorithm_names  # here, because that module names this one

        fitting = [name for name in algorithm_names() if isinstance(space, algorithm_class(name).action_spaces)]
        wanted = " or ".join(allowed.__name__ for allowed in cls.action_spaces)
        raise SpaceError(
            f"{cls.__name__} needs a {wanted} action space, not {space}; algorithms that fit it:"
            f" {', '.join(fitting) or 'none yet'}"
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
        check_action_space(cls, policy.action_space)
