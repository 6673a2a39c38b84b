from functools import partial

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import distributions

from argosy.data import Batch
from argosy.net import NetConfig
from argosy.ops import fisher_product, flat_gradient
from argosy.policy import ActorCriticPolicy, RolloutRequest
from argosy.policy.state_dependent import StateDependentActorCriticPolicy

OBS = spaces.Box(-1, 1, (3,), np.float32)


def make(space, **net):
    torch.manual_seed(0)
    policy = ActorCriticPolicy(OBS, space, NetConfig(hidden_sizes=(16,), activation="tanh", **net))
    with torch.no_grad():  # away from the nearly uniform start
        for parameter in policy.action_head.parameters():
            parameter.add_(torch.randn_like(parameter))
    return policy


def value_of(policy, obs):
    return policy.analyze(Batch(obs=torch.from_numpy(obs))).value


def observations(count):
    return np.random.default_rng(0).uniform(-1, 1, (count, 3)).astype(np.float32)


SPACES = [
    spaces.Discrete(4),
    spaces.MultiDiscrete([2, 4, 3]),
    spaces.Box(-1, 1, (2,)),
    spaces.Box(-1, 1, (2, 3)),
    spaces.MultiBinary(3),
]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_stored_log_probabilities_are_those_that_analyze_finds(space):
    policy = make(space)
    obs = observations(20)
    for evaluating in (None, np.arange(20) % 2 == 0):
        result = policy.rollout(RolloutRequest(obs=obs, is_evaluation=evaluating))
        now = policy.analyze(Batch(obs=torch.from_numpy(obs), act=torch.from_numpy(result.action)))
        assert result.analyzed_result.logp == pytest.approx(now.logp.detach().numpy(), abs=1e-5)
        assert result.analyzed_result.logp.dtype == np.float32


@pytest.mark.parametrize(
    ("high", "scaling", "bounded"), [(3.0, None, True), (3.0, False, False), (np.inf, None, False)]
)
@pytest.mark.parametrize("kind", ["plain", "gsde"])
def test_a_bounded_mean_keeps_to_the_bounds_where_actions_are_scaled_to_them(kind, high, scaling, bounded):
    cls = {"plain": ActorCriticPolicy, "gsde": partial(StateDependentActorCriticPolicy, noise_steps=4)}[kind]
    space = spaces.Box(-high, high, (2,), np.float32)
    policy = cls(OBS, space, NetConfig(hidden_sizes=(16,)), bounded_mean=True, action_scaling=scaling)
    with torch.no_grad():
        for parameter in policy.action_head.output.parameters():
            parameter.add_(3.0 * torch.randn_like(parameter))
    obs = observations(50)
    mean = policy(Batch(obs=obs)).act.detach().numpy()
    assert (np.abs(mean).max() <= 1.0) == bounded
    result = policy.rollout(RolloutRequest(obs=obs, is_evaluation=np.ones(50, dtype=bool)))
    assert result.action == pytest.approx(mean, abs=1e-5)
    now = policy.analyze(Batch(obs=torch.from_numpy(obs), act=torch.from_numpy(result.action)))
    assert result.analyzed_result.logp == pytest.approx(now.logp.detach().numpy(), abs=1e-4)


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_leading_axes_are_kept(space):
    policy = make(space)
    obs = observations(6)
    act = policy.rollout(RolloutRequest(obs=obs)).action
    flat = policy.analyze(Batch(obs=torch.from_numpy(obs), act=torch.from_numpy(act)))
    shaped = Batch(obs=torch.from_numpy(obs.reshape(2, 3, 3)), act=torch.from_numpy(act.reshape(2, 3, *space.shape)))
    analysis = policy.analyze(shaped)
    for key in ("logp", "entropy", "value"):
        torch.testing.assert_close(getattr(analysis, key), getattr(flat, key).reshape(2, 3))
    assert policy(shaped).act.shape == (2, 3, *space.shape)


def test_multi_categorical_is_a_product_of_categoricals():
    policy = make(SPACES[1])
    obs = torch.from_numpy(observations(8))
    act = torch.stack([torch.randint(n, (8,)) for n in (2, 4, 3)], dim=1)
    logits = policy.action_head.output(policy.actor(obs)[0]).split((2, 4, 3), dim=-1)
    parts = [distributions.Categorical(logits=part) for part in logits]
    result = policy.analyze(Batch(obs=obs, act=act))
    torch.testing.assert_close(result.logp, sum(part.log_prob(act[:, k]) for k, part in enumerate(parts)))
    torch.testing.assert_close(result.entropy, sum(part.entropy() for part in parts))
    modes = torch.stack([part.logits.argmax(-1) for part in parts], dim=1)
    assert torch.equal(policy(Batch(obs=obs)).act, modes)


def test_gaussian_is_torchs_gaussian():
    policy = make(SPACES[2])
    obs, act = torch.from_numpy(observations(8)), torch.randn(8, 2)
    mean = policy.action_head(policy.actor(obs)[0])
    reference = distributions.Independent(distributions.Normal(mean, policy.action_head.log_std.exp()), 1)
    result = policy.analyze(Batch(obs=obs, act=act))
    torch.testing.assert_close(result.logp, reference.log_prob(act))
    torch.testing.assert_close(result.entropy, reference.entropy())


def test_gaussian_actions_have_the_configured_deviation():
    policy = ActorCriticPolicy(OBS, SPACES[2], log_std_init=-1.0)
    act = policy.rollout(RolloutRequest(obs=np.zeros((20_000, 3), np.float32))).action
    assert act.mean(axis=0) == pytest.approx([0, 0], abs=0.02)
    assert act.std(axis=0) == pytest.approx([np.exp(-1)] * 2, rel=0.03)


def test_the_actor_starts_nearly_uniform():
    policy = ActorCriticPolicy(OBS, SPACES[0])
    result = policy.analyze(Batch(obs=torch.from_numpy(observations(50)), act=torch.zeros(50, dtype=torch.int64)))
    assert result.entropy.min().item() > np.log(4) - 1e-3


def test_separate_backbones_share_nothing_and_shared_ones_store_the_value():
    separate, shared = make(SPACES[0]), make(SPACES[0], shared_backbone=True)
    obs = observations(5)
    request = RolloutRequest(obs=obs)
    assert "value" not in separate.rollout(request).analyzed_result
    stored = shared.rollout(request).analyzed_result.value
    assert stored == pytest.approx(value_of(shared, obs).detach().numpy(), abs=1e-6)
    assert stored.dtype == np.float32
    grads = {}
    for name, policy in (("separate", separate), ("shared", shared)):
        value_of(policy, obs).sum().backward()
        grads[name] = policy.actor.trunk[0].weight.grad
    assert grads["separate"] is None
    assert grads["shared"] is not None
    count = {name: sum(p.numel() for p in p_.parameters()) for name, p_ in (("a", separate), ("b", shared))}
    assert count["a"] - count["b"] == 3 * 16 + 16


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_products_with_the_information_are_those_with_the_divergences_hessian(space):
    torch.manual_seed(1)
    policy = make(space)
    now = policy.analyze(Batch(obs=torch.from_numpy(observations(20)), act=None))
    parameters, output, kept = policy.actor_parameters(), now.distribution, now.distribution.detach()
    product = fisher_product(output, lambda change: now.information(kept, change) / 20, parameters)
    vector = torch.randn(sum(p.numel() for p in parameters))
    divergence = policy.action_head.kl(kept, output).mean()
    slope = torch.autograd.grad(divergence, parameters, create_graph=True, allow_unused=True)
    flat = torch.cat(
        [torch.zeros(p.numel()) if g is None else g.flatten() for g, p in zip(slope, parameters, strict=True)]
    )
    torch.testing.assert_close(product(vector), flat_gradient(flat @ vector, parameters), rtol=1e-3, atol=1e-6)
