"""Storing several steps of all sub-buffers at once: collectors do, for one `add` costs as much as a small network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from argosy.data.buffer.base import ReplayBuffer
from argosy.data.buffer.leaf import Array
from argosy.data.buffer.rings import BoolArray, FloatArray, IntArray, Rings
from argosy.errors import DataError


def can_add_steps(buffer: ReplayBuffer) -> bool:
    """Whether `add_steps` knows this buffer: one whose class does not add rows in its own way."""
    return type(buffer).add is ReplayBuffer.add


def add_steps(buffer: ReplayBuffer, fields: Mapping[str, Any], steps: int) -> IntArray:
    """Store `steps` transitions of every sub-buffer; the same as as many calls of `add`.

    Args:
        buffer: one for which `can_add_steps`.
        fields: those that `add` takes, [steps * buffer_num, ...]: the first step of every sub-buffer, the second, ...
        steps: at most as many as the smallest sub-buffer holds.

    Returns:
        The slots written [steps, buffer_num].

    Raises:
        DataError: a field does not fit the schema, or a reward is NaN. Nothing is written then.
    """
    rings, data = buffer._rings, buffer._data
    rows = steps * rings.num
    assert 0 < steps <= rings.capacity.min()
    given = dict(fields)
    if not data.fields:
        data.allocate(given, lift=False)
    plan = data.plan(given, rows, lift=False)
    rew, terminated, truncated = (cast(Array, plan[i][1]) for i in range(3))
    if np.count_nonzero(np.isnan(rew)):
        raise DataError("rew is NaN; nothing was stored")
    done = (terminated | truncated).reshape(steps, rings.num)
    successors = data.successors
    following = plan[len(plan) - len(data.fields["obs_next"].leaves) :] if successors is not None else []
    if successors is not None:
        plan = plan[: len(plan) - len(following)]
        successors.release(rings.last[~rings.closed])  # their successors are about to be stored
    slot = _advance(rings, rew.reshape(steps, rings.num, *rew.shape[1:]), done)
    if successors is not None:
        ends = done.copy()
        ends[-1] = True
        successors.release(slot.ravel())
        values = (cast(Array, value)[ends.ravel()] for _, value in following)
        successors.store(slot[ends], dict(zip(data.fields["obs_next"].leaves, values, strict=True)))
    for leaf, value in plan:
        leaf.put(slot.ravel(), value)
    if buffer.priorities is not None:
        buffer.priorities.added(slot.ravel())
    return slot


def _advance(rings: Rings, rew: FloatArray, done: BoolArray) -> IntArray:
    """Take the next T slots [T, B] of every ring for rows with these rewards [T, B] (or [T, B, N]) and ends [T, B]."""
    steps = np.arange(len(done))[:, None]
    slot = (rings.head - rings.offset + steps) % rings.capacity + rings.offset
    rings.stop[rings.last] = rings.closed
    rings.stop[slot[:-1]] = done[:-1]
    rings.stop[slot[-1]] = True
    rings.first[slot[0]] = rings.closed
    rings.first[slot[1:]] = done[:-1]

    count = np.minimum(rings.count + len(done), rings.capacity)
    rings.total += int((count - rings.count).sum())
    head = slot[-1] + 1
    rings.count, rings.last, rings.closed = count, slot[-1].copy(), done[-1].copy()
    rings.head = np.where(head == rings.limit, rings.offset, head)

    # Since when the episodes run that go on: step 0 where none has ended, T where the last row is an end.
    ended: BoolArray = np.logical_or.reduce(done, axis=0)
    since = np.where(ended, len(done) - np.argmax(done[::-1], axis=0), 0)
    runs = steps >= since
    if rew.ndim != rings.ep_rew.ndim + 1:
        rings.ep_rew = np.zeros(rew.shape[1:])
    agents = (...,) + (None,) * (rew.ndim - 2)
    rings.ep_rew = np.where(ended[agents], 0.0, rings.ep_rew) + np.where(runs[agents], rew, 0.0).sum(0, np.float64)
    rings.ep_len = np.where(ended, 0, rings.ep_len) + runs.sum(axis=0)
    begun = np.concatenate([slot, rings.head[None]])[since, rings.ids]
    rings.ep_start = np.where(ended, begun, rings.ep_start)
    return slot
