import math

import pytest
import torch

from argosy.ops.offline import advantage_weight, conservative_gap, expectile_loss, squared_distance


def test_squared_distance_sums_over_the_axes_of_an_action():
    a, b = torch.arange(8.0).reshape(2, 2, 2), torch.ones(2, 2, 2)
    assert squared_distance(a, b, 1).tolist() == [1 + 0 + 1 + 4, 9 + 16 + 25 + 36]
    assert squared_distance(a, b, 2).tolist() == [[1, 5], [25, 61]]
    assert squared_distance(a, b, 3).tolist() == (a - b).square().tolist()  # actions of one number, without an axis
    assert squared_distance(torch.ones(3, 1), torch.arange(3.0), 1).tolist() == [1, 0, 1]  # with one, and without


def test_squared_distance_leads_back_to_the_action():
    act = torch.tensor([[0.5, -1.0]], requires_grad=True)
    squared_distance(act, torch.zeros(1, 2), 1).sum().backward()
    assert act.grad.tolist() == [pytest.approx([1.0, -2.0])]


def test_expectile_loss_weighs_the_sides():
    assert expectile_loss(torch.tensor([2.0, -2.0, 0.0]), 0.9).tolist() == pytest.approx([3.6, 0.4, 0.0])
    values = torch.tensor([0.0, 1.0])  # the 0.8-expectile of these: 0.8 * (1 - x) = 0.2 * x
    x = torch.tensor(0.8, requires_grad=True)
    expectile_loss(values - x, 0.8).sum().backward()
    assert x.grad.item() == pytest.approx(0.0, abs=1e-6)


def test_advantage_weight_is_exponential_and_bounded():
    weight = advantage_weight(torch.tensor([0.0, 1.0, -1.0, 1e6]), 0.5, 20.0)
    assert weight.tolist() == pytest.approx([1.0, math.exp(2.0), math.exp(-2.0), 20.0])


def test_conservative_gap_by_hand():
    q = torch.tensor([[0.0, 1.0, 2.0], [3.0, 3.0, 3.0]])
    log_sum = math.log(1.0 + math.e + math.e**2)
    assert conservative_gap(q, q[:, 2]).tolist() == pytest.approx([log_sum - 2.0, math.log(3.0)])
    allowed = torch.tensor([[True, True, False], [True, False, False]])
    assert conservative_gap(q, q[:, 0], allowed).tolist() == pytest.approx([math.log(1.0 + math.e), 0.0])
