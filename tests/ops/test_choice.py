"""What belongs to chosen actions: picked by hand, with its gradient."""

import numpy as np
import pytest
import torch

from argosy.ops.choice import of_action


@pytest.mark.parametrize("lead", [(), (3,), (2, 3)])
@pytest.mark.parametrize("is_view", [False, True])
def test_rows_of_actions_and_their_gradient(lead, is_view):
    values = torch.randn(*lead, 5, 4).transpose(-1, -2) if is_view else torch.randn(*lead, 4, 5)
    values, act = values.requires_grad_(), torch.randint(4, lead)
    chosen = of_action(values, act)
    expected = torch.zeros_like(values)
    for place in np.ndindex(lead):
        where = (*place, int(act[place]))
        assert chosen[place].tolist() == values[where].tolist()
        expected[where] = 2.0
    (2 * chosen).sum().backward()
    assert values.grad.tolist() == expected.tolist()
