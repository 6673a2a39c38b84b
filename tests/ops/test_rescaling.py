import pytest
import torch

from argosy.ops.rescaling import rescale, unrescale


@pytest.mark.parametrize(
    ("x", "eps", "expected"),
    [
        (0.0, 0.001, 0.0),
        (3.0, 0.001, 1.003),  # sqrt(4) - 1 + 0.003
        (-8.0, 0.01, -2.08),  # -(sqrt(9) - 1) - 0.08
        (99.0, 0.1, 18.9),  # sqrt(100) - 1 + 9.9
    ],
)
def test_by_hand_and_back(x, eps, expected):
    found = rescale(torch.tensor(x, dtype=torch.float64), eps)
    assert found.item() == pytest.approx(expected)
    assert unrescale(torch.tensor(expected, dtype=torch.float64), eps).item() == pytest.approx(x)


def test_the_inverse_holds_in_float32_over_many_orders():
    x = torch.cat([sign * torch.logspace(-3, 6, 500) for sign in (1.0, -1.0)])
    torch.testing.assert_close(unrescale(rescale(x)), x, rtol=2e-5, atol=2e-6)
