import pytest
import torch
from torch import nn

from argosy.errors import ConfigError
from argosy.net import MLP, EnsembleMLP, Linear, NetConfig
from argosy.net.backbone import ACTIVATIONS, FEW_OUTPUTS, Tanh
from argosy.net.ensemble import EnsembleLinear


def test_mlp_has_an_activation_after_each_hidden_layer_only():
    net = MLP(3, (5, 4), 2, "tanh")
    assert [type(layer).__name__ for layer in net] == ["Linear", "Tanh", "Linear", "Tanh", "Linear"]
    assert net(torch.zeros(7, 6, 3)).shape == (7, 6, 2)
    assert net.out_features == 2
    assert MLP(3, (5, 4)).out_features == 4
    assert MLP(3, ()).out_features == 3


def test_ensemble_members_compute_what_single_layers_would():
    torch.manual_seed(0)
    layer = EnsembleLinear(3, 4, 2)
    x = torch.randn(5, 4)
    out = layer(x)
    for k in range(3):
        torch.testing.assert_close(out[k], x @ layer.weight[k] + layer.bias[k, 0])
    torch.testing.assert_close(layer(x.expand(3, 5, 4)), out)


def test_ensemble_members_start_different_and_within_the_bounds_of_a_linear_layer():
    torch.manual_seed(0)
    layer = EnsembleLinear(2, 16, 8)
    assert not torch.equal(layer.weight[0], layer.weight[1])
    assert layer.weight.abs().max() <= 0.25
    assert layer.weight.abs().max() > 0.2


def test_ensemble_members_learn_independently():
    net = EnsembleMLP(2, 3, (4,), 1)
    net(torch.randn(6, 3))[0].sum().backward()
    for parameter in net.parameters():
        assert parameter.grad[0].abs().sum() > 0
        assert parameter.grad[1].abs().sum() == 0


@pytest.mark.parametrize("outputs", [1, 4, FEW_OUTPUTS, FEW_OUTPUTS + 1])
def test_linear_is_that_of_torch_lying_the_other_way(outputs):
    torch.manual_seed(3)
    ours = Linear(5, outputs)
    torch.manual_seed(3)
    theirs = nn.Linear(5, outputs)
    assert torch.equal(ours.weight.t(), theirs.weight)
    assert torch.equal(ours.bias, theirs.bias)
    in_memory = ours.weight.t() if 1 < outputs <= FEW_OUTPUTS else ours.weight
    assert in_memory.is_contiguous()
    for lead in ((), (7,), (2, 3)):
        x = torch.randn(*lead, 5)
        torch.testing.assert_close(ours(x), theirs(x))


def test_a_layer_may_be_parametrised():
    layer, x = Linear(3, 2), torch.randn(4, 3)
    before = layer(x)
    torch.nn.utils.parametrizations.weight_norm(layer)
    torch.testing.assert_close(layer(x), before)
    layer.parametrizations.weight.original0.data.zero_()  # the norms
    torch.testing.assert_close(layer(x), layer.bias.expand(4, 2))


@pytest.mark.parametrize("count", [10, 4096, 70_000])
def test_tanh_is_that_of_torch(count):
    x = torch.linspace(-9, 9, count).reshape(-1, 2).requires_grad_()
    y = Tanh()(x)
    torch.testing.assert_close(y, torch.tanh(x), rtol=2e-7, atol=1e-7)
    weight = torch.rand_like(x)
    (ours,) = torch.autograd.grad((weight * y).sum(), x, create_graph=True)
    (theirs,) = torch.autograd.grad((weight * torch.tanh(x)).sum(), x, create_graph=True)
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)
    second, expected = (torch.autograd.grad(first.sum(), x)[0] for first in (ours, theirs))
    torch.testing.assert_close(second, expected, rtol=1e-6, atol=1e-6)


def test_every_activation_has_its_module():
    for name, activation in ACTIVATIONS.items():
        NetConfig(activation=name)
        assert activation()(torch.zeros(3)).shape == (3,)
    with pytest.raises(ConfigError, match=", ".join(f"'{name}'" for name in ACTIVATIONS)):
        NetConfig(activation="sine")
