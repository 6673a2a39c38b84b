"""Prioritised sampling: slots are drawn in proportion to priority^alpha (Schaul et al. 2016, arXiv 1511.05952)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from argosy.config import check_range
from argosy.data.buffer.columns import as_array
from argosy.data.buffer.rings import IntArray
from argosy.data.tree import State
from argosy.errors import ConfigError, DataError


@dataclass(frozen=True, kw_only=True)
class Priority:
    """How priorities become probabilities and importance weights."""

    alpha: float = 0.6
    """Exponent of the priorities; 0 is uniform."""
    beta: float = 0.4
    """Exponent of the importance weights; 1 corrects the bias of the draw fully."""
    beta_final: float | None = None
    """Value that beta reaches linearly after `beta_samples` samples; None keeps it."""
    beta_samples: int = 100_000
    """Number of `sample` calls over which beta moves."""
    weight_norm: bool = True
    """Divide the weights by the largest of the batch, so that they only scale down."""

    def __post_init__(self) -> None:
        check_range(self, "alpha", "beta", "beta_final", ge=0.0, le=10.0)
        check_range(self, "beta_samples", ge=1)


class Priorities:
    """The priorities of all slots (0 where there is no row) and the draw by them."""

    def __init__(self, config: Priority, slots: int) -> None:
        from argosy.data.buffer.sumtree import SumTree  # compiled code, which other buffers need not wait for

        self.tree = SumTree(slots)
        self.config = config
        self.slots = slots
        self.beta = config.beta
        self.samples = 0

    def update(self, index: npt.ArrayLike, priority: Any) -> None:
        """Set priorities; both of any shape, e.g. [B] or [T, B]. Of a slot that repeats, the last counts.

        Raises:
            DataError: shapes differ, a slot holds no row, or a priority is NaN or infinite. Nothing changes then.
        """
        slot = as_array(index, "indices").ravel().astype(np.int64, copy=False)
        value = as_array(priority, "priorities").ravel().astype(np.float64, copy=False)
        if len(slot) != len(value):
            raise DataError(f"update_weight() got {len(slot)} indices and {len(value)} priorities; one for each")
        bad = self.tree.update(slot, value, self.config.alpha)
        if bad == len(slot):
            return
        if not math.isfinite(value[bad]):
            raise DataError(f"priorities[{bad}] of slot {slot[bad]} is {value[bad]}; nothing was changed")
        if not 0 <= slot[bad] < self.slots:
            raise DataError(f"indices reach from {slot.min()} to {slot.max()}; slots are 0 .. {self.slots - 1}")
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
        """Set beta by hand.

        Raises:
            ConfigError: it is negative, or the config has a schedule that would overwrite it.
        """
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
