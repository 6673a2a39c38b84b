"""True successors of rows whose next row is not their successor, for buffers that do not store `obs_next`."""

from __future__ import annotations

import numpy as np

from argosy.data.buffer.field import Field, Path, Plan
from argosy.data.buffer.leaf import Array
from argosy.data.buffer.rings import Added, BoolArray, FloatArray, IntArray, Rings


class Successors:
    """A side table with one row for the last stored row of every segment.

    Its size grows with the number of episode ends that are stored, not with the number of transitions.
    """

    def __init__(self, rings: Rings, field: Field) -> None:
        self.rings, self.field = rings, field
        self.row: IntArray = np.full(rings.slots, -1, np.int64)
        """Row of this table, per slot; -1 where the successor is the next row of the ring."""
        self.free: list[int] = list(range(field.slots - 1, -1, -1))

    def _claim(self, rows: int) -> IntArray:
        """Return `rows` unused rows."""
        if len(self.free) < rows:
            size = self.field.slots
            self.field.grow(max(2 * size, size + rows))
            self.free.extend(range(self.field.slots - 1, size - 1, -1))
        return np.array([self.free.pop() for _ in range(rows)], np.int64)

    def release(self, slot: IntArray) -> None:
        """Forget the successors of slots that are overwritten or emptied."""
        old = self.row[slot]
        kept = old >= 0
        if np.count_nonzero(kept):
            self.free.extend(old[kept].tolist())
            self.row[slot] = -1

    def advance(self, ids: IntArray | None, plan: Plan, rew: FloatArray, done: BoolArray) -> Added:
        """Advance the rings and write the successors in `plan` of the new rows."""
        rings = self.rings
        written = rings.ids if ids is None else ids
        last, closed = rings.last[written], rings.closed[written]
        row = self.row[last]
        self.row[last] = np.where(closed, row, -1)  # an open segment goes on: its newest row hands its place over
        if np.count_nonzero(closed):
            row[closed] = self._claim(int(np.count_nonzero(closed)))
        added = rings.advance(ids, rew, done)
        self.release(added.slot)
        self.row[added.slot] = row
        for leaf, value in plan:
            leaf.put(row, value)
        return added

    def store(self, slot: IntArray, values: dict[Path, Array]) -> None:
        """Store the successors of slots (the last rows of segments) that were written in bulk."""
        row = self._claim(len(slot))
        self.row[slot] = row
        for path, value in values.items():
            self.field.leaves[path].put(row, value)

    def patch(self, path: Path, index: IntArray, frames: Array) -> None:
        """Overwrite the rows of `frames` [*index.shape, ...] whose successor lies here."""
        row = self.row[index]
        here = row >= 0
        if np.count_nonzero(here):
            leaf = self.field.leaves[path]
            frames[leaf.like(here)] = leaf.take(row[here])
