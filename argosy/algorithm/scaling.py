"""Critics that predict returns in units of their running deviation: settings of all algorithms that have a critic."""

from __future__ import annotations

from dataclasses import dataclass

from argosy.algorithm.base import AlgorithmConfig
from argosy.net import Scaling


@dataclass(frozen=True, kw_only=True)
class ScalingConfig(AlgorithmConfig):
    """Whether critics scale what they predict, see `argosy.net.statistics.Scaled`."""

    return_scaling: bool = False
    """Let critics predict returns divided by their running deviation."""
    popart: bool = False
    """Let them predict centred ones as well, and keep their outputs where the statistics move (PopArt)."""

    @property
    def value_scaling(self) -> Scaling | None:
        """What their last layer is to do; None: they predict returns as they are."""
        return "popart" if self.popart else "std" if self.return_scaling else None
