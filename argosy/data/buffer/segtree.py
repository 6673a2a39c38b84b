"""Sums over ranges of numbers, by themselves; prioritised buffers have theirs within."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from argosy.data.buffer.rings import IntArray
from argosy.errors import ConfigError

DoubleArray = npt.NDArray[np.float64]


class SegmentTree:
    """`size` numbers >= 0 whose sums over ranges cost O(log n): `tree[i] = x`, `tree.reduce(a, b)`.

    Args:
        size: how many; all 0 at first.

    Raises:
        ConfigError: `size` is below 1.
    """

    def __init__(self, size: int) -> None:
        if size < 1:
            raise ConfigError(f"size is {size}; a SegmentTree must hold at least 1 number")
        from argosy.data.buffer.sumtree import SumTree  # here: it brings numba, which takes a second

        self._tree = SumTree(size)

    def __len__(self) -> int:
        return self._tree.size

    def __getitem__(self, index: int | IntArray) -> float | DoubleArray:
        return self._tree[self._checked(index)][()]

    def __setitem__(self, index: int | IntArray, value: npt.ArrayLike) -> None:
        """Set numbers; of an index that repeats, the last counts."""
        slot = np.ascontiguousarray(np.atleast_1d(self._checked(index)))
        self._tree.put(slot, np.ascontiguousarray(np.broadcast_to(np.asarray(value, np.float64), slot.shape)))

    def reduce(self, start: int = 0, end: int | None = None) -> float:
        """Return the sum of `tree[start:end]`, as lists are sliced."""
        first, last, _ = slice(start, end).indices(len(self))
        nodes, leaves, total = self._tree.nodes, len(self._tree.nodes) // 2, 0.0
        low, high = first + leaves, max(first, last) + leaves
        while low < high:
            if low % 2:
                total, low = total + float(nodes[low]), low + 1
            if high % 2:
                high -= 1
                total += float(nodes[high])
            low, high = low // 2, high // 2
        return total

    def get_prefix_sum_idx(self, value: npt.ArrayLike) -> int | IntArray:
        """Return the first index up to which the numbers sum to more than `value`, or to all where they never do."""
        given = np.asarray(value, np.float64)
        found = self._tree.find_mass(given.flatten()).reshape(given.shape)
        return found if given.ndim else int(found)

    def _checked(self, index: int | IntArray) -> IntArray:
        slot = np.asarray(index, np.int64)
        if slot.size and (slot.min() < 0 or slot.max() >= len(self)):
            raise IndexError(f"index reaches from {slot.min()} to {slot.max()}; the tree holds {len(self)} numbers")
        return slot
