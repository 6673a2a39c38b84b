import copy

import pytest
import torch

from argosy.net import RunningStatistics, ScaledLinear


def layer(scaling):
    torch.manual_seed(0)
    return ScaledLinear(3, 1, scaling)


def test_before_the_first_returns_it_is_a_plain_layer():
    x = torch.randn(4, 3)
    for scaling in ("std", "popart"):
        head = layer(scaling)
        torch.testing.assert_close(head(x), x @ head.weight + head.bias)


def test_outputs_are_in_units_of_reward():
    head, x = layer("std"), torch.randn(4, 3)
    plain = head(x)
    head.take_in(torch.tensor([[1.0, 5.0], [3.0, 7.0]]))  # mean 4, deviation sqrt(5)
    assert head.std.item() == pytest.approx(5**0.5)
    torch.testing.assert_close(head(x), 5**0.5 * plain)  # not centred, and grown
    assert head.scaled(torch.tensor([5.0])).item() == pytest.approx(5**0.5)


def test_popart_keeps_outputs_and_centres_returns():
    head, x = layer("popart"), torch.randn(4, 3)
    for returns in ([1.0, 5.0, 3.0, 7.0], [-900.0, 400.0]):
        before = head(x)
        head.take_in(torch.tensor(returns))
        torch.testing.assert_close(head(x), before, rtol=1e-4, atol=1e-4)
    seen = torch.tensor([1.0, 5.0, 3.0, 7.0, -900.0, 400.0])
    assert (head.mean.item(), head.std.item()) == pytest.approx((seen.mean().item(), seen.std(correction=0).item()))
    torch.testing.assert_close(head.scaled(seen), (seen - seen.mean()) / seen.std(correction=0))
    torch.testing.assert_close(head.scaled(head(x)), x @ head.weight + head.bias, rtol=1e-4, atol=1e-4)


def test_equal_returns_leave_a_scale_to_divide_by():
    head = layer("std")
    head.take_in(torch.full((9,), 3.0))
    assert head.std.item() == pytest.approx(1e-4)


def test_copies_belong_to_no_group_of_trainers():
    class Group:
        def sum(self, array):
            return 2 * array

        def __deepcopy__(self, memo):
            raise TypeError("a connection")

    own = RunningStatistics(())
    own.pool = Group().sum
    for one, count in ((copy.deepcopy(own), 2), (own, 4)):
        one.take_in(torch.tensor([1.0, 3.0]))
        one.merge()
        assert one.count == count


def test_the_statistics_are_saved_with_the_layer():
    head, other = layer("popart"), layer("popart")
    head.take_in(torch.tensor([10.0, 30.0]))
    other.load_state_dict(head.state_dict())
    x = torch.randn(2, 3)
    assert torch.equal(head(x), other(x))
    assert other.mean.item() == 20.0


@pytest.mark.parametrize("value", [float("inf"), float("nan"), 3e38])
def test_returns_that_no_loss_survives_do_not_stay(value):
    head, x = layer("popart"), torch.randn(2, 3)
    head.take_in(torch.tensor([10.0, 30.0]))
    before = head(x)
    head.take_in(torch.tensor([value, 1.0]))
    assert torch.equal(head(x), before)
    assert (head.mean.item(), head.std.item()) == (20.0, 10.0)
