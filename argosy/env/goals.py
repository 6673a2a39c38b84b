"""Environments with goals: what a transition would have earned, had its goal been another one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from argosy.env.config import EnvConfig
from argosy.env.tasks import env_factory
from argosy.env.vector.protocol import Info
from argosy.errors import ConfigError

Goals: TypeAlias = "NDArray[Any]"
KEYS = ("observation", "achieved_goal", "desired_goal")


GoalReward: TypeAlias = Callable[["Goals", "Goals", Info], "NDArray[np.floating[Any]]"]
"""`compute_reward` of an env with goals, as Gymnasium-Robotics has it: the rewards [N] of achieved goals [N, *goal] for
desired goals [N, *goal]."""


def goal_reward(task: str, config: EnvConfig) -> GoalReward:
    """Return the method `compute_reward` of an env of the task; wrappers around it count if they have one, too.

    Raises:
        ConfigError: the task has no goals: its observations lack "achieved_goal" or "desired_goal", or the env has no
            `compute_reward`.
    """
    env = env_factory(task, config)()
    space = env.observation_space
    found = list(space) if isinstance(space, spaces.Dict) else []
    if not set(KEYS[1:]) <= set(found):
        raise ConfigError(
            f"buffer.hindsight needs an env with goals, whose observations are a dict of {', '.join(KEYS)}; those of "
            f"{task!r} are {space}"
        )
    try:
        reward: GoalReward = env.get_wrapper_attr("compute_reward")
    except AttributeError:
        raise ConfigError(
            f"buffer.hindsight needs the env's method compute_reward(achieved_goal, desired_goal, info), which {task!r}"
            " lacks"
        ) from None
    return reward
