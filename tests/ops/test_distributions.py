import math

import numpy as np
import pytest
import torch
from torch import distributions as torch_distributions

from argosy.ops import (
    categorical_entropy,
    categorical_kl,
    categorical_log_prob,
    categorical_sample,
    gaussian_entropy,
    gaussian_kl,
    gaussian_log_prob,
    gaussian_sample,
    squashed_gaussian_log_prob,
)


def test_categorical_by_hand():
    log_probs = torch.tensor([[0.5, 0.25, 0.25]]).log()
    assert categorical_log_prob(log_probs, torch.tensor([1])).tolist() == pytest.approx([math.log(0.25)])
    assert categorical_entropy(log_probs).tolist() == pytest.approx([1.5 * math.log(2)])


def test_entropy_counts_forbidden_actions_as_nothing():
    log_probs = torch.tensor([[0.0, 0.0, -1e8]]).log_softmax(-1)
    assert categorical_entropy(log_probs).item() == pytest.approx(math.log(2))


def test_gaussian_by_hand():
    mean, log_std = torch.tensor([[1.0, 2.0]]), torch.tensor([0.0, math.log(2.0)])
    act = torch.tensor([[2.0, 4.0]])
    half_log_2pi = 0.5 * math.log(2 * math.pi)
    expected = -(0.5 + half_log_2pi) - (0.5 + math.log(2) + half_log_2pi)
    assert gaussian_log_prob(act, mean, log_std).tolist() == pytest.approx([expected])
    assert gaussian_entropy(log_std).item() == pytest.approx(2 * (0.5 + half_log_2pi) + math.log(2))


def test_divergences_by_hand():
    p, q = torch.tensor([[0.5, 0.5, 0.0]]), torch.tensor([[0.25, 0.75, 0.0]])
    expected = 0.5 * math.log(2.0) + 0.5 * math.log(2.0 / 3.0)
    assert categorical_kl(p.clamp(min=1e-30).log(), q.clamp(min=1e-30).log()).tolist() == pytest.approx([expected])
    mean, other_mean = torch.tensor([[[1.0, 0.0]], [[3.0, 0.0]]])
    found = gaussian_kl(mean, torch.tensor([0.0, 0.5]), other_mean, torch.tensor([1.0, 0.5]))
    assert found.tolist() == pytest.approx([1.0 - 0.5 + (1.0 + 4.0) / (2.0 * math.exp(2.0))])


def test_divergences_are_torch_s():
    torch.manual_seed(0)
    p, q = torch.randn(2, 5, 3).log_softmax(-1)
    theirs = torch_distributions.kl_divergence(
        torch_distributions.Categorical(logits=p), torch_distributions.Categorical(logits=q)
    )
    torch.testing.assert_close(categorical_kl(p, q), theirs)
    mean, log_std, other_mean, other_log_std = torch.randn(4, 5, 3)
    ours = gaussian_kl(mean, log_std, other_mean, other_log_std)
    theirs = torch_distributions.kl_divergence(
        torch_distributions.Normal(mean, log_std.exp()), torch_distributions.Normal(other_mean, other_log_std.exp())
    )
    torch.testing.assert_close(ours, theirs.sum(-1))


def test_squashed_gaussian_is_the_density_of_the_squashed_action():
    torch.manual_seed(0)
    mean, log_std, noise = torch.randn(3, 6, 2, dtype=torch.float64).unbind()
    mean, log_std = mean.requires_grad_(), log_std.requires_grad_()
    raw = mean + log_std.exp() * noise
    reference = torch_distributions.TransformedDistribution(
        torch_distributions.Normal(mean, log_std.exp()), [torch_distributions.TanhTransform(cache_size=1)]
    )
    expected = reference.log_prob(reference.transforms[0](raw)).sum(-1)
    logp = squashed_gaussian_log_prob(raw, noise, log_std)
    torch.testing.assert_close(logp, expected)
    weights = torch.randn(6, dtype=torch.float64)
    for ours, theirs in zip(
        *(torch.autograd.grad(p, (mean, log_std), weights, retain_graph=True) for p in (logp, expected)), strict=True
    ):
        torch.testing.assert_close(ours, theirs)


def test_squashed_gaussian_stays_finite_where_tanh_is_1():
    raw = torch.tensor([[40.0]], requires_grad=True)
    logp = squashed_gaussian_log_prob(raw, torch.zeros(1, 1), torch.zeros(1))
    # log(1 - tanh(x)^2) -> 2 log 2 - 2x
    assert logp.item() == pytest.approx(-0.5 * math.log(2 * math.pi) - 2 * math.log(2) + 80.0)
    logp.sum().backward()
    assert torch.isfinite(raw.grad).all()


def test_categorical_draws_follow_the_probabilities():
    rng = np.random.default_rng(0)
    probs = np.array([0.7, 0.2, 0.1, 0.0], dtype=np.float32)
    with np.errstate(divide="ignore"):
        log_probs = np.tile(np.maximum(np.log(probs), -1e8), (50_000, 1))
    act, logp = categorical_sample(log_probs, rng.standard_exponential(log_probs.shape))
    share = np.bincount(act, minlength=4) / len(act)
    assert share == pytest.approx(probs, abs=0.01)  # 5 standard errors
    assert logp == pytest.approx(log_probs[np.arange(len(act)), act])


def test_clocks_of_one_give_the_mode_and_clocks_of_zero_no_forbidden_action():
    log_probs = np.log(np.array([[[0.1, 0.9], [0.6, 0.4]]], dtype=np.float32))
    act, logp = categorical_sample(log_probs, np.ones_like(log_probs))
    assert act.tolist() == [[1, 0]]
    assert logp == pytest.approx(np.log([[0.9, 0.6]]), rel=1e-6)
    forbidden = np.array([[0.0, -1e8]], dtype=np.float32)
    assert categorical_sample(forbidden, np.array([[1.0, 0.0]]))[0].tolist() == [0]


def test_gaussian_draws_and_their_density():
    mean, log_std = np.array([[1.0, -1.0]], dtype=np.float32), np.array([0.0, 0.5], dtype=np.float32)
    act, logp = gaussian_sample(mean, log_std, np.array([[0.5, -2.0]], dtype=np.float32))
    assert act == pytest.approx(np.array([[1.5, -1.0 - 2.0 * math.exp(0.5)]]))
    expected = gaussian_log_prob(torch.from_numpy(act), torch.from_numpy(mean), torch.from_numpy(log_std))
    assert logp == pytest.approx(expected.numpy(), rel=1e-5)
