"""Sums over blocks of numbers, kept up to date, so that drawing in proportion to them is fast."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from argosy.data.buffer.rings import IntArray

FANOUT = 32
"""Children per node. A wide tree has few levels, and a few numpy calls handle a level for the whole batch."""
TOP = 1024
"""Largest top level, which is searched as a whole."""
PENDING = 4096
"""Changes after which the sums are renewed although nobody asks for them."""

_ONES = np.ones(FANOUT)
_RUNNING = np.triu(np.ones((FANOUT, FANOUT)))
"""block @ _RUNNING is the running sum of a block: for small blocks a product is 3x as fast as cumsum."""


class SumTree:
    """`size` numbers >= 0, all 0 at first, with their sums by blocks of 32, blocks of blocks and so on.

    Sums are renewed when they are needed, for all changes since the last time at once.
    """

    def __init__(self, size: int) -> None:
        self.levels: list[npt.NDArray[np.float64]] = []
        count = size
        while count > TOP:
            self.levels.append(np.zeros(-(-count // FANOUT) * FANOUT))
            count = -(-count // FANOUT)
        self.levels.append(np.zeros(count))
        self._changed: list[IntArray] = []
        self._pending = 0

    def __getitem__(self, index: IntArray) -> npt.NDArray[np.float64]:
        return self.levels[0][index]

    def __setitem__(self, index: IntArray, value: npt.ArrayLike) -> None:
        """Set numbers; of an index that repeats, the last counts."""
        self.levels[0][index] = value
        if len(self.levels) == 1:
            return
        self._changed.append(index // FANOUT)
        self._pending += len(index)
        if self._pending > PENDING:
            self._renew()

    def _renew(self) -> None:
        """Renew the sums above what changed."""
        if not self._pending:
            return
        index = np.concatenate(self._changed)  # of their blocks
        self._changed.clear()
        self._pending = 0
        for depth, below in enumerate(self.levels[:-1]):
            if depth:
                index = index // FANOUT
            self.levels[depth + 1][index] = below.reshape(-1, FANOUT).take(index, axis=0).dot(_ONES)

    @property
    def total(self) -> float:
        """Sum of all numbers."""
        self._renew()
        return float(self.levels[-1].sum())

    def find(self, fraction: npt.NDArray[np.float64]) -> IntArray:
        """Return, for each fraction [B] in [0, 1), the first index up to which the numbers sum to more of the total.

        Rounding can make it a neighbour whose number is 0; callers look.
        """
        self._renew()
        number = self.levels[-1]
        upper = number.cumsum()
        mass = fraction * upper[-1]
        node = place = np.minimum(upper.searchsorted(mass, side="right"), len(number) - 1)
        for depth in range(len(self.levels) - 2, -1, -1):
            mass -= upper[place] - number[place]
            block = self.levels[depth].reshape(-1, FANOUT).take(node, axis=0)
            running = block @ _RUNNING
            child = (running > mass[:, None]).argmax(axis=1)
            node = node * FANOUT + child
            if depth > 0:
                place = np.arange(0, child.size * FANOUT, FANOUT) + child
                number, upper = block.ravel(), running.ravel()
        return np.asarray(node)
