import numpy as np
import pytest
import torch
from gymnasium import spaces

from argosy.data import Batch
from argosy.net import NetConfig
from argosy.policy import RolloutRequest, SACPolicy

OBS = spaces.Box(-1, 1, (3,), np.float32)


def make(shape=(2,)):
    torch.manual_seed(0)
    return SACPolicy(OBS, spaces.Box(-3.0, 3.0, shape, np.float32), NetConfig(hidden_sizes=(16,)))


def test_actions_are_in_the_unit_box_and_stretched_at_the_border():
    policy = make()
    with torch.no_grad():
        policy.head.bias.fill_(2.0)  # large mean and deviation
    act = policy.rollout(RolloutRequest(obs=np.zeros((1000, 3), np.float32))).action
    assert np.abs(act).max() <= 1.0
    assert np.abs(act).max() > 0.99
    assert policy.map_action(act) == pytest.approx(3.0 * act, abs=1e-6)


@pytest.mark.parametrize("shape", [(2,), (2, 3)])
def test_sampled_actions_have_the_log_density_of_their_distribution(shape):
    policy = make(shape)
    obs = torch.randn(7, 3)
    act, logp = policy.sample(obs, torch.Generator().manual_seed(0))
    assert act.shape == (7, *shape)
    mean, log_std, _ = policy._run(obs)
    raw = act.flatten(1).atanh()
    density = torch.distributions.Normal(mean, log_std.exp()).log_prob(raw).sum(-1)
    expected = density - torch.log(1 - act.flatten(1).square()).sum(-1)
    torch.testing.assert_close(logp, expected, atol=1e-3, rtol=1e-3)


def test_sample_is_differentiable_and_repeatable():
    policy = make()
    draws = [policy.sample(torch.zeros(4, 3), torch.Generator().manual_seed(5)) for _ in range(2)]
    assert torch.equal(draws[0][0], draws[1][0])
    draws[0][0].sum().backward()
    assert all(parameter.grad is not None for parameter in policy.parameters())


def test_extreme_deviations_are_clamped():
    policy = make()
    with torch.no_grad():
        policy.head.bias[2:] = 100.0
    _, log_std, _ = policy._run(torch.zeros(1, 3))
    assert log_std.tolist() == [[2.0, 2.0]]


def test_analyze_draws_fresh_actions():
    policy = make()
    sample = Batch(obs=torch.zeros(4, 3))
    assert not torch.equal(policy.analyze(sample).act, policy.analyze(sample).act)
