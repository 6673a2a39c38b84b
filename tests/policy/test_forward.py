"""Policies that say only what to do: one step by hand, exploring and evaluating rows, state, what is stored."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from argosy.data import Batch
from argosy.policy import ForwardPolicy, RolloutRequest
from argosy.policy.forward import RandomPolicy, act_randomly


class Counter(ForwardPolicy):
    """Acts with the sum of observation and state; noise is 10; counts the steps in its state."""

    default_policy_state = np.zeros(1, np.float32)

    def forward(self, batch, state=None):
        act = torch.as_tensor(batch.obs + state)
        return Batch(act=act, state=torch.as_tensor(state + 1), policy=Batch(twice=2 * act))

    def exploration_noise(self, act, batch):
        return act + 10


def test_rows_that_explore_and_rows_that_do_not():
    policy = Counter(action_space=spaces.Box(-100, 100, (1,)))
    obs, state = np.array([[1], [2]], np.float32), np.array([[0], [5]], np.float32)
    result = policy.rollout(RolloutRequest(obs=obs, policy_state=state, is_evaluation=np.array([True, False])))
    assert result.action.tolist() == [[1], [17]]
    assert result.policy_state.tolist() == [[1], [6]]
    assert result.analyzed_result.twice.tolist() == [[2], [14]]
    assert isinstance(result.analyzed_result.twice, np.ndarray)
    assert policy.rollout(RolloutRequest(obs=obs, policy_state=state)).action.tolist() == [[11], [17]]


def test_random_actions_are_not_the_array_that_an_env_may_write_into():
    policy = RandomPolicy(spaces.Box(-1, 1, (1,)), spaces.MultiDiscrete([5, 5]))
    act, env_act = act_randomly(policy, np.zeros((3, 1), np.float32), 3, np.random.default_rng(0))
    assert (act == env_act).all()
    env_act += 100
    assert (act < 5).all()


def test_it_is_no_learner():
    policy = Counter(action_space=spaces.Discrete(2))
    with pytest.raises(NotImplementedError, match="write analyze"):
        policy.analyze(Batch(obs=np.zeros((1, 1))))
