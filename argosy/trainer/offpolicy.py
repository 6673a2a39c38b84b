"""Trainer of algorithms that learn from a replay buffer while they collect."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from argosy.config import limited
from argosy.data import Batch
from argosy.data.stats import TrainingStatsT
from argosy.errors import ConfigError
from argosy.trainer.base import EpochRecord
from argosy.trainer.collecting import CollectingTrainer


@dataclass(kw_only=True, eq=False, repr=False)
class OffpolicyTrainer(CollectingTrainer[TrainingStatsT]):
    """Collects a few steps, makes a few updates from samples of the buffer, and so on."""

    update_per_step: float = limited(1.0, gt=0)
    """Updates per env step; fractions add up."""
    batch_size: int = limited(64, ge=1)
    """Transitions of one update."""
    start_steps: int = limited(0, ge=0)
    """Env steps before the first update; they count as steps, but earn no updates."""
    start_actions: Literal["random", "policy"] = limited("random", among=("random", "policy"))
    """How to act in these: uniformly at random or by the policy."""

    kinds: ClassVar[tuple[str, ...]] = ("offpolicy", "offline")
    steps_by_default: ClassVar[int] = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batch_size > self._buffer.maxsize:
            raise ConfigError(
                f"batch_size is {self.batch_size}, but the buffer holds at most {self._buffer.maxsize} transitions; "
                "make the buffer larger or make the batch smaller"
            )
        self._sampling = self.algorithm.sampling
        if self.algorithm.policy.normaliser is not None:
            self.train_collector.see = self.algorithm.take_in

    def _training_step(self, epoch: EpochRecord[TrainingStatsT]) -> None:
        state, buffer = self.state, self._buffer
        warming_up = state.env_step < self.start_steps
        stats = self._collect(
            self.train_collector,
            epoch,
            n_step=self.step_per_collect,
            n_episode=self.episode_per_collect,
            random=warming_up and self.start_actions == "random",
        )
        if warming_up or state.stopped or len(buffer) < self.batch_size:
            return
        start = time.perf_counter()
        state.updates_owed += stats.n_collected_steps * self.update_per_step
        while update_is_due(state.updates_owed):
            batch, indices = self._sample()
            state.updates_owed -= 1
            result = self._update(batch, epoch)
            if buffer.priorities is not None and result.priorities is not None:
                buffer.update_weight(indices, result.priorities)
        state.update_time += time.perf_counter() - start

    def _sample(self) -> tuple[Batch, np.ndarray]:
        """Draw what one update learns from, and the slots of the buffer that it came from."""
        return self._buffer.sample(self.batch_size, self._sampling)


def update_is_due(owed: float) -> bool:
    """Whether steps have earned an update, `update_per_step` each; sums of fractions like 0.1 fall a little short."""
    return owed > 1 - 1e-9
