from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
import pytest

from argosy.data.stats import (
    CollectStats,
    EpochStats,
    InfoStats,
    SequenceSummaryStats,
    TrainingStats,
    TrainingStatsMean,
)


@dataclass(frozen=True, kw_only=True, eq=False)
class ActorCriticStats(TrainingStats):
    loss: float
    loss_actor: float | None = None
    approx_kl: float = 0.0


def test_summary_of_a_sequence() -> None:
    stats = SequenceSummaryStats.from_sequence([1, 2, 3, 6])
    assert (stats.mean, stats.min, stats.max) == (3.0, 1.0, 6.0)
    assert stats.std == pytest.approx(3.5**0.5)


def test_summary_of_nothing_is_zero() -> None:
    assert SequenceSummaryStats.from_sequence([]) == SequenceSummaryStats(mean=0.0, std=0.0, max=0.0, min=0.0)


def test_collect_stats_without_episodes_have_no_summary() -> None:
    stats = CollectStats(n_collected_steps=80, collect_time=0.5)
    assert stats.returns_stat is None
    assert stats.lens_stat is None
    assert stats.metrics() == {"time/steps_per_s": 160.0}


def test_collect_stats_metrics_carry_their_prefix() -> None:
    stats = CollectStats(
        n_collected_episodes=2,
        n_collected_steps=5,
        collect_time=1.0,
        returns=np.array([1.0, 4.0]),
        lens=np.array([2, 3]),
    )
    metrics = stats.metrics("test")
    assert metrics["test/return_mean"] == 2.5
    assert metrics["test/length_mean"] == 2.5
    assert metrics["test/count"] == 2.0
    assert all(key.startswith("test/") for key in metrics)


def test_what_several_calls_brought_is_one() -> None:
    first = CollectStats(n_collected_episodes=1, n_collected_steps=3, collect_time=1.0, returns=np.array([2.0]))
    first = dataclasses.replace(first, lens=np.array([3]))
    without_an_end = CollectStats(n_collected_steps=4, collect_time=0.5)
    merged = CollectStats.merged([first, without_an_end, first])
    assert merged is not None
    assert (merged.n_collected_episodes, merged.n_collected_steps, merged.collect_time) == (2, 10, 2.5)
    assert (merged.returns.tolist(), merged.lens.tolist()) == ([2.0, 2.0], [3, 3])
    assert CollectStats.merged([]) is None


def test_an_epoch_in_one_line_counts_steps_or_without_an_env_updates() -> None:
    info = InfoStats(
        gradient_step=7,
        best_reward=3.0,
        best_reward_std=0.0,
        train_step=40,
        train_episode=8,
        test_step=0,
        test_episode=0,
    )
    tested = CollectStats(n_collected_episodes=2, returns=np.array([1.0, 2.0]), lens=np.array([1, 2]))
    epoch = EpochStats(
        epoch=2, train_collect_stat=CollectStats(), test_collect_stat=tested, training_stat=None, info_stat=info
    )
    assert epoch.line() == "epoch 2, 40 steps, test return 1.50 ± 0.50, best 3.00"
    offline = dataclasses.replace(epoch, train_collect_stat=None, test_collect_stat=None)
    assert offline.line() == "epoch 2, 7 updates"


def test_training_metrics_are_named_by_kind_and_leave_out_arrays() -> None:
    stats = ActorCriticStats(loss=1.5, loss_actor=-0.5, approx_kl=0.01, priorities=np.ones(3))
    assert stats.metrics() == {"loss/total": 1.5, "loss/actor": -0.5, "stat/approx_kl": 0.01}


def test_mean_counts_only_updates_that_computed_the_number() -> None:
    mean = TrainingStatsMean[ActorCriticStats]()
    assert mean.mean() is None
    mean.add(ActorCriticStats(loss=1.0, loss_actor=4.0, priorities=np.ones(2)))
    mean.add(ActorCriticStats(loss=3.0))
    result = mean.mean()
    assert result is not None
    assert (result.loss, result.loss_actor, result.priorities) == (2.0, 4.0, None)


def test_collect_stats_print_returns() -> None:
    stats = CollectStats(
        n_collected_episodes=3,
        n_collected_steps=30,
        collect_time=0.5,
        returns=np.array([1.0, 2.0, 6.0]),
        lens=np.array([10, 10, 10]),
    )
    assert repr(stats) == (
        "CollectStats(n_collected_episodes=3, n_collected_steps=30, collect_time=0.5, "
        "returns=3 ± 2.16 (1 to 6), lens=10 ± 0 (10 to 10))"
    )
    assert str(stats) == repr(stats)
    assert str(CollectStats(n_collected_steps=4, collect_time=0.5)) == (
        "CollectStats(n_collected_episodes=0, n_collected_steps=4, collect_time=0.5)"
    )
