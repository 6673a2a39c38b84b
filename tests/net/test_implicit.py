import math

import pytest
import torch

from argosy.net.implicit import (
    EqualFractions,
    ImplicitHead,
    ProposedFractions,
    edges,
    fraction_parameters,
    middles,
)


def test_shares_edges_and_middles_by_hand():
    shares = torch.tensor([[0.2, 0.5, 0.3]], requires_grad=True)
    assert edges(shares)[0].tolist() == pytest.approx([0.2, 0.7])
    assert middles(shares)[0].tolist() == pytest.approx([0.1, 0.45, 0.85])
    assert edges(shares).requires_grad
    assert not middles(shares).requires_grad


def test_equal_and_proposed_shares():
    features = torch.randn(3, 2, 4, requires_grad=True)
    assert EqualFractions(5)(features).tolist() == [pytest.approx(0.2)] * 5
    torch.manual_seed(0)
    proposed = ProposedFractions(4, 5)
    shares = proposed(features)
    torch.testing.assert_close(shares, torch.full((3, 2, 5), 0.2), atol=0.02, rtol=0)
    shares[..., 0].sum().backward()
    assert features.grad is None
    assert proposed.logits.weight.grad.abs().max() > 0
    assert fraction_parameters(torch.nn.Sequential(proposed, torch.nn.Linear(5, 1))) == list(proposed.parameters())


def test_fractions_for_all_are_those_of_each():
    torch.manual_seed(0)
    head = ImplicitHead(4, 8, 2, EqualFractions(5), num_cosines=3)
    features, tau = torch.randn(3, 2, 4), torch.rand(6)
    torch.testing.assert_close(head.quantiles(features, tau), head.quantiles(features, tau.expand(3, 2, 6)))


def test_quantiles_by_hand():
    """One feature, two cosines, one hidden unit, two actions."""
    head = ImplicitHead(1, 1, 2, EqualFractions(2), num_cosines=2)
    values = ((head.embed, [[1.0], [2.0]], [0.5]), (head.hidden, [[3.0]], [1.0]), (head.out, [[1.0, -2.0]], [0.0, 4.0]))
    for layer, weight, bias in values:
        layer.weight.data, layer.bias.data = torch.tensor(weight), torch.tensor(bias)
    features, tau = torch.tensor([[2.0]]), torch.tensor([[0.25, 0.5, 1.0]])

    def quantile(t):
        embedding = max(math.cos(math.pi * t) + 2 * math.cos(2 * math.pi * t) + 0.5, 0.0)
        hidden = max(3 * 2 * embedding + 1, 0.0)
        return [hidden, 4 - 2 * hidden]

    expected = torch.tensor([quantile(t) for t in (0.25, 0.5, 1.0)]).t()
    torch.testing.assert_close(head.quantiles(features, tau)[0], expected)
    mean = [(low + high) / 2 for low, high in zip(quantile(0.25), quantile(0.75), strict=True)]
    assert head(features)[0].tolist() == pytest.approx(mean)


def test_the_mean_weighs_quantiles_by_their_shares():
    head = ImplicitHead(3, 4, 2, ProposedFractions(3, 2))
    head.fractions.logits.weight.data.zero_()
    head.fractions.logits.bias.data = torch.tensor([0.9, 0.1]).log()
    features = torch.rand(5, 3)
    quantiles = head.quantiles(features, torch.tensor([0.45, 0.95]).expand(5, 2))
    torch.testing.assert_close(head(features), 0.9 * quantiles[..., 0] + 0.1 * quantiles[..., 1])
