"""What a sample holds beyond single transitions: n-step returns."""

from __future__ import annotations

from dataclasses import dataclass

from argosy.config import check_range


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How a buffer turns stored transitions into a training batch. `Algorithm.sampling` says what it needs."""

    gamma: float = 0.99
    """Discount per step."""
    n_step: int = 1
    """Steps summed into the reward before the value of `obs_next` is used."""

    def __post_init__(self) -> None:
        check_range(self, "gamma", ge=0.0, le=1.0)
        check_range(self, "n_step", ge=1)
