import copy

import pytest
import torch
from torch import nn

from argosy.algorithm import OptimConfig
from argosy.errors import DataError


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))


@pytest.mark.parametrize("max_grad_norm", [None, 0.05, 100.0])
def test_is_torchs_adam_with_clipping(max_grad_norm):
    ours, theirs = network(), network()
    optim = OptimConfig(lr=0.01, eps=1e-5, max_grad_norm=max_grad_norm).build(ours)
    reference = torch.optim.Adam(theirs.parameters(), lr=0.01, eps=1e-5)
    for _ in range(20):
        x = torch.randn(16, 3)
        norm = optim.step(ours(x).square().mean())
        reference.zero_grad()
        theirs(x).square().mean().backward()
        if max_grad_norm is None:
            assert norm is None
        else:
            torch.testing.assert_close(norm, nn.utils.clip_grad_norm_(theirs.parameters(), max_grad_norm))
        reference.step()
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)


def test_takes_gradients_for_its_own_parameters_alone():
    net, other = network(), network()
    OptimConfig(lr=0.01).build(net).step((net(torch.ones(1, 3)) * other(torch.ones(1, 3))).sum())
    assert all(parameter.grad is None for parameter in other.parameters())


@pytest.mark.parametrize("max_grad_norm", [None, 1.0])
@pytest.mark.parametrize("factor", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite_changes_nothing(max_grad_norm, factor):
    net = network()
    optim = OptimConfig(lr=0.01, max_grad_norm=max_grad_norm).build(net)
    optim.step(net(torch.ones(1, 3)).sum())
    before, state = copy.deepcopy(net.state_dict()), copy.deepcopy(optim.state_dict())
    with pytest.raises(DataError, match=r"the loss is -?(nan|inf).*no parameter has changed"):
        optim.step(factor * net(torch.ones(1, 3)).sum())
    assert all(torch.equal(before[key], value) for key, value in net.state_dict().items())
    after = optim.state_dict()
    assert torch.equal(state["steps"], after["steps"])
    assert all(torch.equal(a, b) for a, b in zip(state["exp_avgs"], after["exp_avgs"], strict=True))


def test_a_finite_loss_with_an_infinite_gradient_is_seen_where_the_norm_is_taken():
    net = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(net.weight)
    optim = OptimConfig(lr=0.01, max_grad_norm=1.0).build(net)
    with pytest.raises(DataError, match=r"loss is 0\.0 and the norm of its gradient inf"):
        optim.step(net(torch.ones(1, 1)).sqrt().sum())
    assert net.weight.item() == 0.0


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu_the_kernel_skips_the_step():
    net = network().cuda()
    optim = OptimConfig(lr=0.01, max_grad_norm=1.0).build(net)
    before = copy.deepcopy(net.state_dict())
    optim.step(float("nan") * net(torch.ones(1, 3, device="cuda")).sum())
    assert all(torch.equal(before[key], value) for key, value in net.state_dict().items())
    optim.step(net(torch.ones(1, 3, device="cuda")).sum())
    assert optim.steps.item() == 1.0


def test_learning_rate_falls_from_the_configured_one():
    falling = OptimConfig(lr=0.01, lr_schedule="linear").build(network())
    constant = OptimConfig(lr=0.01).build(network())
    for optim in (falling, constant):
        optim.schedule(0.5)
        optim.schedule(0.75)
    assert (falling.lr, constant.lr) == (0.0025, 0.01)


def test_a_step_leaves_the_process_with_denormal_numbers():
    net, tiny = network(), 5e-324
    OptimConfig(lr=0.01).build(net).step(net(torch.ones(1, 3)).sum())
    assert tiny * 1.0 > 0.0
