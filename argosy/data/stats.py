"""Typed results of collecting, learning and whole runs. Times in seconds, speeds in env steps per second."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Generic

import numpy as np
import torch
from typing_extensions import TypeVar  # with a default

from argosy.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class SequenceSummaryStats:
    """Mean, population standard deviation and range of some numbers."""

    mean: float
    std: float
    max: float
    min: float

    def __str__(self) -> str:
        return f"{self.mean:.4g} ± {self.std:.3g} ({self.min:.4g} to {self.max:.4g})"

    @classmethod
    def from_sequence(cls, sequence: Sequence[float | int] | np.ndarray) -> SequenceSummaryStats:
        """Summarise a sequence; an empty one gives zeros."""
        values = np.asarray(sequence, dtype=np.float64)
        if values.size == 0:
            return cls(mean=0.0, std=0.0, max=0.0, min=0.0)
        return cls(mean=float(values.mean()), std=float(values.std()), max=float(values.max()), min=float(values.min()))


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CollectStats:
    """What one call of `Collector.collect` brought."""

    n_collected_episodes: int = 0
    """Episodes that ended in this call."""
    n_collected_steps: int = 0
    """Transitions, over all envs."""
    collect_time: float = 0.0
    """Seconds of wall time."""
    returns: np.ndarray = field(default_factory=lambda: np.zeros(0))
    """[E] undiscounted return of every ended episode ([E, N] with N agents), in order of their ends."""
    lens: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    """[E] steps of every ended episode."""
    successes: np.ndarray = field(default_factory=lambda: np.zeros(0))
    """[E] `info["is_success"]` at the end of every ended episode, of envs with goals; NaN where it is not said."""

    def __repr__(self) -> str:
        returns, lens = self.returns_stat, self.lens_stat
        ended = "" if returns is None or lens is None else f", returns={returns}, lens={lens}"
        return (
            f"{type(self).__name__}(n_collected_episodes={self.n_collected_episodes}, "
            f"n_collected_steps={self.n_collected_steps}, collect_time={self.collect_time:.3g}{ended})"
        )

    @classmethod
    def merged(cls, parts: Sequence[CollectStats]) -> CollectStats | None:
        """Return what several calls brought together; None for none."""
        if not parts:
            return None
        ended = [part for part in parts if part.n_collected_episodes]
        return cls(
            n_collected_episodes=sum(part.n_collected_episodes for part in ended),
            n_collected_steps=sum(part.n_collected_steps for part in parts),
            collect_time=sum(part.collect_time for part in parts),
            returns=np.concatenate([part.returns for part in ended or parts[:1]]),
            lens=np.concatenate([part.lens for part in ended or parts[:1]]),
            successes=np.concatenate([part.successes for part in ended or parts[:1]]),
        )

    @property
    def collect_speed(self) -> float:
        """Transitions per second."""
        return self.n_collected_steps / self.collect_time if self.collect_time > 0 else 0.0

    @property
    def returns_stat(self) -> SequenceSummaryStats | None:
        """Summary of the returns; None when no episode ended."""
        return SequenceSummaryStats.from_sequence(self.returns) if self.n_collected_episodes else None

    @property
    def lens_stat(self) -> SequenceSummaryStats | None:
        """Summary of the lengths; None when no episode ended."""
        return SequenceSummaryStats.from_sequence(self.lens) if self.n_collected_episodes else None

    @property
    def success_rate(self) -> float | None:
        """Share of the ended episodes that succeeded; None where the env does not say."""
        told = self.successes[~np.isnan(self.successes)]
        return float(told.mean()) if len(told) else None

    def metrics(self, prefix: str = "episode") -> dict[str, float]:
        """Return the numbers for a logger; those of episodes only when one ended."""
        out = {"time/steps_per_s": self.collect_speed} if prefix == "episode" else {}
        returns, lens = self.returns_stat, self.lens_stat
        if returns is not None and lens is not None:
            out |= {
                f"{prefix}/return_mean": returns.mean,
                f"{prefix}/return_std": returns.std,
                f"{prefix}/return_max": returns.max,
                f"{prefix}/return_min": returns.min,
                f"{prefix}/length_mean": lens.mean,
                f"{prefix}/count": float(self.n_collected_episodes),
            }
        if self.success_rate is not None:
            out[f"{prefix}/success_rate"] = self.success_rate
        return out


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainingStats:
    """Base of what `Algorithm.update` returns: numbers (losses and others) and, where asked for, new priorities.

    A subclass adds float fields. `loss` is the total loss and `loss_X` a part of it; every other field is a
    diagnostic. None says that an update did not compute the number (e.g. the actor's loss of a delayed update).
    """

    priorities: np.ndarray | torch.Tensor | None = None
    """[B] new priorities of the samples (for a prioritised buffer), else None."""
    gradient_steps: int = 1
    """Optimiser steps of this update; more than one where it goes over its batch in parts."""

    def metrics(self) -> dict[str, float]:
        """Return the numbers for a logger: `loss` as loss/total, `loss_X` as loss/X, any other field as stat/X."""
        out: dict[str, float] = {}
        for name, value in vars(self).items():
            if not _is_number(name, value):
                continue
            if name == "loss":
                out["loss/total"] = float(value)
            elif name.startswith("loss_"):
                out[f"loss/{name.removeprefix('loss_')}"] = float(value)
            else:
                out[f"stat/{name}"] = float(value)
        return out


TrainingStatsT = TypeVar("TrainingStatsT", bound=TrainingStats, default=Any)


class TrainingStatsMean(Generic[TrainingStatsT]):
    """Mean of the numbers of many updates; a number that an update left None does not count there.

    Args:
        totals: sum and count of each number so far, by its name; kept up to date, for a checkpoint to hold.
    """

    def __init__(self, totals: dict[str, list[float]] | None = None) -> None:
        self._last: TrainingStatsT | None = None
        self._totals = {} if totals is None else totals

    def add(self, stats: TrainingStatsT) -> None:
        """Take in one update's numbers."""
        if not isinstance(stats, TrainingStats):
            raise ConfigError(f"the algorithm's update returned {stats!r:.60}; let it return its TrainingStats")
        self._last = stats
        for name, value in stats.__dict__.items():
            if type(value) is float or _is_number(name, value):
                total = self._totals.setdefault(name, [0.0, 0])
                total[0] += float(value)
                total[1] += 1

    def mean(self) -> TrainingStatsT | None:
        """Return the mean over all updates so far, without priorities; None before the first one of this object."""
        if self._last is None:
            return None
        changes: dict[str, Any] = {name: total / count for name, (total, count) in self._totals.items()}
        return dataclasses.replace(self._last, priorities=None, **changes)


def _is_number(name: str, value: object) -> bool:
    return isinstance(value, float | int | np.floating | np.integer) and name != "gradient_steps"


@dataclass(frozen=True, kw_only=True)
class TimingStats:
    """Where the wall time of a run went."""

    total_time: float = 0.0
    """Since the trainer was made (over resumes)."""
    train_time: float = 0.0
    """Collecting and updating."""
    train_time_collect: float = 0.0
    train_time_update: float = 0.0
    test_time: float = 0.0
    update_speed: float = 0.0
    """Training env steps per second of `train_time`."""


@dataclass(frozen=True, kw_only=True)
class InfoStats:
    """State and best result of a run so far."""

    gradient_step: int
    """Optimiser steps (`TrainingStats.gradient_steps` of all updates)."""
    best_reward: float
    """Best mean of the test episodes' metric; -inf before the first test."""
    best_reward_std: float
    train_step: int
    """Training env steps."""
    train_episode: int
    test_step: int
    test_episode: int
    timing: TimingStats = field(default_factory=TimingStats)
    stopped: bool = False
    """Whether `stop_fn` ended the run."""


@dataclass(frozen=True, kw_only=True, eq=False)
class EpochStats(Generic[TrainingStatsT]):
    """What a trainer yields after each epoch."""

    epoch: int
    train_collect_stat: CollectStats | None
    """All that the epoch collected; None for offline training."""
    test_collect_stat: CollectStats | None
    """The test episodes at the epoch's end; None without a test collector."""
    training_stat: TrainingStatsT | None
    """Means over the epoch's updates; None when there were none (e.g. too little data)."""
    info_stat: InfoStats

    def metrics(self) -> dict[str, float]:
        """Return the numbers for a logger."""
        train, test, update = self.train_collect_stat, self.test_collect_stat, self.training_stat
        return {
            **({} if train is None else train.metrics()),
            **({} if test is None else test.metrics("test")),
            **({} if update is None else update.metrics()),
        }

    def line(self) -> str:
        """Say in one line how the epoch went."""
        info, train, test = self.info_stat, self.train_collect_stat, self.test_collect_stat
        parts = [
            f"epoch {self.epoch}",
            f"{info.gradient_step} updates" if train is None else f"{info.train_step} steps",
        ]
        for name, collected in (("train", train), ("test", test)):
            summary = None if collected is None else collected.returns_stat
            if summary is not None:
                parts.append(f"{name} return {summary.mean:.2f} ± {summary.std:.2f}")
        if test is not None and test.success_rate is not None:
            parts.append(f"success {test.success_rate:.2f}")
        if test is not None:
            parts.append(f"best {info.best_reward:.2f}")
        return ", ".join(parts)
