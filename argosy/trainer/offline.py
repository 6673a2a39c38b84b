"""Trainer of algorithms that learn from a fixed set of data."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar

from argosy.algorithm import Algorithm
from argosy.config import limited
from argosy.data import ReplayBuffer, tree
from argosy.data.lazy import PART_BYTES
from argosy.data.stats import TrainingStatsT
from argosy.logger import ProgressBar
from argosy.trainer.base import BaseTrainer, EpochRecord
from argosy.trainer.checks import check_batch_size, check_data_is_uniform


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
        check_batch_size(self.batch_size, self.buffer, fixed=True)
        check_data_is_uniform(self.buffer)
        self._bar = ProgressBar(self.show_progress, unit="update")
        take_in_data(self.algorithm, self.buffer)

    @property
    def _epoch_length(self) -> int:
        return self.update_per_epoch

    @property
    def position(self) -> int:
        """Updates so far."""
        return self.state.update_step

    def _training_step(self, epoch: EpochRecord[TrainingStatsT]) -> None:
        start = time.perf_counter()
        self.algorithm.schedule(self.state.update_step, self.length)
        batch, _ = self.buffer.sample(self.batch_size, self._sampling)
        self._update(batch, epoch)
        self.state.update_time += time.perf_counter() - start


def take_in_data(algorithm: Algorithm, data: ReplayBuffer) -> None:
    """Let the observations of a data set count in the policy's statistics, if it keeps such."""
    normaliser = algorithm.policy.normaliser
    if normaliser is None:
        return
    slots = data.sample_indices(0)
    rows = max(1, PART_BYTES // max(tree.size_bytes(data.get(slots[:1], "obs")), 1))
    for start in range(0, len(slots), rows):
        normaliser.take_in(data.get(slots[start : start + rows], "obs"))
    normaliser.merge()
