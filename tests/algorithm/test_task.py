"""Algorithms say by name what they cannot be made of."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from argosy.algorithm import DQN, SAC, DQNConfig, SACConfig, Task
from argosy.data import Batch
from argosy.errors import ConfigError, SpaceError
from argosy.policy import ActorCriticPolicy, RolloutResult, SingleModelPytorchPolicy

OBS = spaces.Box(-1, 1, (3,), np.float32)


class Values(SingleModelPytorchPolicy):
    """Of one's own: nothing but what the guide asks for."""

    def rollout(self, requests):
        return RolloutResult(action=self.net(torch.from_numpy(requests.obs)).argmax(-1).numpy())

    def analyze(self, sample):
        q = self.net(sample.obs)
        return Batch(q_taken=q.gather(-1, sample.act.unsqueeze(-1)).squeeze(-1))

    def analyze_next(self, sample, rows=None):
        q = self.net(sample.obs_next)
        return type("Next", (), {"greedy": q.argmax(-1), "of": lambda self, a: q.gather(-1, a[:, None])[:, 0]})()


def test_a_policy_of_ones_own_need_not_count_its_actions():
    policy = Values(OBS, spaces.Discrete(2), nn.Linear(3, 2))
    batch = Batch(
        obs=np.zeros((4, 3), np.float32),
        act=np.array([0, 1, 0, 1]),
        rew=np.ones(4, np.float32),
        obs_next=np.zeros((4, 3), np.float32),
        discount=np.zeros(4, np.float32),
        weight=np.ones(4, np.float32),
    )
    assert np.isfinite(DQN(DQNConfig(), policy).update(batch).loss)
    assert policy.exploration.num_actions == 2


def test_what_is_no_policy_is_refused_with_the_way_of_a_network():
    with pytest.raises(ConfigError, match=r"DQN is made of a policy, not of a Linear;.*NetConfig\(encoder=MyNetwork\)"):
        DQN(DQNConfig(), nn.Linear(3, 2))


def test_a_policy_for_other_actions_is_refused():
    policy = ActorCriticPolicy(OBS, spaces.Box(-1, 1, (2,)))
    with pytest.raises(SpaceError, match=r"DQN needs a Discrete action space, not Box.*; algorithms that fit it: "):
        DQN(DQNConfig(), policy)
    discrete = ActorCriticPolicy(OBS, spaces.Discrete(2))
    with pytest.raises(SpaceError, match=r"the observation space is \[Box.*; of a vector env take single_obs"):
        DQN.make(DQNConfig(), Task(observation_space=[OBS] * 2, action_space=spaces.Discrete(2)))
    with pytest.raises(SpaceError, match="SAC needs a Box action space, not Discrete"):
        SAC(SACConfig(), discrete, nn.Identity())
