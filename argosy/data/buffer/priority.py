"""Prioritised sampling: slots are drawn in proportion to priority^alpha (Schaul et al. 2016, arXiv 1511.05952).

And sums over ranges of numbers by themselves, for whoever draws by priorities of their own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from argosy.config import Checked, limited
from argosy.data.buffer.columns import as_array
from argosy.data.buffer.rings import IntArray
from argosy.data.tree import State
from argosy.errors import ConfigError, DataError

DoubleArray = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Priority(Checked):
    """How priorities become probabilities and importance weights."""

    alpha: float = limited(0.6, ge=0.0, le=10.0)
    """Exponent of the priorities; 0 is uniform."""
    beta: float = limited(0.4, ge=0.0, le=10.0)
    """Exponent of the importance weights; 1 corrects the bias of the draw fully."""
    beta_final: float | None = limited(None, ge=0.0, le=10.0)
    """Value that beta reaches linearly after `beta_samples` samples; None keeps it."""
    beta_samples: int = limited(100_000, ge=1)
    """Number of `sample` calls over which beta moves."""
    weight_norm: bool = True
    """Divide the weights by the largest of the batch, so that they only scale down."""


class Priorities:
    """The priorities of all slots (0 where there is no row) and the draw by them."""

    def __init__(self, config: Priority, slots: int) -> None:
        from argosy.data.buffer.sumtree import SumTree  # compiled code, which other buffers need not wait for

        self.tree = SumTree(slots)
        self.config = config
        self.beta = config.beta
        self.samples = 0

    def update(self, index: npt.ArrayLike, priority: Any) -> None:
        """Set priorities, see `ReplayBuffer.update_weight`; of a slot that repeats, the last counts."""
        slot = as_array(index, "indices").ravel().astype(np.int64, copy=False)
        value = as_array(priority, "priorities").ravel().astype(np.float64, copy=False)
        if len(slot) != len(value):
            raise DataError(f"update_weight() got {len(slot)} indices and {len(value)} priorities; one for each")
        bad = self.tree.update(slot, value, self.config.alpha)
        if bad == len(slot):
            return
        if not math.isfinite(value[bad]):
            raise DataError(f"priorities[{bad}] of slot {slot[bad]} is {value[bad]}; nothing was changed")
        if not 0 <= slot[bad] < self.tree.size:
            raise DataError(f"indices reach from {slot.min()} to {slot.max()}; slots are 0 .. {self.tree.size - 1}")
        raise DataError(f"slot {slot[bad]} holds no transition")

    def draw(self, size: int, rng: np.random.Generator) -> IntArray:
        """Draw slots [size] with replacement."""
        return self.tree.find(rng.random(size))

    def weights(self, slot: IntArray, stored: int) -> npt.NDArray[np.float32]:
        """Return the importance weights of drawn slots: (stored * probability)^-beta."""
        return self.tree.weights(slot, self.beta, None if self.config.weight_norm else stored)

    def step(self) -> None:
        """Count one sample and move beta along its schedule."""
        self.samples += 1
        final = self.config.beta_final
        if final is not None:
            done = min(self.samples / self.config.beta_samples, 1.0)
            self.beta = self.config.beta + (final - self.config.beta) * done

    def set_beta(self, beta: float) -> None:
        """Set beta by hand, see `ReplayBuffer.set_beta`."""
        if beta < 0 or self.config.beta_final is not None:
            raise ConfigError(f"set_beta({beta}): beta must be >= 0 and Priority.beta_final None")
        self.beta = beta

    def state_dict(self, slot: IntArray) -> State:
        """Return the state; `slot` are those that hold a row."""
        return {"weight": self.tree[slot], "highest": self.tree.highest, "beta": self.beta, "samples": self.samples}

    def load_state_dict(self, state: State, slot: IntArray) -> None:
        """Continue where `state` was taken."""
        self.tree.restore(slot, np.asarray(state["weight"], np.float64), float(state["highest"]))
        self.beta, self.samples = float(state["beta"]), int(state["samples"])


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
        found = self._tree.find_mass(given.ravel()).reshape(given.shape)
        return found if given.ndim else int(found)

    def _checked(self, index: int | IntArray) -> IntArray:
        slot = np.asarray(index, np.int64)
        if slot.size and (slot.min() < 0 or slot.max() >= len(self)):
            raise IndexError(f"index reaches from {slot.min()} to {slot.max()}; the tree holds {len(self)} numbers")
        return slot
