"""Sums over blocks of numbers, kept up to date, so that drawing in proportion to them is fast."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from argosy.data.buffer.rings import IntArray

FANOUT = 64
"""Children per node. A wide tree has few levels, and one numpy call handles a level for the whole batch."""
TOP = 512
"""Largest top level, which is searched as a whole."""


class SumTree:
    """`size` numbers >= 0, all 0 at first, with their sums by blocks of 64, blocks of blocks and so on."""

    def __init__(self, size: int) -> None:
        self.levels: list[npt.NDArray[np.float64]] = []
        count = size
        while True:
            top = count <= TOP
            self.levels.append(np.zeros(count if top else -(-count // FANOUT) * FANOUT))
            if top:
                break
            count = -(-count // FANOUT)

    @property
    def total(self) -> float:
        """Sum of all numbers."""
        return float(self.levels[-1].sum())

    def __getitem__(self, index: IntArray) -> npt.NDArray[np.float64]:
        return self.levels[0][index]

    def __setitem__(self, index: IntArray, value: npt.ArrayLike) -> None:
        """Set numbers (of an index that repeats, the last counts) and renew the sums above them."""
        self.levels[0][index] = value
        for below, level in zip(self.levels, self.levels[1:], strict=False):
            index = index // FANOUT
            level[index] = np.add.reduce(below.reshape(-1, FANOUT)[index], axis=1)

    def find(self, mass: npt.NDArray[np.float64]) -> IntArray:
        """Return, for each mass [B] in [0, total), the first index up to which the numbers sum to more than it.

        Rounding can make it a neighbour whose number is 0; callers look.
        """
        top = self.levels[-1]
        upper = np.cumsum(top)
        node = np.minimum(np.searchsorted(upper, mass, side="right"), len(top) - 1)
        mass = mass - (upper[node] - top[node])
        first = np.arange(len(mass)) * FANOUT
        for level in self.levels[-2::-1]:
            # One running sum over all chosen blocks laid end to end: one search finds the place in each.
            block = level.reshape(-1, FANOUT)[node].ravel()
            upper = np.cumsum(block)
            start = upper[first] - block[first]
            found = np.clip(np.searchsorted(upper, start + mass, side="right"), first, first + (FANOUT - 1))
            mass = mass + start - (upper[found] - block[found])
            node = node * FANOUT + (found - first)
        return node.astype(np.int64, copy=False)
