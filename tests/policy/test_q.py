import numpy as np
import pytest
import torch
from gymnasium import spaces

from argosy.data import Batch
from argosy.policy import EpsilonConfig, QPolicy, RolloutRequest

OBS = spaces.Box(-1, 1, (3,), np.float32)


def preferring(action, count=4, **exploration):
    """A policy whose Q-values are the same everywhere: 1 for `action`, else 0."""
    policy = QPolicy(OBS, spaces.Discrete(count))
    with torch.no_grad():
        for parameter in policy.head.parameters():
            parameter.zero_()
        policy.head.bias[action] = 1.0
    policy.explore_by(EpsilonConfig(**exploration).build(count))
    return policy


def request(count, **fields):
    return RolloutRequest(obs=np.zeros((count, 3), np.float32), **fields)


@pytest.mark.parametrize("eps", [0.0, 0.3, 1.0])
def test_random_actions_come_with_probability_eps(eps):
    policy = preferring(2, eps_start=eps)
    share = np.bincount(policy.rollout(request(20_000)).action, minlength=4) / 20_000
    expected = np.full(4, eps / 4)
    expected[2] += 1 - eps
    assert share == pytest.approx(expected, abs=0.015)


def test_evaluating_rows_explore_with_eps_test():
    policy = preferring(2, eps_start=1.0, eps_test=0.2)
    evaluating = np.arange(40_000) % 2 == 0
    act = policy.rollout(request(40_000, is_evaluation=evaluating)).action
    assert (act[evaluating] == 2).mean() == pytest.approx(0.8 + 0.05, abs=0.015)
    assert (act[~evaluating] == 2).mean() == pytest.approx(0.25, abs=0.015)


def test_analyze_picks_the_value_of_the_stored_action():
    policy = QPolicy(OBS, spaces.Discrete(4))
    obs, act = torch.randn(2, 5, 3), torch.randint(4, (2, 5))
    result = policy.analyze(Batch(obs=obs, act=act))
    assert result.q.shape == (2, 5, 4)
    for t in range(2):
        for b in range(5):
            assert result.q_taken[t, b] == result.q[t, b, act[t, b]]
    assert result.q_taken.requires_grad


def test_a_soft_value_is_that_of_the_allowed_actions_or_of_all_where_there_is_none():
    """An env may allow nothing behind a time limit, where the value is asked for all the same."""
    policy = QPolicy(spaces.Dict(x=OBS, action_mask=spaces.MultiBinary(3)), spaces.Discrete(3))
    mask = torch.tensor([[1, 1, 0], [0, 0, 0]], dtype=torch.int8)
    obs = {"x": torch.zeros(2, 3), "action_mask": mask}
    said = policy.analyze(Batch(obs=obs, act=torch.zeros(2, dtype=torch.uint8)))
    q = said.q[0]
    expected = torch.stack([(q[:2] / 0.5).exp().sum().log() * 0.5, (q / 0.5).exp().sum().log() * 0.5])
    torch.testing.assert_close(said.soft_value(0.5), expected)
    assert said.q_taken.tolist() == said.q[:, 0].tolist()  # actions may be of any whole numbers


def test_a_rate_is_not_set_in_the_wrong_place_without_a_word():
    policy = preferring(0, eps_start=0.5)
    with pytest.raises(AttributeError, match=r"policy\.exploration\.eps = 0\.1"):
        policy.eps = 0.1
    assert not hasattr(policy, "eps")


def test_exploration_travels_with_the_checkpoint():
    policy, remote = preferring(0), preferring(1)
    policy.exploration.eps, policy.exploration.eps_test = 0.37, 0.01
    remote.load_checkpoint(policy.get_checkpoint())
    assert (remote.exploration.eps, remote.exploration.eps_test) == (0.37, 0.01)
