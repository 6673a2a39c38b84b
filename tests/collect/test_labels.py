"""What lies in the buffer is what the expert would have done; what the env saw is what the policy did."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from argosy.collect.labels import LabellingCollector
from argosy.data import Batch, VectorReplayBuffer
from argosy.env import DummyVectorEnv
from argosy.policy import Policy, QPolicy, RandomPolicy, RolloutResult
from argosy.policy.explore import EpsilonConfig


class Told(gym.Env):
    """Episodes of 3 steps; the observation is the step and the last action, in the env's scale."""

    observation_space = spaces.Box(-10, 10, (2,), np.float32)

    def __init__(self, action_space):
        self.action_space = action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.last = 0, 0.0
        return self.obs(), {}

    def step(self, action):
        self.t, self.last = self.t + 1, float(np.asarray(action).reshape(()))
        return self.obs(), 0.0, False, self.t == 3, {}

    def obs(self):
        return np.array([self.t, self.last], np.float32)


class Says(Policy):
    """Does what a function of the observations [B, 2] says; the actions are in its own scale."""

    action_spaces = (spaces.Box, spaces.Discrete)

    def __init__(self, action_space, function, **scale):
        super().__init__(Told.observation_space, action_space, **scale)
        self.function = function

    def forward(self, batch, state=None):
        raise NotImplementedError

    def analyze(self, sample):
        raise NotImplementedError

    def rollout(self, requests):
        assert requests.is_evaluation is None or requests.is_evaluation.all()
        return RolloutResult(action=self.function(requests.obs))


class Counts(Says):
    """Its action is how many observations of the episode it has seen, which it remembers."""

    default_policy_state = np.zeros(1, np.float32)

    def rollout(self, requests):
        seen = requests.policy_state + 1
        return RolloutResult(action=seen[:, 0].astype(np.int64), policy_state=seen)


def collected(policy, expert, action_space, n_step=14):
    env = DummyVectorEnv([lambda: Told(action_space)] * 2)
    buffer = VectorReplayBuffer(20, 2)
    collector = LabellingCollector(policy, env, buffer, expert=expert, exploration_noise=True, seed=0)
    collector.collect(n_step=n_step - 4)
    collector.collect(n_step=4)
    return buffer.rollout()


def test_of_choices():
    space = spaces.Discrete(4, start=3)
    expert = Says(space, lambda obs: obs[:, 0].astype(np.int64))
    data = collected(Says(space, lambda obs: np.full(len(obs), 3)), expert, space)
    assert (data.obs_next[..., 1] == 6.0).all()  # the policy's 3, counted from the space's start
    assert data.act.tolist() == data.obs[..., 0].astype(int).tolist()


def test_of_numbers_in_the_policy_s_own_scale():
    space = spaces.Box(-2.0, 2.0, (1,), np.float32)
    policy = Says(space, lambda obs: np.full((len(obs), 1), 0.25, np.float32), action_bound_method="tanh")
    expert = Says(space, lambda obs: np.full((len(obs), 1), 1.5, np.float32), action_scaling=False)
    data = collected(policy, expert, space)
    np.testing.assert_allclose(data.obs_next[..., 1], 2.0 * np.tanh(0.25), rtol=1e-6)
    np.testing.assert_allclose(data.act, np.arctanh(1.5 / 2.0), rtol=1e-6)
    assert data.act.dtype == np.float32


@pytest.mark.parametrize("n_step", [14, 20])
def test_an_expert_with_memory_remembers_the_episode(n_step):
    space = spaces.Discrete(5)
    data = collected(RandomPolicy(Told.observation_space, space), Counts(space, None), space, n_step)
    assert data.act.tolist() == (data.obs[..., 0].astype(int) + 1).tolist()


def test_an_expert_that_explores_in_tests_does_not_where_it_labels():
    space = spaces.Discrete(2)
    expert = QPolicy(Told.observation_space, space)
    expert.exploration = EpsilonConfig(eps_test=0.9).build(2)
    data = collected(Says(space, lambda obs: np.zeros(len(obs), np.int64)), expert, space, n_step=20)
    best = expert(Batch(obs=data.obs.reshape(-1, 2))).act
    assert data.act.ravel().tolist() == best.tolist()
    assert expert.exploration.eps_test == 0.9  # its owner's stays as it was
