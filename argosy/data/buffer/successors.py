"""The successors of a buffer that does not store `obs_next`, where the next row is not the successor."""

from __future__ import annotations

from typing import cast

import numpy as np

from argosy.data.buffer.columns import Array, Field, Writes
from argosy.data.buffer.rings import IntArray, Rings
from argosy.data.tree import Path


class Successors:
    """True successors of the rows whose next row is not their successor, for buffers that do not store `obs_next`.

    A side table with one row for the last stored row of every segment: it grows with the number of episode ends that
    are stored, not with the number of transitions.
    """

    def __init__(self, rings: Rings, field: Field) -> None:
        self.rings, self.field = rings, field
        self.row: IntArray = np.full(rings.slots, -1, np.int64)
        """Row of this table, per slot; -1 where the successor is the next row of the ring."""
        self.free: IntArray = np.arange(field.slots)
        """Unused rows: the first `unused` of these."""
        self.unused = field.slots

    def release(self, slot: IntArray) -> None:
        """Forget the successors of slots that are overwritten, emptied or followed by their successor."""
        row = self.row[slot]
        kept = row >= 0
        count = int(np.count_nonzero(kept))
        if count:
            self.free[self.unused : self.unused + count] = row if count == len(row) else row[kept]
            self.unused += count
            self.row[slot] = -1

    def release_newest(self, ids: IntArray | None) -> None:
        """Forget those of the newest rows of these rings (None: all), if their successors are what comes next."""
        last, closed = self.rings.last, self.rings.closed
        if ids is not None:
            last, closed = last[ids], closed[ids]
        self.release(last[~closed] if np.count_nonzero(closed) else last)

    def store(self, slot: IntArray, writes: Writes) -> None:
        """Store the successors of those of the new rows `slot` that end a segment."""
        self.release(slot)
        ends = self.rings.stop[slot]
        if np.count_nonzero(ends) < len(slot):
            slot, writes = slot[ends], [(column, cast(Array, value)[ends]) for column, value in writes]
        size = self.field.slots
        if self.unused < len(slot):
            self.field.slots = max(2 * size, size + len(slot))
            for column in self.field.columns.values():
                column.grow(self.field.slots)
            more = np.arange(size, self.field.slots)
            self.free = np.concatenate([self.free[: self.unused], more, self.free[self.unused :]])
            self.unused += len(more)
        self.unused -= len(slot)
        row = self.row[slot] = self.free[self.unused : self.unused + len(slot)]
        for column, value in writes:
            column.put(row, value)

    def patch(self, key: Path, index: IntArray, rows: Array) -> None:
        """Overwrite those of the gathered `rows` [*index.shape, ...] whose successor lies here."""
        row = self.row[index]
        here = row >= 0
        if np.count_nonzero(here):
            column = self.field.columns[key]
            rows[column.like(here)] = column.take(row[here])
