import copy
import dataclasses
import math
import re

import pytest
import torch
from torch import nn

from argosy.algorithm import OptimConfig
from argosy.errors import ConfigError, DataError
from argosy.trainer.statefile import read_state, write_state


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))


KINDS = {
    "adam": (OptimConfig(eps=1e-5), lambda p: torch.optim.Adam(p, lr=0.01, eps=1e-5)),
    "adam with decay": (
        OptimConfig(betas=(0.8, 0.95), weight_decay=0.1),
        lambda p: torch.optim.Adam(p, lr=0.01, betas=(0.8, 0.95), weight_decay=0.1),
    ),
    "adamw": (
        OptimConfig(kind="adamw", betas=(0.8, 0.95), weight_decay=0.1),
        lambda p: torch.optim.AdamW(p, lr=0.01, betas=(0.8, 0.95), weight_decay=0.1),
    ),
    "rmsprop": (
        OptimConfig(kind="rmsprop", eps=1e-5, weight_decay=0.1),
        lambda p: torch.optim.RMSprop(p, lr=0.01, eps=1e-5, weight_decay=0.1),
    ),
    "rmsprop with momentum": (
        OptimConfig(kind="rmsprop", args={"alpha": 0.9, "momentum": 0.5}),
        lambda p: torch.optim.RMSprop(p, lr=0.01, alpha=0.9, momentum=0.5),
    ),
    "sgd": (OptimConfig(kind="sgd", weight_decay=0.1), lambda p: torch.optim.SGD(p, lr=0.01, weight_decay=0.1)),
    "sgd with momentum": (
        OptimConfig(kind="sgd", args={"momentum": 0.9, "nesterov": True}),
        lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, nesterov=True),
    ),
    "adagrad": (
        OptimConfig(kind="torch.optim:Adagrad", eps=1e-5, args={"lr_decay": 0.1}),
        lambda p: torch.optim.Adagrad(p, lr=0.01, eps=1e-5, lr_decay=0.1),
    ),
}


def optimiser(kind, net, **settings):
    return dataclasses.replace(KINDS[kind][0], lr=0.01, **settings).build(net)


@pytest.mark.parametrize("max_grad_norm", [None, 0.05, 100.0])
@pytest.mark.parametrize("kind", KINDS)
def test_is_that_of_torch_with_clipping(kind, max_grad_norm):
    ours, theirs = network(), network()
    optim, reference = optimiser(kind, ours, max_grad_norm=max_grad_norm), KINDS[kind][1](theirs.parameters())
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
    assert all(parameter.grad is None for parameter in ours.parameters())
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_the_learning_rate_in_force_is_that_of_the_step(kind):
    ours, theirs = network(), network()
    optim, reference = optimiser(kind, ours, lr_schedule="linear"), KINDS[kind][1](theirs.parameters())
    x = torch.randn(16, 3)
    for progress in (0.0, 0.5, 0.75):
        optim.schedule(progress)
        reference.param_groups[0]["lr"] = 0.01 * (1 - progress)
        optim.step(ours(x).square().mean())
        reference.zero_grad()
        theirs(x).square().mean().backward()
        reference.step()
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-5)
    before = [parameter.detach().clone() for parameter in ours.parameters()]
    optim.schedule(1.0)
    optim.step(ours(x).square().mean())
    assert all(torch.equal(a, b) for a, b in zip(before, ours.parameters(), strict=True))


@pytest.mark.parametrize("through_a_file", [False, True])
@pytest.mark.parametrize("steps", [0, 5])
@pytest.mark.parametrize("kind", KINDS)
def test_resumes_exactly(kind, steps, through_a_file, tmp_path):
    nets = [network(), network()]
    first, second = (optimiser(kind, net, max_grad_norm=0.1, lr_schedule="linear") for net in nets)

    def step(net, optim, i):
        optim.schedule(i / 20)
        x = torch.randn(16, 3, generator=torch.Generator().manual_seed(i))
        optim.step(net(x).square().mean())

    for i in range(steps):
        step(nets[0], first, i)
    step(nets[1], second, 99)  # what it did before is forgotten
    state = dict(first.state_dict())
    if through_a_file:
        write_state(tmp_path / "state", "optim", state)
        state = read_state(tmp_path / "state", "optim")
    second.load_state_dict(state)
    nets[1].load_state_dict(nets[0].state_dict())
    assert second.lr == first.lr
    for i in range(steps, steps + 5):
        step(nets[1], second, i)  # the two share nothing: the second's steps do not move the first's slots
    for i in range(steps, steps + 5):
        step(nets[0], first, i)
    for a, b in zip(nets[0].parameters(), nets[1].parameters(), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_counts_as_a_write_so_that_a_gradient_of_before_is_refused(kind):
    layer = nn.Linear(2, 2)
    optim = optimiser(kind, layer)
    loss = layer(layer(torch.ones(3, 2))).sum()
    optim.step(layer(torch.ones(3, 2)).sum())
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_takes_gradients_for_its_own_parameters_alone():
    net, other = network(), network()
    OptimConfig(lr=0.01).build(net).step((net(torch.ones(1, 3)) * other(torch.ones(1, 3))).sum())
    assert all(parameter.grad is None for parameter in other.parameters())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("max_grad_norm", [None, 1.0])
@pytest.mark.parametrize("factor", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite_changes_nothing(max_grad_norm, factor, kind):
    net = network()
    optim = optimiser(kind, net, max_grad_norm=max_grad_norm)
    optim.step(net(torch.ones(1, 3)).sum())
    before, state = copy.deepcopy(net.state_dict()), leaves(copy.deepcopy(optim.state_dict()))
    with pytest.raises(DataError, match=r"the loss is -?(nan|inf).*this step has changed nothing"):
        optim.step(factor * net(torch.ones(1, 3)).sum())
    assert all(torch.equal(before[key], value) for key, value in net.state_dict().items())
    after = leaves(optim.state_dict())
    assert len(state) == len(after)
    assert all(torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b for a, b in zip(state, after, strict=True))


def leaves(state):
    if isinstance(state, dict | list):
        return [leaf for part in (state.values() if isinstance(state, dict) else state) for leaf in leaves(part)]
    return [state]


def test_a_finite_loss_with_an_infinite_gradient_is_seen_where_the_norm_is_taken():
    net = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(net.weight)
    optim = OptimConfig(lr=0.01, max_grad_norm=1.0).build(net)
    with pytest.raises(DataError, match=r"loss is 0\.0 and the norm of its gradient inf"):
        optim.step(net(torch.ones(1, 1)).sqrt().sum())
    assert net.weight.item() == 0.0


class NaNGradient(torch.autograd.Function):
    """The identity, with a gradient that is not a number."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad * torch.nan


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("max_grad_norm", [None, 1.0])
def test_a_finite_loss_with_a_gradient_that_is_not_a_number_changes_nothing(max_grad_norm, kind):
    net = network()
    optim = optimiser(kind, net, max_grad_norm=max_grad_norm)
    optim.step(net(torch.ones(1, 3)).sum())
    before, state = copy.deepcopy(net.state_dict()), leaves(copy.deepcopy(optim.state_dict()))
    with pytest.raises(DataError, match=r"the loss is -?\d.* and .*gradient.*; this step has changed nothing"):
        optim.step(NaNGradient.apply(net(torch.ones(1, 3))).sum())
    assert all(torch.equal(before[key], value) for key, value in net.state_dict().items())
    after = leaves(optim.state_dict())
    assert all(torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b for a, b in zip(state, after, strict=True))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("max_grad_norm", [None, 0.05])
def test_parameters_of_float64(max_grad_norm, kind):
    ours, theirs = network().double(), network().double()
    optim, reference = optimiser(kind, ours, max_grad_norm=max_grad_norm), KINDS[kind][1](theirs.parameters())
    for _ in range(5):
        x = torch.randn(16, 3, dtype=torch.float64)
        optim.step(ours(x).square().mean())
        reference.zero_grad()
        theirs(x).square().mean().backward()
        if max_grad_norm is not None:
            nn.utils.clip_grad_norm_(theirs.parameters(), max_grad_norm)
        reference.step()
    assert 5e-324 * 1.0 > 0.0  # denormal numbers as before
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-5)  # torch clips by norm + 1e-6


def test_a_step_that_the_kernel_refuses_does_not_count(monkeypatch):
    def refuse(*args, **settings):
        raise RuntimeError("expected scalar type Float")

    monkeypatch.setattr("argosy.algorithm.optim.fused_adam_", refuse)
    net = network()
    optim = OptimConfig(max_grad_norm=1.0).build(net)
    with pytest.raises(RuntimeError, match="expected scalar type"):
        optim.step(net(torch.ones(1, 3)).sum())
    assert optim.steps.item() == 0.0
    assert 5e-324 * 1.0 > 0.0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("max_grad_norm", [None, 0.05])
def test_a_parameter_that_the_loss_does_not_use_has_gradient_0(max_grad_norm, kind):
    nets = [nn.ModuleList([network(), network()]) for _ in range(2)]
    first, second = (optimiser(kind, net, max_grad_norm=max_grad_norm) for net in nets)
    for i in range(6):  # the second part is used now and then: its moments go on
        x, used = torch.randn(16, 3), float(i % 2)
        parts = [net[0](x).square().mean() for net in nets]
        first.step(parts[0] + nets[0][1](x).square().mean() if used else parts[0])
        second.step(parts[1] + used * nets[1][1](x).square().mean())
    for a, b in zip(nets[0].parameters(), nets[1].parameters(), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_may_be_laid_out_in_another_way_than_their_parameters(kind):
    matrix = nn.Parameter(torch.ones(4, 3))
    optim, before = optimiser(kind, [matrix], lr_schedule="constant"), matrix.detach().clone()
    optim.step(matrix.sum())  # one number, spread over the shape
    moved = before - matrix.detach()
    assert (moved > 0).all()
    torch.testing.assert_close(moved, moved[:1, :1].expand(4, 3))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("max_grad_norm", [None, 1.0])
@pytest.mark.parametrize("kind", KINDS)
def test_on_a_gpu_a_step_with_a_gradient_that_is_not_a_number_is_skipped(kind, max_grad_norm):
    net = network().cuda()
    optim = optimiser(kind, net, max_grad_norm=max_grad_norm)
    before = copy.deepcopy(net.state_dict())
    optim.step(NaNGradient.apply(net(torch.ones(1, 3, device="cuda"))).sum())
    assert all(torch.equal(before[key], value) for key, value in net.state_dict().items())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("kind", KINDS)
def test_on_a_gpu_the_step_is_skipped(kind):
    net = network().cuda()
    optim = optimiser(kind, net, max_grad_norm=1.0)
    before = copy.deepcopy(net.state_dict())
    optim.step(float("nan") * net(torch.ones(1, 3, device="cuda")).sum())
    assert all(torch.equal(before[key], value) for key, value in net.state_dict().items())
    optim.step(net(torch.ones(1, 3, device="cuda")).sum())
    assert not any(torch.equal(before[key], value) for key, value in net.state_dict().items())
    if kind.startswith("adam"):
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


def test_parameters_may_be_given_by_themselves_and_frozen_ones_are_left_out():
    net, number = network(), nn.Parameter(torch.tensor(3.0))
    net[0].requires_grad_(False)
    assert len(OptimConfig().build(net).parameters) == 2
    OptimConfig(kind="sgd", lr=0.1).build([number]).step(number.square())
    assert number.item() == pytest.approx(3.0 - 0.1 * 6.0)


class Halving(torch.optim.Optimizer):
    """An optimiser of one's own: every step halves the parameters."""

    def __init__(self, params, lr, share=0.5):
        super().__init__(params, {"lr": lr})
        self.share = share

    def step(self):
        for parameter in self.param_groups[0]["params"]:
            parameter.mul_(self.share)


class Counting(Halving):
    """Counts its steps where optimisers keep settings."""

    def __init__(self, params, lr):
        super().__init__(params, lr)
        self.param_groups[0]["k"] = 0

    def step(self):
        self.param_groups[0]["k"] += 1
        self.share = 1.0 / self.param_groups[0]["k"]
        super().step()


def test_what_an_optimiser_keeps_beside_its_parameters_is_saved():
    number, other = (nn.Parameter(torch.tensor(8.0)) for _ in range(2))
    first, second = (OptimConfig(kind=f"{__name__}:Counting").build([one]) for one in (number, other))
    first.step(number * 1.0)
    second.load_state_dict(first.state_dict())
    second.step(other * 1.0)
    assert other.item() == 4.0


class NoOptimiser:
    def __init__(self, params, lr):
        pass

    def step(self):
        pass

    def zero_grad(self):
        pass


def test_a_class_of_ones_own_with_its_arguments():
    number = nn.Parameter(torch.tensor(8.0))
    OptimConfig(kind=f"{__name__}:Halving").build([number]).step(number * 1.0)
    assert number.item() == 4.0
    OptimConfig(kind=f"{__name__}:Halving", args={"share": 0.25}).build([number]).step(number * 1.0)
    assert number.item() == 1.0


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("lr", 0.0),
        ("lr", math.inf),
        ("eps", -1.0),
        ("max_grad_norm", 0.0),
        ("betas", (0.9, 1.0)),
        ("weight_decay", -0.1),
        ("lr_schedule", "cosine"),
    ],
)
def test_settings_are_checked(field, value):
    with pytest.raises(ConfigError, match=rf"OptimConfig\.{field} is {re.escape(repr(value))}; it must be"):
        OptimConfig(**{field: value})


@pytest.mark.parametrize("fused", [False, True])
def test_who_goes_by_the_versions_of_parameters_sees_a_step_of_torch_s(fused):
    number = nn.Parameter(torch.tensor(8.0))
    before = number._version
    OptimConfig(kind="torch.optim:Adam", args={"fused": fused}).build([number]).step(number.square())
    assert number._version > before


def test_wrong_kinds_and_arguments_are_refused():
    number = nn.Parameter(torch.tensor(8.0))
    with pytest.raises(ConfigError, match="sgd', which could not be made: Invalid momentum"):
        OptimConfig(kind="sgd", args={"momentum": -1.0}).build([number])
    with pytest.raises(ConfigError, match="LBFGS', which computes losses itself"):
        OptimConfig(kind="torch.optim:LBFGS").build([number])
    with pytest.raises(ConfigError, match="did you mean 'rmsprop'"):
        OptimConfig(kind="rmspop")
    with pytest.raises(ConfigError, match=r"OptimConfig\.args are \{'momentum': 0\.9\}, but adam takes none"):
        OptimConfig(args={"momentum": 0.9})
    with pytest.raises(ConfigError, match=r"OptimConfig\.kind is 'sgd', which could not be made: .*moment"):
        OptimConfig(kind="sgd", args={"moment": 0.9}).build(network())
    with pytest.raises(ConfigError, match=r"'torch\.nn:Linear' is the class .*, which has no step"):
        OptimConfig(kind="torch.nn:Linear").build(network())
    with pytest.raises(ConfigError, match=r"NoOptimiser', which is no torch\.optim\.Optimizer"):
        OptimConfig(kind=f"{__name__}:NoOptimiser").build(network())
