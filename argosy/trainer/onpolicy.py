"""Trainer of algorithms that learn from what the current policy has just collected."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar

from argosy.collect import Collector
from argosy.config import limited, replaced
from argosy.data import ReplayBuffer
from argosy.data.stats import TrainingStatsT
from argosy.errors import ConfigError
from argosy.trainer.base import BaseTrainer, EpochRecord
from argosy.trainer.checks import check_rollout_fits, check_train_collector, pick_one


@dataclass(kw_only=True, eq=False, repr=False)
class OnpolicyTrainer(BaseTrainer[TrainingStatsT]):
    """Collects a rollout, makes one update of it, forgets it, and so on."""

    train_collector: Collector
    """Collects with exploration into a buffer that holds one rollout."""
    step_per_epoch: int = limited(10_000, ge=1)
    """Env steps of an epoch; a test follows."""
    step_per_collect: int | None = None
    """Env steps of a rollout, over all envs (default 2048)."""
    episode_per_collect: int | None = None
    """Episodes instead of steps."""
    repeat_per_collect: int | None = None
    """Passes over each rollout; None: as the algorithm's config says."""
    batch_size: int | None = None
    """Transitions of one gradient step; None: as the algorithm's config says."""
    data: ReplayBuffer | None = None
    """Data set of which a rollout gets as many rows as it has itself, where the algorithm's `expert_rows` says so."""

    kinds: ClassVar[tuple[str, ...]] = ("onpolicy",)

    def __post_init__(self) -> None:
        super().__post_init__()
        pick_one(self, "step_per_collect", "episode_per_collect", default=2048)
        buffer = check_train_collector(self.algorithm, self.train_collector)
        if self.step_per_collect is not None:
            check_rollout_fits(buffer, self.train_collector.env.num_envs, self.step_per_collect)
        given = {"repeat_per_collect": self.repeat_per_collect, "batch_size": self.batch_size}
        changes = {name: value for name, value in given.items() if value is not None}
        if changes:
            self.algorithm.config = replaced(self.algorithm.config, changes)

    @property
    def _epoch_length(self) -> int:
        return self.step_per_epoch

    def _training_step(self, epoch: EpochRecord[TrainingStatsT]) -> None:
        state, collector = self.state, self.train_collector
        buffer = collector.buffer
        assert buffer is not None
        if len(buffer):  # left by an interrupted collection, or collected by hand
            buffer.reset()
        stats = self._collect(collector, epoch, n_step=self.step_per_collect, n_episode=self.episode_per_collect)
        if state.stopped:
            return
        if len(buffer) < stats.n_collected_steps:
            raise ConfigError(
                f"episode_per_collect={self.episode_per_collect} brought {stats.n_collected_steps} steps, of which the "
                f"buffer of {buffer.maxsize} has kept {len(buffer)}; make it larger"
            )
        start = time.perf_counter()
        rollout = buffer.rollout()
        if self.data is not None:
            rollout.expert, _ = self.data.sample(min(stats.n_collected_steps, len(self.data)))
        self._update(rollout, epoch)
        buffer.reset()
        state.update_time += time.perf_counter() - start
