"""The loop that all trainers share: collect or sample, update, test, stop, epoch by epoch."""

from __future__ import annotations

import dataclasses
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic

import numpy as np

from argosy.algorithm import Algorithm
from argosy.collect import Collector
from argosy.config import check_limits, limited
from argosy.data.stats import (
    CollectStats,
    EpochStats,
    InfoStats,
    TimingStats,
    TrainingStats,
    TrainingStatsMean,
    TrainingStatsT,
)
from argosy.errors import ConfigError
from argosy.logger import Logger, ProgressBar
from argosy.policy import Policy
from argosy.trainer.callbacks import listeners
from argosy.trainer.checks import check_kind, check_test_collector

RECENT_EPISODES = 20


@dataclass
class TrainerState:
    """All that a trainer itself remembers; plain numbers, so that a checkpoint can hold it."""

    epoch: int = 0
    """Epochs completed."""
    env_step: int = 0
    """Training transitions collected, warm-up included."""
    update_step: int = 0
    """Calls of `Algorithm.update`."""
    gradient_step: int = 0
    """Optimiser steps made in them."""
    train_episode: int = 0
    test_step: int = 0
    test_episode: int = 0
    best_reward: float = float("-inf")
    best_reward_std: float = 0.0
    stopped: bool = False
    """`stop_fn` ended the run."""
    updates_owed: float = 0.0
    """Fraction of an update that the steps so far have earned (`update_per_step`)."""
    recent_returns: list[float] = field(default_factory=list)
    """Of the last training episodes, for the progress bar and `test_in_train`."""
    logged_step: int = 0
    logged_time: float = 0.0
    """Seconds of training, without tests, at the last record."""
    since_log: dict[str, list[float]] = field(default_factory=dict)
    """Sums and counts of the updates' numbers since then."""
    collect_time: float = 0.0
    update_time: float = 0.0
    test_time: float = 0.0
    total_time: float = 0.0

    def count_update(self, stats: TrainingStats) -> None:
        """Count one update."""
        self.update_step += 1
        self.gradient_step += stats.gradient_steps

    def count_test(self, stats: CollectStats) -> bool:
        """Count a test; returns whether its mean return beats all before."""
        self.test_step += stats.n_collected_steps
        self.test_episode += stats.n_collected_episodes
        self.test_time += stats.collect_time
        summary = stats.returns_stat
        if summary is None or not summary.mean > self.best_reward:  # NaN is not
            return False
        self.best_reward, self.best_reward_std = summary.mean, summary.std
        return True

    def info(self) -> InfoStats:
        """Return the state and best result so far."""
        train_time = self.collect_time + self.update_time
        return InfoStats(
            gradient_step=self.gradient_step,
            best_reward=self.best_reward,
            best_reward_std=self.best_reward_std,
            train_step=self.env_step,
            train_episode=self.train_episode,
            test_step=self.test_step,
            test_episode=self.test_episode,
            timing=TimingStats(
                total_time=self.total_time,
                train_time=train_time,
                train_time_collect=self.collect_time,
                train_time_update=self.update_time,
                test_time=self.test_time,
                update_speed=self.env_step / train_time if train_time > 0 else 0.0,
            ),
            stopped=self.stopped,
        )


@dataclass(kw_only=True, eq=False, repr=False)
class BaseTrainer(ABC, Generic[TrainingStatsT]):
    """An iterator over epochs; see its three subclasses.

    `for epoch_stat in trainer` runs one epoch per turn; `break` stops and iterating again goes on. `run()` goes through
    to the end. Several trainers can be zipped. Construction alone starts anew.

    Raises:
        ConfigError: settings are out of range, contradict each other, or do not fit the algorithm.
    """

    algorithm: Algorithm[Any, TrainingStatsT]
    """What learns."""
    test_collector: Collector | None = None
    """Plays the test episodes; None: no tests (and no `stop_fn`, no best policy)."""
    max_epoch: int = limited(10, ge=1)
    """Epochs at most."""
    total_steps: int | None = limited(None, ge=1)
    """Length of the run in steps (offline: updates) instead of epochs; the last epoch is as long as is left."""
    episode_per_test: int = limited(10, ge=1)
    """Episodes of each test."""
    train_fn: Callable[[int, int], None] | None = None
    """Called as f(epoch, env_step) before each training step."""
    test_fn: Callable[[int, int], None] | None = None
    """Called as f(epoch, env_step) before each test."""
    stop_fn: Callable[[float], bool] | None = None
    """Says whether the mean return of the current test is good enough to end the run."""
    save_best_fn: Callable[[Policy], None] | None = None
    """Called with the policy after each test that beats all before."""
    save_checkpoint_fn: Callable[[int, int, int], object] | None = None
    """Called as f(epoch, env_step, gradient_step) after each epoch; `save_checkpoint` may be called in it."""
    reward_metric: Callable[[np.ndarray], np.ndarray] | None = None
    """Turns returns [E, N] of N agents into [E], what tests, `stop_fn` and statistics go by."""
    test_in_train: bool = True
    """Test at once, and maybe stop, when `stop_fn` likes the mean of the last 20 training returns."""
    callbacks: Sequence[object] = ()
    """Objects that are told what happens, see `argosy.trainer.callbacks`."""
    logger: Logger | None = None
    """Takes the metrics."""
    log_interval_steps: int = limited(1000, ge=1)
    """Env steps (offline: updates) between two records of training metrics."""
    verbose: bool = True
    """Write a line per epoch to stderr."""
    show_progress: bool = True
    """Show a progress bar (on a terminal only)."""

    kinds: ClassVar[tuple[str, ...]] = ()
    """Kinds of algorithms that this trainer can train."""

    def __post_init__(self) -> None:
        check_limits(self)
        check_kind(self, self.algorithm, self.kinds)
        if self.test_collector is not None:
            check_test_collector(self.algorithm, self.test_collector)
        elif self.stop_fn is not None:
            raise ConfigError("stop_fn judges test results, but there is no test_collector; give one")
        self.state = TrainerState()
        self._since_log = TrainingStatsMean[TrainingStatsT](self.state.since_log)
        self._tell = listeners(self.callbacks)
        self._interrupted = False
        self._bar = ProgressBar(self.show_progress)

    # what a user calls

    def __iter__(self) -> Iterator[EpochStats[TrainingStatsT]]:
        return self

    def __next__(self) -> EpochStats[TrainingStatsT]:
        """Run one epoch, or what is left of it after an interruption."""
        if self.is_over:
            self._bar.close()
            raise StopIteration
        self._since_log = TrainingStatsMean[TrainingStatsT](self.state.since_log)
        start = time.perf_counter()
        try:
            self._bar.open(self.length, self.position)
            return self._epoch(start)
        except BaseException as error:
            self._bar.close()
            interrupted, self._interrupted = self._interrupted, False
            if isinstance(error, StopIteration) and not interrupted:  # it would end the run as if it were over
                raise RuntimeError(f"StopIteration was raised within a training step: {error}") from error
            raise

    def run(self) -> InfoStats:
        """Run all epochs that are left."""
        for _ in self:
            pass
        return self.info()

    def interrupt(self) -> None:
        """End the iteration after the training step that is under way; callable from a signal handler.

        Iterating again, here or after a checkpoint and in another process, goes on with the same epoch.
        """
        self._interrupted = True

    def info(self) -> InfoStats:
        """Return the state and best result so far."""
        return self.state.info()

    @property
    def position(self) -> int:
        """Steps of the env so far, or updates (offline): what metrics and the progress bar go by."""
        return self.state.env_step

    @property
    def length(self) -> int:
        """Steps of the whole run (offline: updates)."""
        return self.total_steps or self.max_epoch * self._epoch_length

    @property
    def is_over(self) -> bool:
        """Whether no epoch is left."""
        return self.state.stopped or self.state.epoch * self._epoch_length >= self.length

    # what the subclasses say

    @property
    @abstractmethod
    def _epoch_length(self) -> int:
        """Steps of an epoch: of the env, or updates (offline)."""

    @abstractmethod
    def _training_step(self, epoch: EpochRecord[TrainingStatsT]) -> None:
        """Collect (where there is an env) and update; leaves the results in `epoch`."""

    # the loop

    def _epoch(self, start: float) -> EpochStats[TrainingStatsT]:
        state = self.state
        epoch = EpochRecord[TrainingStatsT](state.epoch + 1)
        spent = state.total_time
        while self.position < min(epoch.number * self._epoch_length, self.length) and not state.stopped:
            if self._interrupted:
                raise StopIteration
            if self.train_fn is not None:
                self.train_fn(epoch.number, state.env_step)
            self._training_step(epoch)
            state.total_time = spent + time.perf_counter() - start
            self._report()
            for call in self._tell["on_step"]:
                call(self)
        if self.test_collector is not None and not state.stopped:
            self._test(epoch)
        state.epoch = epoch.number
        state.total_time = spent + time.perf_counter() - start
        if self.save_checkpoint_fn is not None:
            self.save_checkpoint_fn(state.epoch, state.env_step, state.gradient_step)
        stats = EpochStats(
            epoch=epoch.number,
            train_collect_stat=CollectStats.merged(epoch.collected),
            test_collect_stat=epoch.tested,
            training_stat=epoch.updates.mean(),
            info_stat=self.info(),
        )
        if self.verbose:
            self._bar.write(stats.line())
        for call in self._tell["on_epoch"]:
            call(self, stats)
        return stats

    def _collect(self, collector: Collector, epoch: EpochRecord[TrainingStatsT], **how: Any) -> CollectStats:
        """Collect training data and count it."""
        state = self.state
        self.algorithm.schedule(self.position, self.length)
        stats = self._with_metric(collector.collect(**how))
        epoch.collected.append(stats)
        state.env_step += stats.n_collected_steps
        state.train_episode += stats.n_collected_episodes
        state.collect_time += stats.collect_time
        if stats.n_collected_episodes:
            means = stats.returns.reshape(len(stats.returns), -1).mean(axis=1)
            state.recent_returns = [*state.recent_returns, *means.tolist()][-RECENT_EPISODES:]
            mean = float(np.mean(state.recent_returns))
            if self.test_in_train and self.stop_fn is not None and self.stop_fn(mean):
                self._test(epoch)
                state.recent_returns = []  # so that the next test waits for new episodes
        return stats

    def _update(self, batch: Any, epoch: EpochRecord[TrainingStatsT]) -> TrainingStatsT:
        """Let the algorithm learn from one batch and count it."""
        stats = self.algorithm.update(batch)
        epoch.updates.add(stats)
        self._since_log.add(stats)
        self.state.count_update(stats)
        for call in self._tell["on_update"]:
            call(self, stats)
        return stats

    def _test(self, epoch: EpochRecord[TrainingStatsT]) -> None:
        """Play the test episodes; keep the best; ask `stop_fn`."""
        assert self.test_collector is not None
        state = self.state
        if self.test_fn is not None:
            self.test_fn(epoch.number, state.env_step)
        self.test_collector.reset_env()
        stats = self._with_metric(self.test_collector.collect(n_episode=self.episode_per_test))
        epoch.tested = stats
        summary = stats.returns_stat
        assert summary is not None
        if state.count_test(stats) and self.save_best_fn is not None:
            self.save_best_fn(self.algorithm.policy)
        self._log(stats.metrics("test"))
        self._bar.show(test=summary.mean)
        state.stopped = self.stop_fn is not None and self.stop_fn(summary.mean)
        for call in self._tell["on_eval"]:
            call(self, stats)

    def _with_metric(self, stats: CollectStats) -> CollectStats:
        """Put what `reward_metric` makes of the returns in their place."""
        if self.reward_metric is None or not stats.n_collected_episodes:
            return stats
        return dataclasses.replace(stats, returns=np.asarray(self.reward_metric(stats.returns)))

    def _report(self) -> None:
        """Move the progress bar; log where enough has happened since the last record."""
        state, position = self.state, self.position
        self._bar.move(position)
        if position < min(state.logged_step + self.log_interval_steps, self.length):
            return
        seconds = state.total_time - state.test_time
        metrics = {"time/steps_per_s": (position - state.logged_step) / max(seconds - state.logged_time, 1e-9)}
        if state.recent_returns:
            metrics["episode/return_mean"] = float(np.mean(state.recent_returns))
            self._bar.show(**{"return": metrics["episode/return_mean"]})
        updates = self._since_log.mean()
        if updates is not None:
            state.since_log.clear()
            metrics |= updates.metrics()
            if "loss/total" in metrics:
                self._bar.show(loss=metrics["loss/total"])
        self._log(metrics)
        state.logged_step, state.logged_time = position, seconds

    def _log(self, metrics: dict[str, float]) -> None:
        if self.logger is not None:
            # Offline there are no env steps: updates take their place on the time axis
            self.logger.log(metrics, env_step=self.position, gradient_step=self.state.gradient_step)


@dataclass(eq=False, repr=False)
class EpochRecord(Generic[TrainingStatsT]):
    """What has happened in the epoch under way."""

    number: int
    collected: list[CollectStats] = field(default_factory=list)
    updates: TrainingStatsMean[TrainingStatsT] = field(default_factory=TrainingStatsMean)
    tested: CollectStats | None = None
