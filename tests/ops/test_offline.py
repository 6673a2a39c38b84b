import pytest
import torch

from argosy.ops.offline import squared_distance


def test_squared_distance_sums_over_the_axes_of_an_action():
    a, b = torch.arange(8.0).reshape(2, 2, 2), torch.ones(2, 2, 2)
    assert squared_distance(a, b, 1).tolist() == [1 + 0 + 1 + 4, 9 + 16 + 25 + 36]
    assert squared_distance(a, b, 2).tolist() == [[1, 5], [25, 61]]
    assert squared_distance(a, b, 3).tolist() == (a - b).square().tolist()  # actions of one number, without an axis


def test_squared_distance_leads_back_to_the_action():
    act = torch.tensor([[0.5, -1.0]], requires_grad=True)
    squared_distance(act, torch.zeros(1, 2), 1).sum().backward()
    assert act.grad.tolist() == [pytest.approx([1.0, -2.0])]
