from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scripted import ScriptedAsyncEnv, ScriptedEnv, ScriptedPolicy, make_env

from argosy.collect import AsyncCollector, Collector, MonteCarloReturns
from argosy.data import VectorReplayBuffer
from argosy.env import DummyVectorEnv
from argosy.errors import ConfigError, EnvError


def make(*lengths: list[int], recurrent: bool = False, **kwargs: Any) -> AsyncCollector:
    env = ScriptedAsyncEnv(*lengths, **kwargs)
    buffer = VectorReplayBuffer(100 * len(lengths), len(lengths), info_keys=("speed",))
    return AsyncCollector(ScriptedPolicy(env, recurrent), env, buffer, exploration_noise=True)


@pytest.mark.parametrize("wait_num", [1, 2, 3])
def test_every_env_keeps_its_own_order_whatever_comes_first(wait_num: int) -> None:
    collector = make([3, 2], [4], [1], wait_num=wait_num)
    for _ in range(10):
        collector.collect(n_step=7)
    for ring in range(3):
        slots = np.arange(ring * 100, ring * 100 + 100)
        stored = collector.buffer[slots[: int((collector.buffer[slots].rew > 0).sum())]]
        env, episode, step = stored.obs.T
        assert (env == ring).all()
        assert stored.obs_next[:, 2].tolist() == (step + 1).tolist()
        assert (stored.obs_next[:, 1] == episode).all()
        assert stored.rew.tolist() == (step + 1).tolist()
        assert stored.act.tolist() == (step % 4).tolist()
        assert stored.policy.value.tolist() == (step / 2).tolist()
        assert stored.info.speed.tolist() == (10 * (step + 1)).tolist()
        # step after step; after a done one the next episode
        follows = np.where(stored.done[:-1], 0, step[:-1] + 1)
        assert step[1:].tolist() == follows.tolist()
        assert episode[1:].tolist() == (episode[:-1] + stored.done[:-1]).tolist()


def test_steps_are_counted_and_may_be_exceeded_by_one_hand_out_only() -> None:
    collector = make([3], [5], [4], [2], wait_num=3)
    total = 0
    for _ in range(20):
        stats = collector.collect(n_step=10)
        assert 10 <= stats.n_collected_steps <= 12
        total += stats.n_collected_steps
    assert collector.collect_step == total == len(collector.buffer)


def test_episodes_by_quota() -> None:
    collector = make([2], [30], wait_num=1)
    collector.collect(n_step=5)
    collector.reset_env()
    stats = collector.collect(n_episode=4)
    assert sorted(stats.lens.tolist()) == [2, 2, 30, 30]
    assert sorted(stats.returns.tolist()) == [3, 3, 465, 465]
    assert not collector.env.work


def test_envs_without_a_quota_rest() -> None:
    collector = make([2], [3], [4], wait_num=2)
    assert collector.collect(n_episode=1).lens.tolist() == [2]
    assert [len(acts) for acts in collector.env.get_env_attr("actions")] == [2, 0, 0]
    assert sorted(collector.collect(n_episode=3).lens.tolist()) == [2, 3, 4]


def test_recurrent_state_stays_with_its_env() -> None:
    collector = make([3], [5], [2], recurrent=True, wait_num=1)
    for _ in range(5):
        collector.collect(n_step=11)
    for request in collector.policy.requests:
        steps = request.obs[:, 2]
        assert (request.on_reset == (steps == 0)).all()
        later = steps > 0
        assert request.policy_state[later, 0].tolist() == steps[later].tolist()


def test_usable_for_tests_and_with_hooks() -> None:
    env = ScriptedAsyncEnv([3], [2], wait_num=1)
    hook = MonteCarloReturns(gamma=1.0)
    buffer = VectorReplayBuffer(20, 2)
    AsyncCollector(ScriptedPolicy(env), env, buffer, hooks=[hook]).collect(n_episode=2)
    assert hook.returns[[0, 1, 2, 10, 11]].tolist() == [6, 5, 3, 3, 2]
    assert AsyncCollector(ScriptedPolicy(env), ScriptedAsyncEnv([3], [2])).collect(n_episode=4).n_collected_steps == 10


def test_after_an_error_all_start_anew() -> None:
    env = ScriptedAsyncEnv([9], [9], [9], wait_num=2, bad={(0, 4): "rew"})
    buffer = VectorReplayBuffer(300, 3)
    collector = AsyncCollector(ScriptedPolicy(env), env, buffer, exploration_noise=True)
    with pytest.raises(EnvError, match=r"rew = nan in step 4"):
        collector.collect(n_step=100)
    stats = collector.collect(n_episode=3)
    assert stats.lens.tolist() == [9, 9, 9]


def test_after_errors_of_several_at_once_all_start_anew() -> None:
    class Failing(ScriptedEnv):
        def reset(self, **kwargs: Any) -> tuple[np.ndarray, dict[str, Any]]:
            if (self.index, self.resets) == (1, 1):
                self.resets += 1
                raise RuntimeError("the simulator lags")
            return super().reset(**kwargs)

    makers = [lambda i=i: Failing(i, [9], bad={(0, 4): "raise"}) for i in range(4)]
    env = DummyVectorEnv(makers, wait_num=1)
    collector = AsyncCollector(ScriptedPolicy(env), env)
    for error in ("broke", "lags"):
        with pytest.raises(EnvError, match=f"the simulator {error}"):
            collector.collect(n_step=100)
    assert collector.collect(n_episode=4).lens.tolist() == [9, 9, 9, 9]


def test_seeds_are_given_when_all_are_at_rest() -> None:
    collector = make([4], [4], wait_num=1)
    collector.collect(n_step=5)
    collector.restart_envs()
    collector.collect(n_step=5)
    assert [[s for s in seeds if s is not None] != [] for seeds in collector.env.get_env_attr("seeds")] == [True, True]


def test_each_collector_asks_for_its_kind_of_env() -> None:
    env = ScriptedAsyncEnv([2], [2])
    with pytest.raises(ConfigError, match="use AsyncCollector"):
        Collector(ScriptedPolicy(env), env)

    class NoSend:
        """A vector env that only steps."""

        def __init__(self) -> None:
            self.inner = make_env([2])

        def __getattr__(self, name: str) -> Any:
            if name in ("send", "send_reset", "recv"):
                raise AttributeError(name)
            return getattr(self.inner, name)

        def __len__(self) -> int:
            return 1

    with pytest.raises(ConfigError, match="no send and recv"):
        AsyncCollector(ScriptedPolicy(env), NoSend())
