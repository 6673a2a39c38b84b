import math

import numpy as np
import pytest
import torch
from gymnasium import spaces

from argosy.data import Batch
from argosy.net import NetConfig
from argosy.policy import RolloutRequest
from argosy.policy.categorical import CategoricalPolicy

OBS = spaces.Box(-9, 9, (4,), np.float32)
LOG3 = math.log(3.0)
# Two atoms, at 0 and 4, for each of two actions, whose logits are the observation.
# Odds 1 to 3 are a mean of 3, odds 1 to 1 one of 2.
OBSERVATIONS = np.array([[0, LOG3, 1, 1], [LOG3, 0, 5, 5]], np.float32)


def reading(space=OBS):
    policy = CategoricalPolicy(space, spaces.Discrete(2), NetConfig(hidden_sizes=()), num_atoms=2, v_min=0.0, v_max=4.0)
    with torch.no_grad():
        policy.head.weight.copy_(torch.eye(4))
        policy.head.bias.zero_()
    return policy


def test_actions_are_those_of_the_best_mean():
    policy = reading()
    result = policy(Batch(obs=OBSERVATIONS))
    assert result.logits.flatten().tolist() == pytest.approx([3.0, 2.0, 1.0, 2.0])
    assert result.act.tolist() == [0, 1]
    assert policy.rollout(RolloutRequest(obs=OBSERVATIONS)).action.tolist() == [0, 1]
    np.testing.assert_allclose(policy._values(OBSERVATIONS), [[3.0, 2.0], [1.0, 2.0]], rtol=1e-6)


def test_an_analysis_gives_the_distributions_of_actions():
    policy, obs = reading(), torch.from_numpy(OBSERVATIONS)
    found = policy.analyze(Batch(obs=obs, act=torch.tensor([0, 1])))
    assert found.support.tolist() == [0.0, 4.0]
    assert found.log_probs_taken.exp().flatten().tolist() == pytest.approx([0.25, 0.75, 0.5, 0.5])
    assert found.q_taken.tolist() == pytest.approx([3.0, 2.0])
    assert found.log_probs_of(torch.tensor([1, 0])).exp().flatten().tolist() == pytest.approx([0.5, 0.5, 0.75, 0.25])
    assert found.log_probs_taken.requires_grad
    successors = policy.analyze_next(Batch(obs_next=obs), (torch.tensor([1]),))
    assert successors.log_probs.exp().flatten().tolist() == pytest.approx([0.75, 0.25, 0.5, 0.5])
    with pytest.raises(AssertionError, match="successors have no stored actions"):
        _ = successors.log_probs_taken


def test_large_logits_do_not_overflow():
    values = reading()._values(np.array([[0.0, 1000.0, 1000.0, 0.0]], np.float32))
    assert values.tolist() == [[4.0, 0.0]]


def test_leading_axes_are_kept_and_forbidden_actions_are_not_greedy():
    policy = reading(spaces.Dict({"x": OBS, "mask": spaces.MultiBinary(2)}))
    obs = {"x": torch.from_numpy(OBSERVATIONS).expand(3, 2, 4), "mask": torch.tensor([[[0, 1], [1, 0]]] * 3)}
    found = policy.analyze(Batch(obs=obs, act=torch.tensor([[0, 1]] * 3)))
    assert found.log_probs.shape == (3, 2, 2, 2)
    assert found.greedy.tolist() == [[1, 0]] * 3
    assert found.q_taken.flatten().tolist() == pytest.approx([3.0, 2.0] * 3)


def test_dueling_streams_are_those_of_each_atom():
    net = NetConfig(hidden_sizes=(8,))
    policy = CategoricalPolicy(OBS, spaces.Discrete(3), net, num_atoms=5, dueling=True)
    found = policy.analyze(Batch(obs=torch.randn(6, 4), act=torch.zeros(6, dtype=torch.int64)))
    assert found.log_probs.shape == (6, 3, 5)
    assert policy.head.value.out_features == 5
