import numpy as np
import pytest
import torch
from gymnasium import spaces

from argosy.data import Batch
from argosy.net import NetConfig
from argosy.policy import RolloutRequest
from argosy.policy.quantile import QuantilePolicy

OBS = spaces.Box(-9, 9, (4,), np.float32)


def reading(space=OBS):
    """Two quantiles of each of two actions, read from the observation itself: [q00, q01, q10, q11]."""
    policy = QuantilePolicy(space, spaces.Discrete(2), NetConfig(hidden_sizes=()), num_quantiles=2)
    with torch.no_grad():
        policy.head.weight.copy_(torch.eye(4))
        policy.head.bias.zero_()
    return policy


OBSERVATIONS = np.array([[0, 1, 2, 0.5], [-1, 5, 1, 2]], np.float32)


def test_actions_are_those_of_the_best_mean():
    policy = reading()
    result = policy(Batch(obs=OBSERVATIONS))
    assert result.logits.tolist() == [[0.5, 1.25], [2.0, 1.5]]
    assert result.act.tolist() == [1, 0]
    assert policy.rollout(RolloutRequest(obs=OBSERVATIONS)).action.tolist() == [1, 0]


def test_an_analysis_gives_the_quantiles_of_actions():
    policy, obs = reading(), torch.from_numpy(OBSERVATIONS)
    found = policy.analyze(Batch(obs=obs, act=torch.tensor([0, 1])))
    assert found.quantiles.tolist() == [[[0, 1], [2, 0.5]], [[-1, 5], [1, 2]]]
    assert found.quantiles_taken.tolist() == [[0, 1], [1, 2]]
    assert found.q_taken.tolist() == [0.5, 1.5]
    assert found.greedy.tolist() == [1, 0]
    assert found.quantiles_of(found.greedy).tolist() == [[2, 0.5], [-1, 5]]
    assert found.quantiles_taken.requires_grad
    successors = policy.analyze_next(Batch(obs_next=obs), (torch.tensor([1]),))
    assert successors.quantiles.tolist() == [[[-1, 5], [1, 2]]]
    with pytest.raises(AssertionError, match="successors have no stored actions"):
        _ = successors.quantiles_taken


def test_leading_axes_are_kept():
    policy, obs = reading(), torch.from_numpy(OBSERVATIONS).expand(3, 2, 4)
    found = policy.analyze(Batch(obs=obs, act=torch.tensor([[0, 1]] * 3)))
    assert found.quantiles.shape == (3, 2, 2, 2)
    assert found.quantiles_taken.tolist() == [[[0, 1], [1, 2]]] * 3


def test_forbidden_actions_are_not_greedy():
    policy = reading(spaces.Dict({"x": OBS, "mask": spaces.MultiBinary(2)}))
    obs = {"x": torch.from_numpy(OBSERVATIONS), "mask": torch.tensor([[1, 0], [0, 1]])}
    found = policy.analyze(Batch(obs=obs, act=torch.tensor([0, 1])))
    assert found.greedy.tolist() == [0, 1]
    assert found.q.tolist() == [[0.5, 1.25], [2.0, 1.5]]  # values are of forbidden actions, too


def test_dueling_streams_are_those_of_each_quantile():
    policy = QuantilePolicy(OBS, spaces.Discrete(3), NetConfig(hidden_sizes=(8,)), num_quantiles=5, dueling=True)
    found = policy.analyze(Batch(obs=torch.randn(6, 4), act=torch.zeros(6, dtype=torch.int64)))
    assert found.quantiles.shape == (6, 3, 5)
    assert policy.head.value.out_features == 5
