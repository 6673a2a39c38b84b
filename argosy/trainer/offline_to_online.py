"""Trainer of algorithms that learn from a data set first, and go on with what they collect."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from argosy.config import check_range, limited
from argosy.data import Batch, ReplayBuffer, Sampling, as_tensors, tree
from argosy.data.stats import TrainingStatsT
from argosy.errors import ConfigError
from argosy.trainer.base import EpochRecord
from argosy.trainer.checks import check_batch_size, check_data_is_uniform
from argosy.trainer.offline import take_in_data
from argosy.trainer.offpolicy import OffpolicyTrainer


@dataclass(kw_only=True, eq=False, repr=False)
class OfflineToOnlineTrainer(OffpolicyTrainer[TrainingStatsT]):
    """Makes updates from a data set, and then goes on in the env as an `OffpolicyTrainer`, learning from both.

    The data set stays as it is, beside the collector's buffer, which begins empty. Time is counted in updates at first
    and in env steps afterwards: an epoch has `step_per_epoch` of them, whichever they are.
    """

    data: ReplayBuffer
    """The data set."""
    offline_updates: int
    """Updates from it alone, before the first step in the env."""
    data_share: float | None = limited(None, ge=0.0, le=1.0)
    """Share of each later batch that is drawn from it; None: as if all transitions lay in one buffer."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, "offline_updates", ge=1)
        check_batch_size(self.batch_size, self.data, fixed=True)
        check_data_is_uniform(self.data)
        buffer = self.train_collector.buffer
        if buffer is not None and (buffer.priorities is not None or buffer.hindsight is not None):
            what = "draws by priority" if buffer.priorities is not None else "changes goals in hindsight"
            raise ConfigError(
                f"the buffer {what}, which a data set beside it does not; leave out buffer.priority and "
                "buffer.hindsight, or the data set"
            )
        take_in_data(self.algorithm, self.data)

    @property
    def position(self) -> int:
        """Updates from the data set alone, and steps of the env, so far."""
        return min(self.state.update_step, self.offline_updates) + self.state.env_step

    def _training_step(self, epoch: EpochRecord[TrainingStatsT]) -> None:
        if self.state.update_step >= self.offline_updates:
            super()._training_step(epoch)
            return
        start = time.perf_counter()
        self.algorithm.schedule(self.position, self.length)
        batch, _ = self.data.sample(self.batch_size, self._sampling)
        self._update(batch, epoch)
        self.state.update_time += time.perf_counter() - start

    def _sample(self, buffer: ReplayBuffer) -> tuple[Batch, np.ndarray]:
        """Draw a batch from both, the data set's rows first."""
        share = self.data_share
        if share is None:
            share = len(self.data) / (len(self.data) + len(buffer))
        # Whole rows, whose mean is exactly the share
        from_data = int(share * self.batch_size + self.algorithm.rng.numpy.random())
        counts = ((self.data, from_data), (buffer, self.batch_size - from_data))
        parts = [source.sample(count, self._sampling) for source, count in counts if count > 0]
        batch = _cat_rows([as_tensors(batch, self.algorithm.device) for batch, _ in parts], self._sampling)
        return batch, np.concatenate([slots for _, slots in parts])


def _cat_rows(batches: list[Batch], sampling: Sampling) -> Batch:
    """Concatenate samples [B, ...] or [T, B, ...]; what the policy stored in one of them only is zero in the other."""
    if sampling.sequence_length is None:
        return Batch.cat(batches)
    return _swapped(Batch.cat([_swapped(batch) for batch in batches]))


def _swapped(batch: Batch) -> Batch:
    return tree.map_leaves(lambda leaf: leaf.transpose(0, 1), batch)
