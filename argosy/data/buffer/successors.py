"""True successors of rows whose next row is not their successor, for buffers that do not store `obs_next`."""

from __future__ import annotations

import numpy as np

from argosy.data.buffer.rings import Added, BoolArray, IntArray, Rings
from argosy.data.buffer.storage import Array, Field, Path, Plan


class Successors:
    """A side table: row b holds the successor of ring b's newest row; later rows hold those of episode ends.

    Its size grows with the number of episode ends that are stored, not with the number of transitions.
    """

    def __init__(self, rings: Rings, field: Field) -> None:
        self.rings, self.field = rings, field
        self.row: IntArray = np.zeros(rings.slots, np.int64)
        """Row of the side table, per slot; meaningful where `rings.stop` is True."""
        self.size = field.slots
        self.free: list[int] = list(range(self.size - 1, rings.num - 1, -1))

    def _claim(self, rows: int) -> IntArray:
        """Return `rows` unused rows."""
        if len(self.free) < rows:
            size = max(2 * self.size, self.size + rows)
            self.free.extend(range(size - 1, self.size - 1, -1))
            self.size = size
            self.field.grow(size)
        return np.array([self.free.pop() for _ in range(rows)], np.int64)

    def advance(self, ids: IntArray | None, plan: Plan, rew: Array, done: BoolArray) -> Added:
        """Advance the rings and write the successors in `plan` of the new rows."""
        rings, row = self.rings, self.row
        written = rings.ids if ids is None else ids
        ended = written[rings.closed[written] & (rings.count[written] > 0)]
        if len(ended):
            claimed = self._claim(len(ended))
            for leaf in self.field.leaves.values():
                leaf.put(claimed, leaf.take(ended))
            row[rings.last[ended]] = claimed
        added = rings.advance(ids, rew, done)
        overwritten = row[added.slot]
        kept = overwritten >= rings.num
        if np.count_nonzero(kept):
            self.free.extend(overwritten[kept].tolist())
        row[added.slot] = written
        for leaf, value in plan:
            leaf.put(written, value)
        return added

    def patch(self, path: Path, index: IntArray, frames: Array) -> None:
        """Overwrite the rows of `frames` [*index.shape, ...] whose successor lies here."""
        stop = self.rings.stop[index]
        if np.count_nonzero(stop):
            frames[stop] = self.field.leaves[path].take(self.row[index[stop]])
