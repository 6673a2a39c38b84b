import pytest
import torch

from argosy.ops import explained_variance, gae, values_next
from argosy.ops.returns import carried_back


def column(*values, dtype=torch.float32):
    return torch.tensor(values, dtype=dtype).unsqueeze(1)


def no(count):
    return torch.zeros(count, 1, dtype=torch.bool)


def flags(*values):
    return column(*values, dtype=torch.bool)


def test_three_steps_by_hand():
    # delta = [1 + 0.5*2 - 1, 2 + 0.5*3 - 2, 3 + 0.5*4 - 3] = [1, 1.5, 2]; decay = 0.5 * 0.5
    # adv[2] = 2, adv[1] = 1.5 + 0.25*2 = 2, adv[0] = 1 + 0.25*2 = 1.5
    adv, returns = gae(
        column(1, 2, 3), column(1, 2, 3), column(2, 3, 4), no(3), flags(False, False, True), gamma=0.5, gae_lambda=0.5
    )
    assert adv.flatten().tolist() == pytest.approx([1.5, 2.0, 2.0])
    assert returns.flatten().tolist() == pytest.approx([2.5, 4.0, 5.0])


def test_terminated_row_bootstraps_from_nothing_and_ends_the_sum():
    # delta = [1 + 0 - 10, 1 + 0.9*10 - 10] = [-9, 0]; row 0 ends its episode, so adv[0] = -9
    adv, _ = gae(
        column(1, 1), column(10, 10), column(99, 10), flags(True, False), flags(True, True), gamma=0.9, gae_lambda=1.0
    )
    assert adv.flatten().tolist() == pytest.approx([-9.0, 0.0])


def test_what_stands_at_a_terminated_row_does_not_matter_even_nan():
    adv, _ = gae(column(1.0), column(0.0), column(float("nan")), flags(True), flags(True), gamma=0.9, gae_lambda=0.9)
    assert adv.item() == 1.0


def test_truncated_row_bootstraps_and_ends_the_sum():
    # delta = [1 + 0.5*8 - 2, 1 + 0.5*4 - 6] = [3, -3]; row 0 is cut, so row 1's advantage stays out of it
    adv, returns = gae(column(1, 1), column(2, 6), column(8, 4), no(2), flags(True, True), gamma=0.5, gae_lambda=1.0)
    assert adv.flatten().tolist() == pytest.approx([3.0, -3.0])
    assert returns.flatten().tolist() == pytest.approx([5.0, 3.0])


def test_lambda_0_is_one_step_and_lambda_1_is_monte_carlo():
    rew, value = column(1, 2, 4), column(0.5, 0.25, 0.125)
    value_next = torch.cat((value[1:], column(8.0)))
    cut = flags(False, False, True)
    one_step, _ = gae(rew, value, value_next, no(3), cut, gamma=0.5, gae_lambda=0.0)
    assert torch.equal(one_step, rew + 0.5 * value_next - value)
    _, returns = gae(rew, value, value_next, no(3), cut, gamma=0.5, gae_lambda=1.0)
    assert returns.flatten().tolist() == pytest.approx([1 + 1 + 1 + 1, 2 + 2 + 2, 4 + 4])


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 9, 130])
def test_sums_are_carried_back_over_any_number_of_rows(count):
    torch.manual_seed(0)
    x, decay = torch.randn(count, 2), torch.rand(count, 2)
    expected, carry = [], torch.zeros(2)
    for t in reversed(range(count)):
        carry = x[t] + decay[t] * carry
        expected.insert(0, carry)
    torch.testing.assert_close(carried_back(x, decay), torch.stack(expected))


def test_envs_are_independent():
    torch.manual_seed(0)
    rew, value, value_next = torch.randn(3, 5, 4)
    terminated, cut = torch.rand(5, 4) < 0.3, torch.rand(5, 4) < 0.5
    cut |= terminated
    adv, _ = gae(rew, value, value_next, terminated, cut, 0.9, 0.8)
    for b in range(4):
        alone, _ = gae(*(x[:, b : b + 1] for x in (rew, value, value_next, terminated, cut)), 0.9, 0.8)
        torch.testing.assert_close(adv[:, b : b + 1], alone)


def test_takes_no_gradient():
    value = column(1.0).requires_grad_()
    adv, returns = gae(column(1.0), value, column(1.0), no(1), flags(True), 0.9, 0.9)
    assert not adv.requires_grad
    assert not returns.requires_grad


def test_values_of_successors_are_those_of_the_next_rows_but_at_cuts():
    asked = []

    def at_cuts(at):
        asked.append([index.tolist() for index in at])
        return torch.tensor([50.0, 60.0])

    terminated, cut = flags(False, True, False, False), flags(False, True, True, True)
    found = values_next(column(1, 2, 3, 4), terminated, cut, at_cuts).flatten().tolist()
    assert [found[i] for i in (0, 2, 3)] == [2.0, 50.0, 60.0]  # row 1 has no successor
    assert asked == [[[2, 3], [0, 0]]]


def test_nobody_is_asked_for_values_where_nothing_was_cut_off():
    value = column(1, 2)
    assert values_next(value, flags(False, True), flags(False, True), at_cuts=None)[0] == 2.0


def test_the_last_row_counts_as_cut():
    found = values_next(column(1, 2), flags(False, False), flags(False, False), lambda at: torch.tensor([7.0]))
    assert found.flatten().tolist() == [2.0, 7.0]


def test_explained_variance_of_the_rows_that_count():
    value, returns = torch.tensor([[0.0, 1.0], [9.0, 2.0]]), torch.tensor([[0.0, 2.0], [-50.0, 4.0]])
    mask = torch.tensor([[True, True], [False, True]])
    assert explained_variance(value, returns, mask).item() == pytest.approx(0.75)
