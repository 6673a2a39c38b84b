"""What a collector saves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypedDict, runtime_checkable

import numpy as np

from argosy.rng import RngState


@runtime_checkable
class HasState(Protocol):
    """What holds state, such as a callback of a trainer."""

    def state_dict(self) -> Mapping[str, object]:
        """Return the state."""

    def load_state_dict(self, state: Mapping[str, object], /) -> None:
        """Continue from a state."""


class CollectorState(TypedDict):
    """What `Collector.state_dict` returns."""

    rng: RngState
    counters: dict[str, float]
    pending_seeds: list[int] | None
    stagger_at: np.ndarray | None
    env: Mapping[str, object] | None
    hooks: list[dict[str, np.ndarray]]
