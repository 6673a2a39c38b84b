import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.ops.categorical import categorical_projection

SUPPORT = torch.tensor([-1.0, 0.0, 1.0])


@pytest.mark.parametrize(
    ("atoms", "probs", "expected"),
    [
        ([-1.0, 0.0, 1.0], [0.2, 0.3, 0.5], [0.2, 0.3, 0.5]),  # where it is already
        ([0.25], [1.0], [0.0, 0.75, 0.25]),  # a quarter of the way from 0 to 1
        ([-0.5, 0.5], [0.4, 0.6], [0.2, 0.5, 0.3]),  # each half to either side
        ([-7.0, 3.0], [0.3, 0.7], [0.3, 0.0, 0.7]),  # beyond the ends
        ([1.0, 1.0, 1.0], [0.5, 0.25, 0.25], [0.0, 0.0, 1.0]),  # several at one place
    ],
)
def test_by_hand(atoms, probs, expected):
    found = categorical_projection(torch.tensor(probs), torch.tensor(atoms), SUPPORT)
    assert found.tolist() == pytest.approx(expected)


def test_steps_that_are_not_one_and_a_support_that_does_not_start_at_zero():
    # Step 5: reward 2, discount 0.5, mass at 10 and 20 -> 7 and 12; each 2/5 of the way to the next
    support = torch.tensor([5.0, 10.0, 15.0, 20.0])
    found = categorical_projection(
        torch.tensor([0.0, 0.5, 0.0, 0.5]), 2.0 + 0.5 * torch.tensor([5.0, 10.0, 15.0, 20.0]), support
    )
    assert found.tolist() == pytest.approx([0.3, 0.2 + 0.3, 0.2, 0.0])


@settings(deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 60), st.integers(1, 20))
def test_mass_is_kept_and_so_is_the_mean_within_the_support(seed, count, sources):
    rng = np.random.default_rng(seed)
    probs = torch.from_numpy(rng.dirichlet(np.ones(sources), (2, 3)))
    atoms = torch.from_numpy(rng.uniform(-2.0, 3.0, (2, 3, sources)))
    support = torch.linspace(-2.0, 3.0, count, dtype=torch.float64)
    found = categorical_projection(probs, atoms, support)
    assert found.shape == (2, 3, count)
    assert (found >= 0).all()
    torch.testing.assert_close(found.sum(-1), probs.sum(-1))
    torch.testing.assert_close(found @ support, (probs * atoms).sum(-1))


@pytest.mark.parametrize(("low", "high", "count"), [(0.0, 30.0, 51), (-3.0, 3.0, 51), (0.0, 63.0, 101)])
def test_no_mass_is_negative_where_rounding_goes_beyond_the_end(low, high, count):
    support = torch.linspace(low, high, count)
    found = categorical_projection(torch.ones(1), torch.tensor([high + 1.0]), support)
    assert found.min() >= 0.0
    assert found[-1].item() == pytest.approx(1.0, abs=1e-5)
