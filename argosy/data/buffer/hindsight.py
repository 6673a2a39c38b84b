"""Hindsight experience replay, 'future' strategy (Andrychowicz et al. 2017, arXiv 1707.01495).

A part of each sample gets another goal: one that its episode achieved later. Only the sampled batch is changed,
before rewards are summed, so that n-step returns see the new goals; what is stored stays as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from argosy.config import check_range
from argosy.data.buffer.leaf import Array
from argosy.data.buffer.rings import BoolArray, IntArray
from argosy.data.buffer.store import Transitions
from argosy.errors import DataError

RewardFn: TypeAlias = Callable[[npt.NDArray[Any], npt.NDArray[Any]], npt.NDArray[Any]]
"""(achieved goals [N, *goal], desired goals [N, *goal]) -> rewards [N]."""


@dataclass(frozen=True, kw_only=True)
class Hindsight:
    """Which rows get another goal, and what reward they have then."""

    compute_reward_fn: RewardFn
    """Reward of achieved goals [N, *goal] for desired goals [N, *goal]: [N]."""
    horizon: int
    """New goals come from at most `horizon - 1` rows after the sampled one, e.g. the longest episode's length."""
    future_k: float = 8.0
    """Relabelled rows per row that keeps its goal."""

    def __post_init__(self) -> None:
        check_range(self, "horizon", ge=1)
        check_range(self, "future_k", ge=0.0)


class NewGoals(NamedTuple):
    """The relabelled rows of a sample."""

    mask: BoolArray
    """[T, B]: the row gets a new goal."""
    goal: Array
    """[R, *goal], one per True in `mask`."""


def draw_goals(data: Transitions, config: Hindsight, index: IntArray, rng: np.random.Generator) -> NewGoals:
    """Choose columns of the sample `index` [T, B] and for each a goal that was achieved after its last row.

    A sequence has one new goal; rows of later episodes in it keep theirs.

    Raises:
        DataError: observations lack `achieved_goal` or `desired_goal`.
    """
    leaves = data.fields["obs"].leaves
    if ("achieved_goal",) not in leaves or ("desired_goal",) not in leaves:
        keys = sorted(".".join(path) for path in leaves if path)
        raise DataError(
            f"hindsight needs obs with achieved_goal and desired_goal; the buffer's obs has {keys or 'no keys'}"
        )
    if data.fields["rew"].leaves[()].shape:
        raise DataError("hindsight needs one reward per row; the buffer stores one per agent")
    span, size = index.shape
    ahead = data.rings.ahead(index[0], max(config.horizon, span) - 1)
    lowest = np.minimum(ahead, span - 1)
    highest = np.maximum(lowest, np.minimum(ahead, config.horizon - 1))
    future = data.rings.shift(index[0], rng.integers(lowest, highest + 1))
    chosen = rng.random(size) < config.future_k / (1.0 + config.future_k)
    mask = chosen & (np.arange(span)[:, None] <= ahead)
    achieved = data.next_leaf(("achieved_goal",), future)
    column = np.broadcast_to(np.arange(size), mask.shape)[mask]
    return NewGoals(mask, achieved[leaves["achieved_goal",].like(column)])


def relabel_rewards(data: Transitions, config: Hindsight, goals: NewGoals, window: IntArray, rew: Array) -> None:
    """Overwrite `rew` [T, B, n] of the relabelled rows; `window` [T, B, n] are the slots it came from.

    Raises:
        DataError: the user's function returned another number of rewards, or NaN.
    """
    rows = window[goals.mask]
    leaf, rew_leaf = data.fields["obs"].leaves["achieved_goal",], data.fields["rew"].leaves[()]
    achieved = leaf.host(data.next_leaf(("achieved_goal",), rows))
    goal = leaf.host(goals.goal)
    shape = goal.shape[1:]
    desired = np.broadcast_to(goal[:, None], achieved.shape)
    value = np.asarray(config.compute_reward_fn(achieved.reshape(-1, *shape), desired.reshape(-1, *shape)))
    if value.size != rows.size:
        raise DataError(
            f"compute_reward_fn returned shape {value.shape} for {rows.size} pairs of goals; one reward each"
        )
    if np.isnan(value).any():
        raise DataError("compute_reward_fn returned NaN")
    rew[rew_leaf.like(goals.mask)] = rew_leaf.like(value.reshape(rows.shape).astype(np.float32))


def relabel_obs(data: Transitions, goals: NewGoals, obs: dict[str, Any], stacked: bool) -> None:
    """Overwrite the desired goals of gathered observations; of stacked ones in every frame."""
    leaf = data.fields["obs"].leaves["desired_goal",]
    obs["desired_goal"][leaf.like(goals.mask)] = goals.goal[:, None] if stacked else goals.goal
