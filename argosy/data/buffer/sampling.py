"""What a sample holds beyond single transitions: n-step returns and sequences."""

from __future__ import annotations

from dataclasses import dataclass

from argosy.config import check_range
from argosy.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How a buffer turns stored transitions into a training batch. `Algorithm.sampling` says what it needs."""

    gamma: float = 0.99
    """Discount per step."""
    n_step: int = 1
    """Steps summed into the reward before the value of `obs_next` is used; episodes and sequences end them earlier."""
    sequence_length: int | None = None
    """Rows to learn from per sequence; batches are then [burn_in + sequence_length, B, ...]. None: single rows."""
    burn_in: int = 0
    """Rows before them that only warm up the recurrent state."""

    def __post_init__(self) -> None:
        check_range(self, "gamma", ge=0.0, le=1.0)
        check_range(self, "n_step", ge=1)
        check_range(self, "sequence_length", ge=1)
        check_range(self, "burn_in", ge=0)
        if self.burn_in and self.sequence_length is None:
            raise ConfigError(f"Sampling.burn_in is {self.burn_in} without sequence_length; set both or neither")

    @property
    def span(self) -> int:
        """Rows per drawn sequence; 1 for single rows."""
        return 1 if self.sequence_length is None else self.burn_in + self.sequence_length
