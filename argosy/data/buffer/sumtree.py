"""A tree of sums over priorities, so that drawing in proportion to them takes few steps.

Compiled by numba: in numpy the calls alone take several times what the machine has to do (docs/adr/0011). It takes a
second to import, so only prioritised buffers do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from numba import float32, float64, int64, njit, types, void

from argosy.data.buffer.rings import IntArray

# What the compiled code takes: read-only arrays, so that others do too.
_NODES = types.Array(float64, 1, "C")
_SLOTS = types.Array(int64, 1, "C", readonly=True)
_VALUES = types.Array(float64, 1, "C", readonly=True)

FunctionT = TypeVar("FunctionT", bound=Callable[..., object])
DoubleArray = npt.NDArray[np.float64]
EPS = float(np.finfo(np.float32).eps)
"""Added to priorities: a row whose error is 0 must stay possible."""


def compiled(signature: Any) -> Callable[[FunctionT], FunctionT]:
    """Compile for these types now, or read what an earlier process compiled."""

    def compile_it(function: FunctionT) -> FunctionT:
        done: FunctionT
        try:
            done = njit(signature, cache=True)(function)
        except RuntimeError:  # neither this folder nor the user's can be written, as in some containers
            done = njit(signature)(function)
        return done

    return compile_it


@compiled(void(_NODES, int64, float64))
def _set(nodes: DoubleArray, leaf: int, value: float) -> None:
    node = len(nodes) // 2 + leaf
    nodes[node] = value
    while node > 1:
        node //= 2
        nodes[node] = nodes[2 * node] + nodes[2 * node + 1]


@compiled(void(_NODES, _SLOTS, _VALUES))
def _put(nodes: DoubleArray, leaf: IntArray, value: DoubleArray) -> None:
    for i in range(len(leaf)):
        _set(nodes, leaf[i], value[i])


@compiled(void(_NODES, _SLOTS, float64))
def _fill(nodes: DoubleArray, leaf: IntArray, value: float) -> None:
    for i in range(len(leaf)):
        _set(nodes, leaf[i], value)


@compiled(int64(_NODES, int64, _SLOTS, _VALUES, float64))
def _update(nodes: DoubleArray, size: int, leaf: IntArray, priority: DoubleArray, alpha: float) -> int:
    leaves = len(nodes) // 2
    for i in range(len(leaf)):
        if not (0 <= leaf[i] < size and nodes[leaves + leaf[i]] > 0.0 and np.isfinite(priority[i])):
            return i
    for i in range(len(leaf)):
        value = (abs(priority[i]) + EPS) ** alpha
        nodes[0] = max(nodes[0], value)
        _set(nodes, leaf[i], value)
    return len(leaf)


@compiled(int64[::1](_NODES, _VALUES, float64))
def _find(nodes: DoubleArray, share: DoubleArray, total: float) -> IntArray:
    mass = share * total
    node = np.ones(len(mass), np.int64)
    leaves = level = len(nodes) // 2
    while level > 1:  # all go down one level, so that the machine waits for memory once per level, not for each
        level //= 2
        for i in range(len(node)):
            left = 2 * node[i]
            below = nodes[left]
            # Without branches, whose ways no machine could foresee. Rounding can leave more mass than there is: never
            # step to a sum of 0.
            right = (mass[i] >= below) & (nodes[left + 1] > 0.0)
            mass[i] -= below * right
            node[i] = left + right
    return node - leaves


@compiled(float32[::1](_NODES, _SLOTS, float64, float64))
def _weights(nodes: DoubleArray, leaf: IntArray, one: float, beta: float) -> npt.NDArray[np.float32]:
    leaves = len(nodes) // 2
    weight = np.empty(len(leaf), np.float32)
    if one == 0.0:
        one = np.inf
        for i in range(len(leaf)):
            one = min(one, nodes[leaves + leaf[i]])
    for i in range(len(leaf)):
        weight[i] = (nodes[leaves + leaf[i]] / one) ** -beta
    return weight


class SumTree:
    """priority^alpha of `size` slots, 0 where there is no row; above them the sums of pairs, of pairs of pairs ...

    `nodes[1]` is the sum of all; below node i are the nodes 2i and 2i + 1. `nodes[0]` is the largest number that was
    ever set, 1 at first: what new rows get, so that each is drawn soon. All slots and values are contiguous [B].
    """

    def __init__(self, size: int) -> None:
        self.nodes: DoubleArray = np.zeros(2 << (size - 1).bit_length())
        self.nodes[0] = 1.0
        self.size = size

    def __getitem__(self, slot: IntArray) -> DoubleArray:
        return self.nodes[len(self.nodes) // 2 + slot]

    @property
    def total(self) -> float:
        """Sum of all numbers."""
        return float(self.nodes[1])

    @property
    def highest(self) -> float:
        """Largest number ever set."""
        return float(self.nodes[0])

    def clear(self) -> None:
        """Forget everything."""
        self.nodes[:] = 0.0
        self.nodes[0] = 1.0

    def restore(self, slot: IntArray, value: DoubleArray, highest: float) -> None:
        """Forget everything but what is given."""
        self.clear()
        self.nodes[0] = highest
        _put(self.nodes, slot, value)

    def put(self, slot: IntArray, value: DoubleArray) -> None:
        """Set numbers; of a slot that repeats, the last counts."""
        _put(self.nodes, slot, value)

    def add(self, slot: IntArray) -> None:
        """Give new rows the largest number."""
        _fill(self.nodes, slot, self.nodes[0])

    def drop(self, slot: IntArray) -> None:
        """Set the numbers of rows that are no more to 0."""
        _fill(self.nodes, slot, 0.0)

    def update(self, slot: IntArray, priority: DoubleArray, alpha: float) -> int:
        """Set numbers; of a slot that repeats, the last counts.

        Returns:
            The first place where the slot is outside or holds no row, or the priority is not finite: then nothing was
            set. B if there is none.
        """
        return _update(self.nodes, self.size, slot, priority, alpha)

    def find(self, fraction: DoubleArray) -> IntArray:
        """Return, for each fraction [B] in [0, 1), the first slot up to which the numbers sum to more of the total.

        Rounding may make it a neighbour, but never one that holds no row (unless none does).
        """
        return _find(self.nodes, fraction, self.nodes[1])

    def find_mass(self, mass: DoubleArray) -> IntArray:
        """Return, for each mass [B], the first slot up to which the numbers sum to more."""
        return _find(self.nodes, mass, 1.0)

    def weights(self, slot: IntArray, beta: float, stored: int | None) -> npt.NDArray[np.float32]:
        """Return (stored * number / total)^-beta; with None, divided by the largest of them."""
        # Normed, the total and `stored` cancel out: the row of the lowest number has weight 1.
        return _weights(self.nodes, slot, 0.0 if stored is None else self.nodes[1] / stored, beta)
