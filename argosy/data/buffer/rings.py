"""Index arithmetic of ring buffers: one ring of slots per sub-buffer, all in one flat range of slot numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from argosy.errors import ConfigError, DataError
from argosy.process import check_memory

IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
FloatArray: TypeAlias = npt.NDArray[np.floating[Any]]
_STATE = ("capacity", "head", "last", "count", "stop", "first", "cut", "closed", "ep_start", "ep_rew", "ep_len")


def _below(bound: int, size: int, rng: np.random.Generator) -> IntArray:
    """Draw integers 0 .. bound - 1: 3x as fast as `rng.integers`; the product never rounds up to the bound."""
    return (rng.random(size) * bound).astype(np.int64)


def compact(slot: IntArray) -> IntArray | slice:
    """Return slots that follow each other as a slice, to which is written 3x as fast; others as they are."""
    if len(slot) and slot[-1] - slot[0] == len(slot) - 1 and (slot[1:] > slot[:-1]).all():
        return slice(int(slot[0]), int(slot[-1]) + 1)
    return slot


class Added(NamedTuple):
    """What `Rings.advance` says about the rows [n] that were added."""

    slot: IntArray
    ep_rew: npt.NDArray[np.float64]
    """Undiscounted return of the episodes that ended with this row, 0 elsewhere; [n] or [n, N_agents]."""
    ep_len: IntArray
    """Length of the episodes that ended with this row, 0 elsewhere."""
    ep_start: IntArray
    """Slot at which the row's episode began."""


class Rings:
    """Rings laid end to end: ring b owns the slots offset[b] .. offset[b] + capacity[b] - 1.

    `stop[slot]` is True where the row after it is not its successor: the episode is done, the segment was cut by
    `close`, the row is the newest of its ring, or the slot is empty. Every walk through time is a look-up in it.
    """

    def __init__(self, capacities: Sequence[int]) -> None:
        if len(capacities) == 0 or min(capacities) < 1:
            raise ConfigError(
                f"buffer size is {list(capacities)!r}; every (sub-)buffer must hold at least 1 transition"
            )
        check_memory(4 * 8 * sum(map(int, capacities)), f"a buffer of {sum(map(int, capacities)):,} slots")
        self.capacity: IntArray = np.asarray(capacities, np.int64)
        self.num = len(self.capacity)
        self.slots = int(self.capacity.sum())
        self.equal = int(self.capacity[0]) if (self.capacity == self.capacity[0]).all() else 0
        self.ids: IntArray = np.arange(self.num)
        self.ones: IntArray = np.ones(self.num, np.int64)
        """To count by: numpy adds an array in half the time that it takes to add the number 1."""
        self.offset: IntArray = np.concatenate([[0], np.cumsum(self.capacity)[:-1]]).astype(np.int64)
        self.limit: IntArray = self.offset + self.capacity
        self.following: IntArray = np.arange(1, self.slots + 1)
        """The next slot of the ring, per slot."""
        self.following[self.limit - 1] = self.offset
        self.clear()

    def clear(self, keep_episodes: bool = False) -> None:
        """Empty every ring; `keep_episodes` keeps the return and length of the running episodes."""
        self.head: IntArray = self.offset.copy()
        """Next slot to write, per ring."""
        self.last: IntArray = self.offset.copy()
        """Newest slot, per ring (the first one while the ring is empty)."""
        self.count: IntArray = np.zeros(self.num, np.int64)
        self.total = 0
        self.stop: BoolArray = np.ones(self.slots, np.bool_)
        self.first: BoolArray = np.zeros(self.slots, np.bool_)
        """The row began an episode (or a segment after `close`)."""
        self.cut: BoolArray = np.zeros(self.slots, np.bool_)
        """The row is truncated for no reason of the episode's: only the recording stopped."""
        self.closed: BoolArray = np.ones(self.num, np.bool_)
        """The next row of the ring does not continue the newest one."""
        self.ep_start: IntArray = self.offset.copy()
        if not keep_episodes:
            self.ep_rew: npt.NDArray[np.float64] = np.zeros(self.num)
            self.ep_len: IntArray = np.zeros(self.num, np.int64)

    def check_ids(self, buffer_ids: npt.ArrayLike | None, rows: int) -> IntArray | None:
        """Return the rings that `rows` new rows go to, or raise DataError; None: one row to each ring, in order."""
        if buffer_ids is None:
            if rows != self.num:
                raise DataError(f"add() got {rows} rows for {self.num} sub-buffers; name them with buffer_ids")
            return None
        ids = np.atleast_1d(np.asarray(buffer_ids)).astype(np.int64, copy=False)
        if len(ids) != rows:
            raise DataError(f"buffer_ids has {len(ids)} entries for {rows} rows; it must name one sub-buffer per row")
        if rows == self.num and np.count_nonzero(ids != self.ids) == 0:
            return None
        if len(ids) and (ids.min() < 0 or ids.max() >= self.num):
            raise DataError(f"buffer_ids is {ids.tolist()}; ids must be within 0 .. {self.num - 1}")
        if len(set(ids.tolist())) != len(ids):
            raise DataError(f"buffer_ids is {ids.tolist()}; a sub-buffer can take one row per call")
        return ids

    def advance(self, ids: IntArray | None, rew: FloatArray, done: BoolArray) -> Added:
        """Take the next slot of each ring in `ids` (None: all) for a row with this reward [n(, N)] and end [n]."""
        if ids is None:
            slot, last, closed, count = self.head, self.last, self.closed, self.count
        else:
            slot, last, closed, count = self.head[ids], self.last[ids], self.closed[ids], self.count[ids]
        self.stop[last] = closed
        self.stop[slot] = True
        self.first[slot] = closed
        self.cut[slot] = False
        head = self.following[slot]
        if self.total < self.slots:
            grows = count < (self.capacity if ids is None else self.capacity[ids])
            count = count + grows
            self.total += int(np.count_nonzero(grows))
        if rew.ndim != self.ep_rew.ndim:
            self.ep_rew = np.zeros((self.num, *rew.shape[1:]))
        if ids is None:
            self.head, self.last, self.closed, self.count = head, slot, done, count
            self.ep_rew += rew
            self.ep_len += self.ones
            ep_start = self.ep_start.copy()
        else:
            self.head[ids], self.last[ids], self.closed[ids], self.count[ids] = head, slot, done, count
            self.ep_rew[ids] += rew
            self.ep_len[ids] += 1
            ep_start = self.ep_start[ids]
        ep_rew, ep_len = np.zeros(rew.shape), np.zeros(len(slot), np.int64)
        if np.count_nonzero(done):
            ended = self.ids[done] if ids is None else ids[done]
            ep_rew[done], ep_len[done] = self.ep_rew[ended], self.ep_len[ended]
            self.ep_rew[ended], self.ep_len[ended], self.ep_start[ended] = 0.0, 0, self.head[ended]
        return Added(slot.copy(), ep_rew, ep_len, ep_start)

    def advance_steps(self, rew: FloatArray, done: BoolArray, cut: BoolArray | None = None) -> IntArray:
        """Take the next T slots [T, B] of every ring for rows with these rewards [T, B(, N)], ends and cuts [T, B]."""
        steps = np.arange(len(done))[:, None]
        slot = self.head + steps
        np.subtract(slot, self.capacity, out=slot, where=slot >= self.limit)
        self.stop[self.last] = self.closed
        self.stop[compact(slot.reshape(-1))] = done.reshape(-1)
        self.stop[slot[-1]] = True
        self.first[slot[0]] = self.closed
        self.first[compact(slot[1:].reshape(-1))] = done[:-1].reshape(-1)
        self.cut[compact(slot.reshape(-1))] = False if cut is None else cut.reshape(-1)

        count = np.minimum(self.count + len(done), self.capacity)
        self.total += int((count - self.count).sum())
        head = slot[-1] + 1
        self.count, self.last, self.closed = count, slot[-1].copy(), done[-1].copy()
        self.head = np.where(head == self.limit, self.offset, head)

        # Since when the episodes run that go on: step 0 where none has ended, T where the last row is an end.
        ended: BoolArray = np.logical_or.reduce(done, axis=0)
        since = np.where(ended, len(done) - np.argmax(done[::-1], axis=0), 0)
        runs = steps >= since
        if rew.ndim != self.ep_rew.ndim + 1:
            self.ep_rew = np.zeros(rew.shape[1:])
        agents = (...,) + (None,) * (rew.ndim - 2)
        self.ep_rew = np.where(ended[agents], 0.0, self.ep_rew) + np.where(runs[agents], rew, 0.0).sum(0, np.float64)
        self.ep_len = np.where(ended, 0, self.ep_len) + len(done) - since
        begun = np.concatenate([slot, self.head[None]])[since, self.ids]
        self.ep_start = np.where(ended, begun, self.ep_start)
        return slot

    def extend(self, ring: int, stop: BoolArray) -> IntArray:
        """Append rows, given in order of time with their flags, as closed segments to one ring.

        Returns:
            The slots of the rows that stay: the last ones where there are more rows than slots.
        """
        self.close(self.ids[ring : ring + 1])
        capacity = int(self.capacity[ring])
        rows = min(len(stop), capacity)
        slot = self._run(int(self.head[ring]), rows, ring)
        if rows:
            self.stop[slot] = stop[-rows:]
            self.cut[slot] = False
            self.first[slot[0]], self.first[slot[1:]] = True, self.stop[slot[:-1]]
            self.stop[slot[-1]] = True
            self.last[ring] = slot[-1]
            self.head[ring] = self.ep_start[ring] = self.following[slot[-1]]
            self.count[ring] = min(int(self.count[ring]) + rows, capacity)
            self.total = int(self.count.sum())
        return slot

    def drop(self, ring: int) -> None:
        """Empty one ring."""
        self.stop[self.offset[ring] : self.limit[ring]] = True
        self.total -= int(self.count[ring])
        self.head[ring] = self.last[ring] = self.ep_start[ring] = self.offset[ring]
        self.count[ring], self.closed[ring] = 0, True

    def close(self, ids: IntArray) -> None:
        """Cut: whatever is added next to these rings starts a new episode."""
        self.closed[ids] = True
        self.ep_rew[ids], self.ep_len[ids], self.ep_start[ids] = 0.0, 0, self.head[ids]

    def ring_of(self, index: IntArray) -> IntArray:
        """Return the ring that owns each slot."""
        if self.equal:
            return index // self.equal
        return np.searchsorted(self.offset, index, side="right").astype(np.int64) - 1

    def shift(self, index: IntArray, steps: IntArray | int) -> IntArray:
        """Move slots by `steps` (negative: back) round their rings, whatever lies between."""
        if self.num == 1:
            return (index + steps) % self.slots
        if self.equal:
            local = index % self.equal
            return (local + steps) % self.equal + (index - local)
        ring = self.ring_of(index)
        offset = self.offset[ring]
        return (index - offset + steps) % self.capacity[ring] + offset

    def prev(self, index: IntArray) -> IntArray:
        """Return the slot one step earlier in the same episode; the first row stored of an episode returns itself."""
        before = self.shift(index, -1)
        return np.where(self.stop[before], index, before)

    def next(self, index: IntArray) -> IntArray:
        """Return the slot one step later in the same episode; the last row stored of an episode returns itself."""
        return np.where(self.stop[index], index, self.following[index])

    def back(self, index: IntArray, steps: int) -> IntArray:
        """Return [..., steps + 1] slots, oldest first, ending at `index`.

        Where the episode (or what is stored of it) began less than `steps` rows ago, its first row repeats.
        """
        if steps == 0:
            return index[..., None]
        blocked = self.stop[self.shift(index[..., None], np.arange(-1, -steps - 2, -1))]
        blocked[..., -1] = True
        reach = blocked.argmax(axis=-1)[..., None]
        return self.shift(index[..., None], -np.minimum(np.arange(steps, -1, -1), reach))

    def ahead(self, index: IntArray, steps: int) -> IntArray:
        """Return how many rows (0 .. steps) follow `index` within its episode; same shape as `index`."""
        blocked = self.stop[self.shift(index[..., None], np.arange(steps + 1))]
        blocked[..., -1] = True
        return np.asarray(blocked.argmax(axis=-1))

    def sequences(self, start: IntArray, span: int) -> tuple[IntArray, IntArray | None]:
        """Return the slots [T, B] of sequences that begin at `start` [B], and how many of each are rows [B]; None: all.

        They run through the ring in order of time, also across episodes. Those that would pass the newest row begin
        earlier; in rings of fewer than `span` rows, the newest row repeats behind the others as padding.
        """
        ring, steps = self.ring_of(start), np.arange(span)[:, None]
        limit, capacity = self.limit[ring], self.equal or self.capacity[ring]
        newer = (self.last[ring] - start) % capacity
        if newer.min() >= span - 1:
            index = start + steps
            if np.count_nonzero(index[-1] >= limit):
                index -= (index >= limit) * capacity
            return index, None
        needed = np.minimum(span, self.count[ring]) - 1
        start = self.shift(start, np.minimum(newer - needed, 0))
        newer = np.maximum(newer, needed)
        return self.shift(start, np.minimum(steps, newer)), np.minimum(newer + 1, span)

    def stored(self, ring: int) -> IntArray:
        """Return the slots of one ring that hold a row, oldest first."""
        start = int(self.head[ring]) - int(self.count[ring])
        turn = int(self.capacity[ring]) if start < self.offset[ring] else 0
        return self._run(start + turn, int(self.count[ring]), ring)

    def _run(self, start: int, rows: int, ring: int) -> IntArray:
        """Return `rows` slots of a ring from `start` on."""
        slot = np.arange(start, start + rows)
        slot[int(self.limit[ring]) - start :] -= int(self.capacity[ring])
        return slot

    def all_stored(self) -> IntArray:
        """Return every slot that holds a row, ring after ring, oldest first."""
        return np.concatenate([self.stored(ring) for ring in range(self.num)]) if self.num > 1 else self.stored(0)

    def draw(self, size: int, rng: np.random.Generator, span: int = 1) -> IntArray:
        """Draw `size` slots uniformly with replacement among those that hold a row.

        With a `span`, only rows that are followed by `span - 1` rows in their ring (whatever episodes they belong
        to); of a ring with fewer rows, the oldest.
        """
        if span == 1 and (self.total == self.slots or self.num == 1):
            return _below(self.total, size, rng)
        if self.equal and self.total == self.slots:  # all rings full: the oldest row is where the next one goes
            each = max(self.equal - (span - 1), 1)
            number = _below(self.num * each, size, rng)
            ring = number // each
            slot = self.head[ring] + number - ring * each
            over = slot >= self.limit[ring]
            if np.count_nonzero(over):
                slot[over] -= self.equal
            return slot
        starts = np.where(self.count > 0, np.maximum(self.count - (span - 1), 1), 0)
        upper = np.cumsum(starts)
        number = _below(int(upper[-1]), size, rng)
        ring = np.searchsorted(upper, number, side="right")
        local = self.head[ring] - self.offset[ring] - self.count[ring] + number - (upper - starts)[ring]
        return np.asarray(local % self.capacity[ring] + self.offset[ring])

    def state_dict(self) -> dict[str, npt.NDArray[Any]]:
        """Return the whole state as arrays."""
        return {name: getattr(self, name).copy() for name in _STATE}

    def load_state_dict(self, state: dict[str, npt.NDArray[Any]]) -> None:
        """Continue where `state` was taken; the rings must have the same capacities."""
        if not np.array_equal(state["capacity"], self.capacity):
            raise DataError(
                f"the state is of sub-buffers of {state['capacity'].tolist()}, not {self.capacity.tolist()}"
            )
        for name in _STATE:
            setattr(self, name, np.array(state[name], getattr(self, name).dtype))
        self.total = int(self.count.sum())
