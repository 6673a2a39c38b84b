"""Trainer of algorithms that learn from a replay buffer while they collect."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from argosy.collect import Collector
from argosy.config import limited
from argosy.data import Batch, ReplayBuffer
from argosy.data.stats import TrainingStatsT
from argosy.trainer.base import BaseTrainer, EpochRecord
from argosy.trainer.checks import check_batch_size, check_train_collector, pick_one


@dataclass(kw_only=True, eq=False, repr=False)
class OffpolicyTrainer(BaseTrainer[TrainingStatsT]):
    """Collects a few steps, makes a few updates from samples of the buffer, and so on."""

    train_collector: Collector
    """Collects with exploration into the buffer that updates sample from."""
    step_per_epoch: int = limited(10_000, ge=1)
    """Env steps of an epoch; a test follows."""
    step_per_collect: int | None = None
    """Env steps between two phases of updates, over all envs (default 10)."""
    episode_per_collect: int | None = None
    """Episodes instead of steps."""
    update_per_step: float = limited(1.0, gt=0)
    """Updates per env step; fractions add up."""
    batch_size: int = limited(64, ge=1)
    """Transitions of one update."""
    start_steps: int = limited(0, ge=0)
    """Env steps before the first update; they count as steps, but earn no updates."""
    start_actions: Literal["random", "policy"] = limited("random", among=("random", "policy"))
    """How to act in these: uniformly at random or by the policy."""

    kinds: ClassVar[tuple[str, ...]] = ("offpolicy", "offline")

    def __post_init__(self) -> None:
        super().__post_init__()
        pick_one(self, "step_per_collect", "episode_per_collect", default=10)
        buffer = check_train_collector(self.algorithm, self.train_collector)
        check_batch_size(self.batch_size, buffer)
        self._sampling = self.algorithm.sampling
        if self.algorithm.policy.normaliser is not None:
            self.train_collector.see = self.algorithm.take_in

    @property
    def _epoch_length(self) -> int:
        return self.step_per_epoch

    def _training_step(self, epoch: EpochRecord[TrainingStatsT]) -> None:
        state, collector = self.state, self.train_collector
        warming_up = state.env_step < self.start_steps
        stats = self._collect(
            collector,
            epoch,
            n_step=self.step_per_collect,
            n_episode=self.episode_per_collect,
            random=warming_up and self.start_actions == "random",
        )
        buffer = collector.buffer
        assert buffer is not None
        if warming_up or state.stopped or len(buffer) < self.batch_size:
            return
        start = time.perf_counter()
        state.updates_owed += stats.n_collected_steps * self.update_per_step
        while update_is_due(state.updates_owed):
            batch, indices = self._sample(buffer)
            state.updates_owed -= 1
            result = self._update(batch, epoch)
            if buffer.priorities is not None and result.priorities is not None:
                buffer.update_weight(indices, result.priorities)
        state.update_time += time.perf_counter() - start

    def _sample(self, buffer: ReplayBuffer) -> tuple[Batch, np.ndarray]:
        """Draw what one update learns from, and the slots of the buffer that it came from."""
        return buffer.sample(self.batch_size, self._sampling)


def update_is_due(owed: float) -> bool:
    """Whether steps have earned an update, `update_per_step` each; sums of fractions like 0.1 fall a little short."""
    return owed > 1 - 1e-9
