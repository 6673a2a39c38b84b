import pytest
import torch

from argosy.ops import gae, vtrace


def column(*values):
    return torch.tensor(values, dtype=torch.float32).unsqueeze(1)


def flags(*values):
    return torch.tensor(values).unsqueeze(1)


@pytest.mark.parametrize("says_so", [True, False])
def test_three_steps_by_hand(says_so):
    # ratios 2 (clipped to 1), 0.5, 1; gamma 0.5; row 1 goes on, row 2 is the last
    # delta = [1 * (1 + 0.5*2 - 1), 0.5 * (2 + 0.5*3 - 2), 3 + 0.5*4 - 3] = [1, 0.75, 2]
    # surprise[2] = 2; [1] = 0.75 + 0.5*0.5*2 = 1.25; [0] = 1 + 0.5*1*1.25 = 1.625
    found = vtrace(
        column(2, 0.5, 1).log(),
        column(1, 2, 3),
        column(1, 2, 3),
        column(2, 3, 4),
        flags(False, False, False),
        flags(False, False, says_so),  # the last row counts as cut
        0.5,
    )
    vs, adv = (x.flatten().tolist() for x in found)
    assert vs == pytest.approx([2.625, 3.25, 5.0])
    # adv[0] = 1 * (1 + 0.5*3.25 - 1), adv[1] = 0.5 * (2 + 0.5*5 - 2), adv[2] = 3 + 0.5*4 - 3
    assert adv == pytest.approx([1.625, 1.25, 2.0])


def test_clips_are_two():
    given = column(3.0).log(), column(1.0), column(0.0), column(0.0), flags(True), flags(True), 0.9
    for rho_clip, expected in ((1.0, 1.0), (2.0, 2.0), (9.0, 3.0)):
        vs, adv = vtrace(*given, rho_clip=rho_clip)
        assert (vs.item(), adv.item()) == pytest.approx((expected, expected))
    two = column(1.0, 1.0), column(0.0, 1.0), column(0.0, 0.0), column(0.0, 0.0), flags(False, True), flags(False, True)
    vs, _ = vtrace(column(2.0, 1.0).log(), *two[1:], 1.0, trace_clip=0.25)
    assert vs.flatten().tolist() == pytest.approx([0.25, 1.0])  # of the surprise of row 1 only a quarter comes back


def test_termination_bootstraps_from_nothing_and_truncation_from_the_successor():
    vs, adv = vtrace(
        column(1, 1, 1).log(),
        column(1, 1, 1),
        column(10, 20, 30),
        column(float("nan"), 8, 4),
        flags(True, False, False),
        flags(True, True, True),
        0.5,
    )
    assert vs.flatten().tolist() == pytest.approx([1.0, 5.0, 3.0])
    assert adv.flatten().tolist() == pytest.approx([-9.0, -15.0, -27.0])


@pytest.mark.parametrize("trace_lambda", [0.0, 0.7, 1.0])
def test_of_the_same_policy_targets_are_lambda_returns(trace_lambda):
    torch.manual_seed(0)
    rew, value, value_next = torch.randn(3, 6, 4)
    terminated, cut = torch.rand(6, 4) < 0.2, torch.rand(6, 4) < 0.3
    cut |= terminated
    cut[-1] = True
    value_next[:-1] = torch.where(cut[:-1], value_next[:-1], value[1:])
    given = rew, value, value_next, terminated, cut
    vs, adv = vtrace(torch.zeros(6, 4), *given, 0.9, trace_lambda=trace_lambda)
    expected, returns = gae(*given, 0.9, trace_lambda)
    torch.testing.assert_close(vs, returns)
    if trace_lambda == 1.0:
        torch.testing.assert_close(adv, expected)


def test_actions_that_the_policy_would_not_take_count_for_nothing():
    given = column(5.0, 1.0), column(2.0, 0.5), column(0.5, 0.0), flags(False, True), flags(False, True)
    vs, adv = vtrace(column(-80.0, 0.0), *given, 0.9)
    assert (vs[0].item(), adv[0].item()) == pytest.approx((2.0, 0.0))


def test_the_fixed_point_is_the_value_of_the_policy_that_learns():
    """One state, two actions worth 0 and 1 that end the episode; acted on evenly, learned for 20 % and 80 %."""
    act = torch.tensor([0.0, 1.0] * 50)
    ratio = torch.where(act == 1.0, 0.8 / 0.5, 0.2 / 0.5)
    ends, value = torch.ones(1, 100, dtype=torch.bool), torch.full((1, 100), 0.8)
    given = act[None], value, torch.zeros(1, 100), ends, ends, 0.9
    vs, _ = vtrace(ratio.log()[None], *given, rho_clip=2.0)
    assert vs.mean().item() == pytest.approx(0.8)  # where the clip does not bind, the right value stays
    vs, _ = vtrace(torch.zeros(1, 100), *given)
    assert vs.mean().item() == pytest.approx(0.5)  # without correction it would be that of who acted


def test_takes_no_gradient():
    log_ratio = column(0.0).requires_grad_()
    vs, adv = vtrace(log_ratio, column(1.0), column(1.0), column(1.0), flags(False), flags(True), 0.9)
    assert not vs.requires_grad
    assert not adv.requires_grad
