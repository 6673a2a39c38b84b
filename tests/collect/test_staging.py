from __future__ import annotations

from collections.abc import Callable

import gymnasium as gym
import pytest

from argosy.collect import Collector
from argosy.collect.rows import Staging
from argosy.data import CachedReplayBuffer, ReplayBuffer, VectorReplayBuffer
from argosy.env import DummyVectorEnv
from argosy.policy import ActorCriticPolicy, RandomPolicy


class Counting(VectorReplayBuffer):
    def add(self, batch, buffer_ids=None):
        return super().add(batch, buffer_ids)


@pytest.mark.parametrize(
    ("make", "usable"),
    [
        (lambda: VectorReplayBuffer(8, 2), True),
        (lambda: VectorReplayBuffer(9, 3), False),
        (lambda: VectorReplayBuffer(8, 2, info_keys=("lives",)), False),
        (lambda: CachedReplayBuffer(ReplayBuffer(8), 1, 4), False),  # two rings for one env
        (lambda: Counting(8, 2), False),
    ],
)
def test_only_buffers_that_store_rows_as_they_come_are_staged(make: Callable[[], ReplayBuffer], usable: bool) -> None:
    assert Staging(make(), 2).usable == usable


def test_what_the_policy_stores_is_kept_also_after_random_actions() -> None:
    buffer = VectorReplayBuffer(40, 2)
    env = DummyVectorEnv([lambda: gym.make("CartPole-v1")] * 2)
    policy = ActorCriticPolicy(env.single_observation_space, env.single_action_space)
    collector = Collector(policy, env, buffer, exploration_noise=True, seed=0)
    collector.collect(n_step=8, random=True)
    collector.collect(n_step=12)
    logp = buffer[:].policy.logp.reshape(2, 10)
    assert (logp[:, :4] == 0.0).all()
    assert (logp[:, 4:] < 0.0).all()
    collector.collect(n_step=8, random=True)
    assert (buffer[:].policy.logp.reshape(2, 14)[:, 10:] == 0.0).all()


def test_sub_buffers_of_different_sizes_are_staged_by_the_smallest() -> None:
    env = DummyVectorEnv([lambda: gym.make("CartPole-v1")] * 2)
    buffer = ReplayBuffer([10, 100])
    Collector(RandomPolicy(env.single_observation_space, env.single_action_space), env, buffer).collect(n_step=200)
    assert len(buffer) == 110
