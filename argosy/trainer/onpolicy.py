"""Trainer of algorithms that learn from what the current policy has just collected."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from typing import ClassVar

from argosy.collect import Collector
from argosy.config import check_range
from argosy.data.stats import TrainingStatsT
from argosy.errors import ConfigError
from argosy.trainer.base import BaseTrainer, EpochRecord, pick_one


@dataclass(kw_only=True, eq=False, repr=False)
class OnpolicyTrainer(BaseTrainer[TrainingStatsT]):
    """Collects a rollout, makes one update of it, forgets it, and so on."""

    train_collector: Collector
    """Collects with exploration into a buffer that holds one rollout."""
    step_per_epoch: int = 10_000
    """Env steps of an epoch; a test follows."""
    step_per_collect: int | None = None
    """Env steps of a rollout, over all envs (default 2048)."""
    episode_per_collect: int | None = None
    """Episodes instead of steps."""
    repeat_per_collect: int | None = None
    """Passes over each rollout; None: as the algorithm's config says."""
    batch_size: int | None = None
    """Transitions of one gradient step; None: as the algorithm's config says."""

    kinds: ClassVar[tuple[str, ...]] = ("onpolicy",)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, "step_per_epoch", ge=1)
        pick_one(self, "step_per_collect", "episode_per_collect", default=2048)
        self._check_train_collector(self.train_collector)
        self._set_config()
        buffer, num_envs = self.train_collector.buffer, self.train_collector.env.num_envs
        assert buffer is not None
        if self.step_per_collect is not None:
            rows, room = -(-self.step_per_collect // num_envs), buffer.maxsize // buffer.buffer_num
            if rows > room:
                raise ConfigError(
                    f"step_per_collect is {self.step_per_collect}, {rows} steps of each of {num_envs} envs, but the "
                    f"buffer holds {room} of each; make it VectorReplayBuffer({rows * num_envs}, {num_envs}) or larger"
                )

    def _set_config(self) -> None:
        """Hand `repeat_per_collect` and `batch_size` to the algorithm, whose settings they are."""
        changes = {name: getattr(self, name) for name in ("repeat_per_collect", "batch_size")}
        changes = {name: value for name, value in changes.items() if value is not None}
        config = self.algorithm.config
        for name in changes:
            if not hasattr(config, name):
                raise ConfigError(f"{name} is given, but {type(config).__name__} has no such setting")
        if changes:
            self.algorithm.config = dataclasses.replace(config, **changes)

    @property
    def _epoch_length(self) -> int:
        return self.step_per_epoch

    @property
    def _position(self) -> int:
        return self.state.env_step

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
        self._update(buffer.rollout(), epoch)
        buffer.reset()
        state.update_time += time.perf_counter() - start
