import numpy as np
import pytest
import torch
from gymnasium import spaces

from argosy.data import Batch
from argosy.net import NetConfig
from argosy.policy import RolloutRequest, SquashedGaussianPolicy

OBS = spaces.Box(-1, 1, (3,), np.float32)


def make(shape=(2,)):
    torch.manual_seed(0)
    return SquashedGaussianPolicy(OBS, spaces.Box(-3.0, 3.0, shape, np.float32), NetConfig(hidden_sizes=(16,)))


def analysis_at(policy, obs):
    return policy.analyze(Batch(obs=obs))


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
    analysis = analysis_at(policy, obs)
    act, logp = analysis.sample(torch.Generator().manual_seed(0))
    assert act.shape == (7, *shape)
    raw = act.flatten(1).atanh()
    density = torch.distributions.Normal(analysis.mean, analysis.log_std.exp()).log_prob(raw).sum(-1)
    expected = density - torch.log(1 - act.flatten(1).square()).sum(-1)
    torch.testing.assert_close(logp, expected, atol=1e-3, rtol=1e-3)
    within = (act.abs() < 0.999).flatten(1).all(1)
    torch.testing.assert_close(analysis.log_prob(act)[within], logp[within], atol=1e-3, rtol=1e-3)
    assert torch.equal(analysis.log_prob(torch.ones_like(act)), analysis.log_prob(torch.full_like(act, 0.9995)))


def test_sample_is_differentiable_and_repeatable():
    policy = make()
    draws = [analysis_at(policy, torch.zeros(4, 3)).sample(torch.Generator().manual_seed(5)) for _ in range(2)]
    assert torch.equal(draws[0][0], draws[1][0])
    draws[0][0].sum().backward()
    assert all(parameter.grad is not None for parameter in policy.parameters())


def test_extreme_deviations_are_clamped():
    policy = make()
    with torch.no_grad():
        policy.head.bias[2:] = 100.0
    assert analysis_at(policy, torch.zeros(1, 3)).log_std.tolist() == [[2.0, 2.0]]


def test_an_analysis_draws_fresh_actions_and_knows_the_one_without_noise():
    policy, generator = make(), torch.Generator().manual_seed(0)
    sample = Batch(obs=torch.zeros(4, 3), obs_next=torch.ones(4, 3))
    analysis = policy.analyze(sample)
    assert not torch.equal(analysis.sample(generator)[0], analysis.sample(generator)[0])
    evaluated = policy.rollout(RolloutRequest(obs=np.zeros((4, 3), np.float32), is_evaluation=np.ones(4, bool)))
    assert analysis.act.detach().numpy() == pytest.approx(evaluated.action, abs=1e-6)
    successors = policy.analyze_next(sample)
    torch.testing.assert_close(successors.mean, policy.analyze(Batch(obs=sample.obs_next)).mean)
