import math

import pytest
import torch

from argosy.ops.quantiles import FEW_PAIRS, fraction_gradient, quantile_huber_loss, truncated_mixture


def test_two_quantiles_and_two_samples_by_hand():
    # tau = (1/4, 3/4). Differences of the samples (2, 0.5) from the predictions 0 and 1: (2, 0.5) and (1, -0.5);
    # Huber: (1.5, 0.125) and (0.5, 0.125); weights (1/4, 1/4) and (3/4, 1/4), the last as the sample lies below
    loss = quantile_huber_loss(torch.tensor([[0.0, 1.0]]), torch.tensor([[2.0, 0.5]]))
    assert loss.tolist() == pytest.approx([(0.25 * 1.5 + 0.25 * 0.125) / 2 + (0.75 * 0.5 + 0.25 * 0.125) / 2])


@pytest.mark.parametrize(
    ("kappa", "difference", "expected"),
    [
        (1.0, 0.5, 0.125),  # within the threshold: half the square
        (1.0, 3.0, 2.5),  # beyond it: |u| - 1/2
        (2.0, 3.0, 2.0),  # kappa * (|u| - kappa / 2) / kappa
        (2.0, 1.0, 0.25),  # half the square, over kappa
        (0.5, -1.0, 0.75),
    ],
)
def test_one_quantile_is_half_the_huber_loss(kappa, difference, expected):
    loss = quantile_huber_loss(torch.zeros(1), torch.tensor([difference]), kappa)
    assert loss.item() == pytest.approx(0.5 * expected)  # tau is 1/2, so that both sides count alike


def test_sides_count_by_the_quantiles_share():
    # 4 predictions at 0 with tau 1/8, 3/8, 5/8, 7/8; Huber of 1 and of -1 is 1/2
    above = quantile_huber_loss(torch.zeros(4), torch.ones(1))
    below = quantile_huber_loss(torch.zeros(4), -torch.ones(1))
    assert above.item() == pytest.approx(0.5 * (1 + 3 + 5 + 7) / 8)
    assert below.item() == pytest.approx(0.5 * (7 + 5 + 3 + 1) / 8)
    gradient = torch.zeros(4, requires_grad=True)
    quantile_huber_loss(gradient, torch.ones(1)).backward()
    assert gradient.grad.tolist() == pytest.approx([-1 / 8, -3 / 8, -5 / 8, -7 / 8])  # the upper ones rise the fastest


def test_leading_axes_are_kept_and_counts_may_differ():
    torch.manual_seed(0)
    quantiles, target = torch.randn(3, 2, 5), torch.randn(3, 2, 7)
    loss = quantile_huber_loss(quantiles, target)
    assert loss.shape == (3, 2)
    for t in range(3):
        for b in range(2):
            total = 0.0
            for i in range(5):
                for j in range(7):
                    u = (target[t, b, j] - quantiles[t, b, i]).item()
                    huber = 0.5 * u * u if abs(u) <= 1 else abs(u) - 0.5
                    total += abs((2 * i + 1) / 10 - (u < 0)) * huber / 7
            assert loss[t, b].item() == pytest.approx(total, rel=1e-5)


@pytest.mark.parametrize("has_fractions", [True, False])
@pytest.mark.parametrize(
    ("predictions", "samples", "shift", "kappa"),
    [((3, 40), (3, 60), 0.0, 1.0), ((2, 3, 33), (3, 32), 1e4, 1.0), ((1, 2000), (1, 1), -5.0, 0.1)],
)
def test_many_quantiles_count_as_a_few_at_a_time_do(predictions, samples, shift, kappa, has_fractions):
    torch.manual_seed(0)
    quantiles, target = torch.randn(predictions) + shift, 2 * torch.randn(samples) + shift
    quantiles[..., 1], target[..., 0], target[..., -1] = shift, shift, shift + kappa  # differences of 0 and of kappa
    quantiles.requires_grad_()
    count = predictions[-1]
    tau = torch.rand(predictions) if has_fractions else ((torch.arange(count) + 0.5) / count).expand(predictions)
    few = FEW_PAIRS // samples[-1]  # of them, each is compared with each
    parts = zip(quantiles.split(few, -1), tau.split(few, -1), strict=True)
    expected = sum(quantile_huber_loss(part, target, kappa, of_part) for part, of_part in parts)
    found = quantile_huber_loss(quantiles, target, kappa, tau if has_fractions else None)
    torch.testing.assert_close(found, expected)
    weight = torch.rand(found.shape)
    gradients = [torch.autograd.grad(loss, quantiles, weight)[0] for loss in (found, expected)]
    torch.testing.assert_close(*gradients)


def test_its_minimum_is_at_the_quantiles():
    samples = torch.arange(1000.0) / 1000
    quantiles = torch.full((4,), 0.5, requires_grad=True)
    optim = torch.optim.Adam([quantiles], lr=0.01)
    for _ in range(400):
        optim.zero_grad()
        quantile_huber_loss(quantiles, samples, kappa=1e-3).backward()
        optim.step()
    assert quantiles.tolist() == pytest.approx([1 / 8, 3 / 8, 5 / 8, 7 / 8], abs=0.02)
    assert math.isclose(quantiles.mean().item(), 0.5, abs_tol=0.02)


def test_a_truncated_mixture_by_hand():
    # rows (1, 9, 4) and (2, 3, 8) of one critic, (0, 5, 7) and (6, 1, 1) of the other
    quantiles = torch.tensor([[[1.0, 9.0, 4.0], [2.0, 3.0, 8.0]], [[0.0, 5.0, 7.0], [6.0, 1.0, 1.0]]])
    assert truncated_mixture(quantiles, 2).tolist() == [[0, 1, 4, 5], [1, 1, 2, 3]]
    assert truncated_mixture(quantiles, 0).tolist() == [[0, 1, 4, 5, 7, 9], [1, 1, 2, 3, 6, 8]]
    assert truncated_mixture(torch.randn(3, 2, 4, 5), 6).shape == (2, 4, 9)


def test_fractions_of_ones_own_by_hand():
    # Differences (2, 0.5) from the prediction 0 with tau 0.1, (1, -0.5) from the prediction 1 with tau 0.6
    tau = torch.tensor([[0.1, 0.6]])
    loss = quantile_huber_loss(torch.tensor([[0.0, 1.0]]), torch.tensor([[2.0, 0.5]]), tau=tau)
    assert loss.tolist() == pytest.approx([(0.1 * 1.5 + 0.1 * 0.125) / 2 + (0.6 * 0.5 + 0.4 * 0.125) / 2])
    middles = torch.tensor([[0.25, 0.75]])
    same = [quantile_huber_loss(torch.tensor([[0.0, 1.0]]), torch.tensor([[2.0, 0.5]]), tau=t) for t in (middles, None)]
    assert torch.equal(*same)


def test_gradient_of_fractions_by_hand():
    # Rising: 2 * 3 - 1 - 4 and 2 * 5 - 4 - 9. Falling at the second edge: |2 - 4| - |9 - 2|.
    middles = torch.tensor([1.0, 4.0, 9.0])
    assert fraction_gradient(torch.tensor([3.0, 5.0]), middles).tolist() == [1.0, -3.0]
    assert fraction_gradient(torch.tensor([3.0, 2.0]), middles).tolist() == [1.0, -5.0]


def test_gradient_of_fractions_is_that_of_the_distance():
    """F(tau) = tau^2; edges at 0.3 and 0.8, of which each moves a little, the middles' values held."""
    tau = torch.linspace(0, 1, 2_000_001, dtype=torch.float64)
    edges = torch.tensor([0.0, 0.3, 0.8, 1.0], dtype=torch.float64)
    values = ((edges[1:] + edges[:-1]) / 2).square()

    def distance(first, second):
        stairs = values[(tau > first).long() + (tau > second).long()]
        return (tau.square() - stairs).abs().mean().item()

    found = fraction_gradient(edges[1:-1].square(), values)
    assert (distance(0.301, 0.8) - distance(0.299, 0.8)) / 0.002 == pytest.approx(found[0].item(), abs=1e-3)
    assert (distance(0.3, 0.801) - distance(0.3, 0.799)) / 0.002 == pytest.approx(found[1].item(), abs=1e-3)
