"""Trainer of algorithms that learn from what the current policy has just collected."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar

from argosy.config import replaced
from argosy.data import ReplayBuffer
from argosy.data.stats import TrainingStatsT
from argosy.errors import ConfigError
from argosy.trainer.base import EpochRecord
from argosy.trainer.collecting import CollectingTrainer


@dataclass(kw_only=True, eq=False, repr=False)
class OnpolicyTrainer(CollectingTrainer[TrainingStatsT]):
    """Collects a rollout, makes one update of it, forgets it, and so on; the buffer has to hold one."""

    repeat_per_collect: int | None = None
    """Passes over each rollout; None: as the algorithm's config says."""
    batch_size: int | None = None
    """Transitions of one gradient step; None: as the algorithm's config says."""
    data: ReplayBuffer | None = None
    """Data set of which a rollout gets as many rows as it has itself, where the algorithm's `expert_rows` says so."""

    kinds: ClassVar[tuple[str, ...]] = ("onpolicy",)
    steps_by_default: ClassVar[int] = 2048

    def __post_init__(self) -> None:
        super().__post_init__()
        num_envs, buffer = self.train_collector.env.num_envs, self._buffer
        rows, room = -(-(self.step_per_collect or 0) // num_envs), buffer.maxsize // buffer.buffer_num
        if rows > room:
            raise ConfigError(
                f"step_per_collect is {self.step_per_collect}, {rows} steps of each of {num_envs} envs, but the buffer "
                f"holds {room} of each; make it VectorReplayBuffer({rows * num_envs}, {num_envs}) or larger"
            )
        given = {"repeat_per_collect": self.repeat_per_collect, "batch_size": self.batch_size}
        changes = {name: value for name, value in given.items() if value is not None}
        if changes:
            self.algorithm.config = replaced(self.algorithm.config, changes)

    def _training_step(self, epoch: EpochRecord[TrainingStatsT]) -> None:
        state, collector, buffer = self.state, self.train_collector, self._buffer
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
