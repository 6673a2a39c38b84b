import copy

import pytest
import torch

from argosy.net.ensemble import EnsembleLinear, EnsembleMLP
from argosy.net.regularise import Dropout, EnsembleLayerNorm, add_dropout_and_layer_norm, draw_from


def test_dropout_keeps_the_mean_and_leaves_out_its_share():
    layer = Dropout(0.2)
    layer.generator = torch.Generator().manual_seed(0)
    out = layer(torch.ones(100, 200))
    assert out.unique().tolist() == pytest.approx([0.0, 1.25])
    assert (out == 0).float().mean().item() == pytest.approx(0.2, abs=0.01)
    assert out.mean().item() == pytest.approx(1.0, abs=0.01)


def test_dropout_does_not_depend_on_the_mode_of_modules_and_draws_from_its_generator_alone():
    layer, x = Dropout(0.5).eval(), torch.ones(50)
    layer.generator = torch.Generator().manual_seed(1)
    before = torch.get_rng_state()
    first = layer(x)
    assert torch.equal(torch.get_rng_state(), before)
    assert (first == 0).any()
    layer.generator.manual_seed(1)
    assert torch.equal(layer(x), first)


def test_layer_norm_of_members_by_hand():
    layer = EnsembleLayerNorm(2, 2)
    with torch.no_grad():
        layer.weight[1], layer.bias[1] = 3.0, 1.0
    out = layer(torch.tensor([[[1.0, 3.0]], [[-5.0, 5.0]]]))
    assert out.flatten().tolist() == pytest.approx([-1.0, 1.0, -2.0, 4.0], abs=1e-4)


def test_layers_are_put_between_linear_ones_and_their_activations():
    layers = EnsembleMLP(3, 4, (8, 6), 1, "tanh")
    linear = [layer for layer in layers if isinstance(layer, EnsembleLinear)]
    add_dropout_and_layer_norm(layers, 0.1)
    hidden = ["EnsembleLinear", "Dropout", "EnsembleLayerNorm", "Tanh"]
    assert [type(layer).__name__ for layer in layers] == [*hidden, *hidden, "EnsembleLinear"]
    assert [layer for layer in layers if isinstance(layer, EnsembleLinear)] == linear
    assert layers[6].weight.shape == (3, 1, 6)
    copied = copy.deepcopy(layers)
    generator = torch.Generator()
    draw_from(generator, copied)
    assert [layer.generator for layer in (copied[1], copied[5], layers[1])] == [generator, generator, None]
    assert layers(torch.randn(5, 4)).shape == (3, 5, 1)
