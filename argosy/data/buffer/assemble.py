"""From drawn slots to a complete training batch: sequences, new goals, n-step returns, frame stacks."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from argosy.data.buffer.hindsight import Hindsight, draw_goals, relabel_obs, relabel_rewards
from argosy.data.buffer.leaf import Array
from argosy.data.buffer.rings import BoolArray, IntArray, Rings
from argosy.data.buffer.sampling import Sampling
from argosy.data.buffer.store import Transitions


def sequences(rings: Rings, start: IntArray, span: int) -> tuple[IntArray, BoolArray]:
    """Return the slots [T, B] of sequences that begin at `start` [B], and which of them are rows (not padding).

    They run through the ring in order of time, also across episodes. Those that would pass the newest row begin
    earlier; in rings of fewer than `span` rows, the newest row repeats as padding.
    """
    ring = rings.ring_of(start)
    index = start + _steps(span)
    newer = rings.last[ring] - start
    rounds = np.count_nonzero(index[-1] >= rings.limit[ring])
    if not rounds and np.count_nonzero(newer.view(np.uint64) < span - 1) == 0:  # starts behind the newest row: huge
        return index, _all_rows(span, len(start))
    newer %= rings.capacity[ring]
    if np.count_nonzero(newer < span - 1) == 0:
        return rings.wrap(index, ring), _all_rows(span, len(start))
    needed = np.minimum(span, rings.count[ring]) - 1
    start = rings.shift(start, np.minimum(newer - needed, 0))
    newer = np.maximum(newer, needed)
    steps = _steps(span)
    return rings.shift(start, np.minimum(steps, newer)), steps <= newer


@functools.lru_cache(maxsize=16)
def _steps(span: int) -> IntArray:
    """Return 0 .. span - 1 as a column; not to be changed."""
    return np.arange(span)[:, None]


@functools.lru_cache(maxsize=16)
def _all_rows(span: int, size: int) -> BoolArray:
    """Return the mask of `size` sequences without padding; not to be changed."""
    return np.ones((span, size), np.bool_)


def n_step_weights(ahead: IntArray, n_step: int, gamma: float) -> tuple[Array, Array]:
    """Return what rewards count for in n-step sums, and the discount of what is behind them.

    Args:
        ahead: [...] rows that follow each row in its window, 0 .. n_step - 1.
        n_step: the most rows that a window has.
        gamma: discount factor per step.

    Returns:
        ([..., n_step] float32: gamma^k, 0 behind the window; [...] float32: gamma^(rows of the window))
    """
    powers = np.float32(gamma) ** np.arange(n_step + 1, dtype=np.float32)
    return np.where(np.arange(n_step) <= ahead[..., None], powers[:-1], np.float32(0)), powers[ahead + 1]


def assemble(
    data: Transitions,
    index: IntArray,
    sampling: Sampling,
    stack_num: int,
    hindsight: Hindsight | None,
    rng: np.random.Generator,
) -> dict[str, Any]:
    """Gather the fields of a sample for the slots `index` [B] or [T, B]; see `ReplayBuffer.sample`."""
    fields, rings = data.fields, data.rings
    rew_leaf = fields["rew"].leaves[()]
    goals = None if hindsight is None else draw_goals(data, hindsight, np.atleast_2d(index), rng)
    rew: Array
    if sampling.n_step == 1:
        last, window = index, index[..., None]
        discounts = np.empty(index.shape, np.float32)
        discounts.fill(sampling.gamma)
        discount = rew_leaf.like(discounts)
        rew = rew_leaf.take(index)
    else:
        ahead = rings.ahead(index, sampling.n_step - 1)
        if index.ndim == 2:
            ahead = np.minimum(ahead, _steps(len(index))[::-1])  # windows end with the sequence
        window = rings.shift(index[..., None], np.minimum(np.arange(sampling.n_step), ahead[..., None]))
        last = window[..., -1]
        weights, discounts = n_step_weights(ahead, sampling.n_step, sampling.gamma)
        discount = rew_leaf.like(discounts)
        rew = rew_leaf.take(window)
    if goals is not None and hindsight is not None:
        rows = rew.reshape(*goals.mask.shape, sampling.n_step)  # a view: writes go to `rew`
        relabel_rewards(data, hindsight, goals, window.reshape(rows.shape), rows)
    if sampling.n_step > 1:
        weights = weights.reshape(*weights.shape, *(1,) * len(rew_leaf.shape))
        rew = (rew * rew_leaf.like(weights)).sum(index.ndim)
    terminated = fields["terminated"].leaves[()].take(last)
    truncated = fields["truncated"].leaves[()].take(last)
    discount[terminated] = 0.0
    obs: Any
    obs_next: Any
    if stack_num > 1 and sampling.n_step == 1 and goals is None:
        obs, obs_next = data.obs_and_next(index, stack_num)
    else:
        obs = data.stacked("obs", index, stack_num)
        obs_next = data.obs_next(last, stack_num, obs if sampling.n_step == 1 else None)
    if goals is not None:
        for tree in (obs, obs_next):
            goal = tree["desired_goal"]
            relabel_obs(
                data, goals, {"desired_goal": goal.reshape(*goals.mask.shape, *goal.shape[index.ndim :])}, stack_num > 1
            )
    sample = {
        "obs": obs,
        "act": fields["act"].take(index),
        "rew": rew,
        "terminated": terminated,
        "truncated": truncated,
        "done": terminated | truncated,
        "obs_next": obs_next,
        "discount": discount,
        "info": fields["info"].take(index),
        "policy": fields["policy"].take(index),
    }
    if index.ndim == 2:
        sample["final"] = rew_leaf.like(_steps(len(index)) + (ahead if sampling.n_step > 1 else np.zeros_like(index)))
    return sample
