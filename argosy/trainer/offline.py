"""Trainer of algorithms that learn from a fixed set of data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from argosy.algorithm import Algorithm
from argosy.config import limited
from argosy.data import ReplayBuffer
from argosy.data.stats import TrainingStatsT
from argosy.errors import ConfigError
from argosy.logger import ProgressBar
from argosy.trainer.base import BaseTrainer, EpochRecord

_CHUNK_ROWS = 1 << 16


@dataclass(kw_only=True, eq=False, repr=False)
class OfflineTrainer(BaseTrainer[TrainingStatsT]):
    """Makes updates from samples of a buffer that stays as it is. Env steps count as 0; logs go by updates."""

    buffer: ReplayBuffer
    """The data."""
    update_per_epoch: int = limited(1000, ge=1)
    """Updates of an epoch; a test follows."""
    batch_size: int = limited(64, ge=1)
    """Transitions of one update."""

    kinds: ClassVar[tuple[str, ...]] = ("offline", "offpolicy")

    def __post_init__(self) -> None:
        super().__post_init__()
        self._sampling = self.algorithm.sampling
        self._bar = ProgressBar(self.show_progress, unit="update")
        begin_with_data(self.algorithm, self.buffer, self.batch_size)

    @property
    def _epoch_length(self) -> int:
        return self.update_per_epoch

    @property
    def position(self) -> int:
        """Updates so far."""
        return self.state.update_step

    def _training_step(self, epoch: EpochRecord[TrainingStatsT]) -> None:
        self._update_from(self.buffer, self.batch_size, self._sampling, epoch)


def begin_with_data(algorithm: Algorithm, data: ReplayBuffer, batch_size: int) -> None:
    """Let the observations of a data set count in the policy's statistics, if it keeps such.

    Raises:
        ConfigError: it does not fill a batch.
    """
    if batch_size > len(data):
        raise ConfigError(
            f"batch_size is {batch_size}, but the buffer holds {len(data)} transitions; give more data or make the "
            "batch smaller"
        )
    normaliser = algorithm.policy.normaliser
    if normaliser is None:
        return
    slots = data.sample_indices(0)
    for start in range(0, len(slots), _CHUNK_ROWS):
        normaliser.take_in(data.get(slots[start : start + _CHUNK_ROWS], "obs"))
    normaliser.merge()
