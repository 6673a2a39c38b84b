from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from parts import Corridor, Counting, CountingConfig, MemoryLogger, counting, envs, parts

from argosy.algorithm import BC, BCConfig, Task
from argosy.collect import Collector
from argosy.data import VectorReplayBuffer
from argosy.errors import ConfigError, EnvError
from argosy.trainer import OfflineTrainer, OffpolicyTrainer, OnpolicyTrainer


def offpolicy(**changes: Any) -> OffpolicyTrainer:
    settings = {"max_epoch": 2, "step_per_epoch": 20, "step_per_collect": 4, "batch_size": 4, **parts()}
    return OffpolicyTrainer(**{**settings, **changes})


def onpolicy(**changes: Any) -> OnpolicyTrainer:
    settings = {"max_epoch": 2, "step_per_epoch": 20, "step_per_collect": 10, **parts("onpolicy")}
    return OnpolicyTrainer(**{**settings, **changes})


def filled_buffer(algorithm: Any) -> VectorReplayBuffer:
    buffer = VectorReplayBuffer(100, 2, seed=0)
    Collector(algorithm.policy, envs(2), buffer, exploration_noise=True, seed=0).collect(n_step=50)
    return buffer


# one epoch after the other


def test_epochs_are_counted_and_typed() -> None:
    trainer = offpolicy()
    first, second = list(trainer)
    assert (first.epoch, second.epoch) == (1, 2)
    assert first.train_collect_stat.n_collected_steps == 20
    assert first.train_collect_stat.returns.tolist() == [5.0] * 4
    assert first.test_collect_stat.returns.tolist() == [5.0, 5.0]
    assert first.training_stat.loss == np.mean(range(1, 21))
    info = second.info_stat
    assert (info.train_step, info.gradient_step, info.train_episode) == (40, 40, 8)
    assert (info.test_step, info.test_episode, info.best_reward) == (20, 4, 5.0)
    assert list(trainer) == []


def test_break_and_iterating_again_goes_on() -> None:
    trainer = offpolicy(max_epoch=4)
    for stats in trainer:
        if stats.epoch == 2:
            break
    assert [stats.epoch for stats in trainer] == [3, 4]
    assert trainer.state.env_step == 80


def test_run_goes_on_from_where_iteration_stopped() -> None:
    trainer = offpolicy(max_epoch=3)
    next(trainer)
    info = trainer.run()
    assert (info.train_step, trainer.state.epoch) == (60, 3)


def test_several_trainers_can_be_zipped() -> None:
    pairs = [(a.epoch, b.epoch) for a, b in zip(offpolicy(), onpolicy(), strict=True)]
    assert pairs == [(1, 1), (2, 2)]


def test_interrupt_ends_after_the_step_under_way_and_the_epoch_goes_on_later() -> None:
    trainer = offpolicy(train_fn=lambda epoch, step: trainer.interrupt() if step == 8 else None)
    assert list(trainer) == []
    assert (trainer.state.env_step, trainer.state.epoch) == (12, 0)
    trainer.train_fn = None
    assert [stats.epoch for stats in trainer] == [1, 2]
    assert trainer.state.env_step == 40


def test_an_interrupt_between_two_epochs_counts() -> None:
    trainer, epochs = offpolicy(), []
    for stats in trainer:
        epochs.append(stats.epoch)
        trainer.interrupt()
    assert epochs == [1]
    assert trainer.state.env_step == 20
    assert [stats.epoch for stats in trainer] == [2]


def test_an_error_in_collecting_leaves_a_trainer_that_can_go_on() -> None:
    trainer = offpolicy()
    env = trainer.train_collector.env
    step, calls = env.step, []

    def breaks_once(*args: Any) -> Any:
        calls.append(args)
        if len(calls) == 7:
            raise EnvError("env 1 died")
        return step(*args)

    env.step = breaks_once
    with pytest.raises(EnvError, match="env 1 died"):
        trainer.run()
    assert trainer.state.env_step == 12
    assert trainer.run().train_step == 40


def test_an_update_that_returns_nothing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counting, "update", lambda self, batch: None)
    with pytest.raises(ConfigError, match="the algorithm's update returned None; let it return its TrainingStats"):
        offpolicy().run()


# off-policy


def test_samples_are_made_as_the_algorithm_asks() -> None:
    trainer = offpolicy(max_epoch=1)
    trainer.run()
    batch = trainer.algorithm.batches[-1]
    assert batch.obs.shape == (4, 2)
    # n_step 2, gamma 0.9: 1 + 0.9, or 1 at the last step of an episode
    assert set(np.round(batch.rew.tolist(), 4)) <= {1.9, 1.0}


@pytest.mark.parametrize(("rate", "updates"), [(0.1, 4), (0.25, 10), (1.0, 40), (2.5, 100)])
def test_fractions_of_updates_add_up(rate: float, updates: int) -> None:
    trainer = offpolicy(update_per_step=rate)
    assert trainer.run().gradient_step == updates


def test_warm_up_steps_are_random_count_and_earn_no_updates() -> None:
    trainer = offpolicy(start_steps=16)
    asked: list[bool] = []
    collect = trainer.train_collector.collect
    trainer.train_collector.collect = lambda **how: asked.append(how["random"]) or collect(**how)
    trainer.run()
    assert asked == [True] * 4 + [False] * 6
    assert trainer.state.gradient_step == 24


def test_warm_up_by_the_policy() -> None:
    trainer = offpolicy(start_steps=16, start_actions="policy")
    asked: list[bool] = []
    collect = trainer.train_collector.collect
    trainer.train_collector.collect = lambda **how: asked.append(how["random"]) or collect(**how)
    assert trainer.run().gradient_step == 24
    assert asked == [False] * 10


def test_no_update_before_the_buffer_holds_a_batch() -> None:
    trainer = offpolicy(batch_size=16, max_epoch=1)
    trainer.run()
    assert trainer.state.gradient_step == 20 - 12


def test_episodes_instead_of_steps() -> None:
    trainer = offpolicy(step_per_collect=None, episode_per_collect=2, max_epoch=1)
    stats = next(trainer)
    assert stats.train_collect_stat.n_collected_episodes == 4
    assert trainer.state.gradient_step == 20


# on-policy


def test_each_rollout_is_learned_from_once_and_forgotten() -> None:
    trainer = onpolicy()
    info = trainer.run()
    assert [batch.obs.shape for batch in trainer.algorithm.batches] == [(5, 2, 2)] * 4
    assert len(trainer.train_collector.buffer) == 0
    assert info.gradient_step == 12  # as the algorithm reports: 3 a time


def test_rows_from_before_are_not_learned_from() -> None:
    trainer = onpolicy(max_epoch=1)
    trainer.train_collector.collect(n_step=4)
    trainer.run()
    assert trainer.algorithm.batches[0].obs.shape == (5, 2, 2)


def test_episodes_as_rollout() -> None:
    trainer = onpolicy(step_per_collect=None, episode_per_collect=3, max_epoch=1)
    trainer.run()
    assert trainer.algorithm.batches[0].obs.shape == (15, 1, 2)


def test_repeat_and_batch_size_are_handed_to_the_algorithm() -> None:
    trainer = onpolicy(repeat_per_collect=7, batch_size=32)
    assert trainer.algorithm.config == CountingConfig(repeat_per_collect=7, batch_size=32)


# offline


def test_offline_training_leaves_the_data_alone() -> None:
    algorithm = counting()
    buffer = filled_buffer(algorithm)
    common = parts()
    logger = MemoryLogger()
    trainer = OfflineTrainer(
        algorithm=algorithm,
        buffer=buffer,
        test_collector=Collector(algorithm.policy, envs(2), seed=0),
        max_epoch=3,
        update_per_epoch=10,
        batch_size=16,
        episode_per_test=common["episode_per_test"],
        logger=logger,
        log_interval_steps=5,
        verbose=False,
        show_progress=False,
    )
    epochs = list(trainer)
    assert len(algorithm.batches) == 30
    assert epochs[-1].train_collect_stat is None
    assert (epochs[-1].info_stat.train_step, epochs[-1].info_stat.gradient_step) == (0, 30)
    assert len(buffer) == 50
    assert [record[0] for record in logger.records] == [5, 10, 10, 15, 20, 20, 25, 30, 30]


# tests, stopping, callbacks


def test_stop_fn_judges_the_test_and_ends_the_run() -> None:
    seen: list[float] = []
    trainer = offpolicy(max_epoch=9, stop_fn=lambda mean: seen.append(mean) or len(seen) == 3, test_in_train=False)
    info = trainer.run()
    assert seen == [5.0] * 3
    assert info.stopped
    assert trainer.state.epoch == 3
    assert list(trainer) == []


def test_in_train_a_good_collection_is_tested_at_once() -> None:
    trainer = offpolicy(max_epoch=9, stop_fn=lambda mean: mean >= 5.0)
    stats = next(trainer)
    assert stats.info_stat.stopped
    assert stats.info_stat.train_step == 12  # the first episodes end in the third collection
    assert stats.test_collect_stat.n_collected_episodes == 2


def test_the_best_policy_is_saved_when_a_test_beats_all_before() -> None:
    saved: list[int] = []
    results = iter([3.0, 1.0, 3.0, math.nan, 2.0, 4.0])
    trainer = offpolicy(
        max_epoch=6,
        save_best_fn=lambda policy: saved.append(trainer.state.epoch + 1),
        reward_metric=lambda returns: np.full(len(returns), next(results)) if len(returns) == 2 else returns[:0],
    )
    trainer.train_collector.collect = _never_ending(trainer.train_collector)
    info = trainer.run()
    assert saved == [1, 6]
    assert info.best_reward == 4.0


def _never_ending(collector: Collector) -> Any:
    """Leave the episodes out of the training collections' results."""
    collect = collector.collect
    none = {"n_collected_episodes": 0, "returns": np.zeros(0), "lens": np.zeros(0, np.int64)}
    return lambda **how: dataclasses.replace(collect(**how), **none)


def test_reward_metric_makes_one_number_of_many() -> None:
    trainer = offpolicy(max_epoch=1, reward_metric=lambda returns: returns * 10)
    stats = next(trainer)
    assert stats.test_collect_stat.returns.tolist() == [50.0, 50.0]
    assert stats.train_collect_stat.returns.tolist() == [50.0] * 4
    assert stats.info_stat.best_reward == 50.0


def test_callbacks_are_told_where_the_run_is() -> None:
    calls: list[tuple[Any, ...]] = []
    trainer = offpolicy(
        step_per_collect=10,
        train_fn=lambda *args: calls.append(("train", *args)),
        test_fn=lambda *args: calls.append(("test", *args)),
        save_checkpoint_fn=lambda *args: calls.append(("save", *args)),
    )
    trainer.run()
    assert calls == [
        ("train", 1, 0),
        ("train", 1, 10),
        ("test", 1, 20),
        ("save", 1, 20, 20),
        ("train", 2, 20),
        ("train", 2, 30),
        ("test", 2, 40),
        ("save", 2, 40, 40),
    ]
    assert trainer.algorithm.scheduled == [(0, 40), (10, 40), (20, 40), (30, 40)]


def test_metrics_are_logged_at_intervals_with_means_since_the_last_record() -> None:
    logger = MemoryLogger()
    trainer = offpolicy(max_epoch=1, logger=logger, log_interval_steps=8)
    trainer.run()
    steps = [(env_step, gradient_step, sorted(metrics)) for env_step, gradient_step, metrics in logger.records]
    assert [step[:2] for step in steps] == [(8, 8), (16, 16), (20, 20), (20, 20)]
    assert steps[0][2] == ["loss/total", "time/steps_per_s"]
    assert steps[1][2] == ["episode/return_mean", "loss/total", "time/steps_per_s"]
    assert logger.records[1][2]["loss/total"] == np.mean(range(9, 17))
    assert logger.records[2][2]["loss/total"] == np.mean(range(17, 21))  # the last ones are never left out
    assert logger.records[3][2]["test/return_mean"] == 5.0


def test_a_line_per_epoch_says_how_it_went(capsys: pytest.CaptureFixture[str]) -> None:
    offpolicy(verbose=True, show_progress=True).run()
    lines = capsys.readouterr().err.strip().splitlines()
    assert lines[1] == "epoch 2, 40 steps, train return 5.00 ± 0.00, test return 5.00 ± 0.00, best 5.00"


# what is refused


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_epoch": 0}, r"max_epoch is 0"),
        ({"episode_per_test": 0}, r"episode_per_test is 0"),
        ({"update_per_step": 0}, r"update_per_step is 0"),
        ({"start_steps": -1}, r"start_steps is -1"),
        ({"start_actions": "noise"}, r"start_actions is 'noise'"),
        ({"batch_size": 300}, r"batch_size is 300.*at most 200"),
        ({"episode_per_collect": 3}, r"step_per_collect is 4 and episode_per_collect is 3"),
        ({"step_per_collect": 0}, r"step_per_collect is 0"),
        ({"algorithm": counting("onpolicy")}, r"onpolicy algorithm.*OffpolicyTrainer"),
        ({"test_collector": None, "stop_fn": bool}, r"no test_collector"),
        ({"algorithm": counting()}, r"another policy"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        offpolicy(**changes)


def test_a_training_collector_without_exploration_is_refused() -> None:
    common = parts()
    policy = common["algorithm"].policy
    for collector, message in (
        (Collector(policy, envs(2), VectorReplayBuffer(10, 2)), "exploration_noise=False"),
        (Collector(policy, envs(2), exploration_noise=True), "no buffer"),
    ):
        with pytest.raises(ConfigError, match=message):
            offpolicy(**{**common, "train_collector": collector})


def test_what_learns_from_data_may_be_shown_it_by_another_policy() -> None:
    """Imitation while the expert, who does not explore, goes on playing."""
    env = Corridor()
    pupil = BC.make(BCConfig(), Task(observation_space=env.observation_space, action_space=env.action_space), seed=0)
    expert = Collector(counting().policy, envs(2), VectorReplayBuffer(100, 2))
    trainer = offpolicy(
        algorithm=pupil,
        train_collector=expert,
        test_collector=Collector(pupil.policy, envs(2)),
        step_per_epoch=40,
        batch_size=8,
        max_epoch=1,
    )
    info = trainer.run()
    assert (info.train_step, expert.collect_step) == (40, 40)
    assert pupil.num_updates > 0


def test_a_test_collector_with_exploration_is_refused() -> None:
    common = parts()
    with pytest.raises(ConfigError, match="exploration_noise=True"):
        offpolicy(**{**common, "test_collector": Collector(common["algorithm"].policy, envs(2), None, True)})


def test_a_rollout_that_does_not_fit_the_buffer_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"step_per_collect is 250.*125 steps of each of 2 envs.*holds 100"):
        onpolicy(step_per_collect=250)
    trainer = onpolicy(**parts("onpolicy", size=8), step_per_collect=None, episode_per_collect=2)
    with pytest.raises(ConfigError, match=r"episode_per_collect=2 brought 10 steps.*kept 8"):
        trainer.run()


def test_too_little_offline_data_is_refused() -> None:
    algorithm = counting()
    with pytest.raises(ConfigError, match=r"batch_size is 64.*holds 50"):
        OfflineTrainer(algorithm=algorithm, buffer=filled_buffer(algorithm))
