import copy
import pickle

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from argosy.algorithm.optim import Adam, OptimConfig
from argosy.data import Batch
from argosy.errors import ConfigError
from argosy.net import MLP, Backbone, EnsembleMLP, Linear, Memory, NetConfig
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


def nothing(backbone, sample):
    pass


def an_observation(backbone, sample):
    sample.obs.speed += 1.0


def other_observations(backbone, sample):
    sample.obs = Batch(frame=sample.obs.frame, speed=sample.obs.speed + 1.0)


def a_stored_state(backbone, sample):
    sample.policy.state += 1.0


def where_an_episode_begins(backbone, sample):
    sample.on_reset.logical_not_()


def a_step_of_the_optimiser(backbone, sample):
    step(backbone.memory)


def a_step_of_the_optimiser_of_the_encoder(backbone, sample):
    step(backbone.encoder)


def step(module):
    parameters = list(module.parameters())
    Adam(OptimConfig(), parameters).step(sum(p.sum() for p in parameters))


@pytest.mark.parametrize(
    "change",
    [
        nothing,
        an_observation,
        other_observations,
        a_stored_state,
        where_an_episode_begins,
        a_step_of_the_optimiser,
        a_step_of_the_optimiser_of_the_encoder,
    ],
)
def test_the_memory_runs_over_a_sample_once_while_nothing_changes(change, monkeypatch):
    torch.manual_seed(0)
    space = spaces.Dict({"frame": spaces.Box(0, 255, (1, 10, 10), np.uint8), "speed": spaces.Box(-1, 1, (2,))})
    backbone = Backbone(space, NetConfig(kind="cnn", hidden_sizes=(4,), memory="lstm", memory_size=3, cnn_features=4))
    backbone.columns = slice(0, 6)
    obs, obs_next = (
        Batch(frame=torch.randint(255, (5, 4, 1, 10, 10), dtype=torch.uint8), speed=torch.randn(5, 4, 2))
        for _ in range(2)
    )
    on_reset = torch.zeros(5, 4, dtype=torch.bool)
    sample = Batch(obs=obs, obs_next=obs_next, on_reset=on_reset, policy=Batch(state=torch.randn(5, 4, 6)))
    runs, forward = [], Memory.forward
    monkeypatch.setattr(Memory, "forward", lambda self, *inputs: runs.append(1) or forward(self, *inputs))

    assert backbone.features(sample).requires_grad
    change(backbone, sample)
    with torch.no_grad():
        later = backbone.features_next(sample)
        assert len(runs) == (1 if change is nothing else 2)
        assert torch.equal(later, copy.deepcopy(backbone).features_next(sample))  # a copy knows nothing
    assert len(runs) == (2 if change is nothing else 3)
    assert backbone.features(sample).requires_grad
    assert len(pickle.dumps(backbone)) < 60_000
