"""What trainers share that collect in an env."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from argosy.collect import Collector
from argosy.config import limited
from argosy.data import ReplayBuffer
from argosy.data.stats import TrainingStatsT
from argosy.errors import ConfigError
from argosy.trainer.base import BaseTrainer


@dataclass(kw_only=True, eq=False, repr=False)
class CollectingTrainer(BaseTrainer[TrainingStatsT]):
    """Collects into a buffer, some steps or some episodes at a time, and learns from that."""

    train_collector: Collector
    """Collects with exploration into the buffer that is learned from."""
    step_per_epoch: int = limited(10_000, ge=1)
    """Env steps of an epoch; a test follows."""
    step_per_collect: int | None = limited(None, ge=1)
    """Env steps between two phases of updates, over all envs (default 10, on-policy 2048)."""
    episode_per_collect: int | None = limited(None, ge=1)
    """Episodes instead of steps."""

    steps_by_default: ClassVar[int]
    """Of `step_per_collect`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.step_per_collect is not None and self.episode_per_collect is not None:
            raise ConfigError(
                f"{type(self).__name__}: step_per_collect is {self.step_per_collect} and episode_per_collect is "
                f"{self.episode_per_collect}; give one of them"
            )
        if self.episode_per_collect is None:
            self.step_per_collect = self.step_per_collect or self.steps_by_default
        collector = self.train_collector
        if collector.buffer is None:
            raise ConfigError(
                "train_collector has no buffer to learn from; give it one: Collector(policy, env, buffer)"
            )
        if self.algorithm.kind == "offline":
            return  # what learns from data may learn from what any policy collects, exploring or not
        self._check_policy("train_collector", collector)
        if not collector.exploration_noise:
            raise ConfigError(
                "train_collector has exploration_noise=False, so it would collect the same greedy actions again and "
                "again; make it with Collector(policy, env, buffer, exploration_noise=True)"
            )

    @property
    def _epoch_length(self) -> int:
        return self.step_per_epoch

    @property
    def _buffer(self) -> ReplayBuffer:
        """Where the collector's transitions go."""
        assert self.train_collector.buffer is not None
        return self.train_collector.buffer
