import copy

import numpy as np
import pytest
import torch
from gymnasium import spaces

from argosy.net import MLP, NetConfig
from argosy.net.batch_norm import EPS, BatchRenorm, add_batch_norm, batch_statistics
from argosy.net.ensemble import EnsembleMLP
from argosy.policy import SquashedGaussianPolicy


def all_rows(x):
    return torch.ones(x.shape[:-1], dtype=torch.bool)


def test_running_statistics_are_used_unless_a_block_says_otherwise():
    layer = BatchRenorm(1).train()
    layer.mean.fill_(2.0)
    layer.var.fill_(4.0 - EPS)
    with torch.no_grad():
        layer.weight.fill_(3.0)
        layer.bias.fill_(1.0)
    x = torch.tensor([[2.0], [6.0], [-2.0]])
    assert layer(x).flatten().tolist() == pytest.approx([1.0, 7.0, -5.0])
    assert layer.mean.item() == 2.0
    with batch_statistics(layer, all_rows(x)):
        # mean 2, variance 32 / 3
        assert layer(x)[1].item() == pytest.approx(1.0 + 3.0 * 4.0 / (32 / 3 + EPS) ** 0.5, rel=1e-6)
    assert layer.mean.item() == pytest.approx(2.0)
    assert layer.var.item() == pytest.approx(0.99 * (4.0 - EPS) + 0.01 * 32 / 3)
    assert layer.batches.item() == 1
    assert layer.shares is None


def test_it_is_torchs_batch_norm_before_the_warm_up_ends():
    torch.manual_seed(0)
    ours, theirs = BatchRenorm(5, momentum=0.9), torch.nn.BatchNorm1d(5, eps=EPS, momentum=0.1)
    for _ in range(3):
        x = torch.randn(32, 5, requires_grad=True) * 3.0 + 1.0
        with batch_statistics(ours, all_rows(x)):
            found = ours(x)
        expected = theirs(x)
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
        gradients = [torch.autograd.grad((y**3).sum(), x, retain_graph=True)[0] for y in (found, expected)]
        torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(ours.mean[0], theirs.running_mean)


def test_after_the_warm_up_it_is_normalised_by_running_statistics_within_bounds():
    layer = BatchRenorm(3, warmup=0)
    layer.mean.copy_(torch.tensor([[0.5, 0.0, 100.0]]))
    layer.var.copy_(torch.tensor([[1.0, 1e4, 1.0]]))
    running = copy.deepcopy(layer)
    x = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))
    with batch_statistics(layer, all_rows(x)):
        y = layer(x)
    torch.testing.assert_close(y[:, 0], running(x)[:, 0], rtol=1e-4, atol=1e-4)  # r and d are within their bounds
    standardised = (x - x.mean(0)) / (x.var(0, correction=0) + EPS).sqrt()
    r = 1.0 / 3.0  # the deviation 1 is far below the running one of 100
    torch.testing.assert_close(y[:, 1], standardised[:, 1] * r + (x[:, 1].mean() / 100.0), rtol=1e-3, atol=1e-3)
    assert y[:, 2].mean().item() == pytest.approx(-5.0, abs=1e-3)  # the mean is 100 deviations off


def test_gradients_flow_through_the_batchs_statistics_and_not_through_the_correction():
    layer = BatchRenorm(1, warmup=0)
    x = torch.randn(16, 1, requires_grad=True)
    with batch_statistics(layer, all_rows(x)):
        y = layer(x)
    (gradient,) = torch.autograd.grad((y.squeeze() * torch.arange(16.0)).sum(), x)
    assert gradient.sum().item() == pytest.approx(0.0, abs=1e-4)  # a shift of the whole batch changes nothing


def test_only_rows_that_count_are_in_the_statistics():
    torch.manual_seed(0)
    x, counts = torch.randn(4, 6, 3), torch.rand(4, 6) < 0.5
    some, alone = BatchRenorm(3), BatchRenorm(3)
    with batch_statistics(some, counts):
        found = some(x)
    with batch_statistics(alone, all_rows(x[counts])):
        expected = alone(x[counts])
    torch.testing.assert_close(found[counts], expected)
    torch.testing.assert_close(some.var, alone.var)


def test_members_of_an_ensemble_have_statistics_of_their_own():
    layer, x = BatchRenorm(2, size=3), torch.randn(3, 50, 2) * torch.tensor([1.0, 5.0, 9.0]).reshape(3, 1, 1)
    with batch_statistics(layer, all_rows(x[0])):
        y = layer(x)
    torch.testing.assert_close(y.std(dim=1, correction=0), torch.ones(3, 2), rtol=1e-2, atol=1e-2)
    assert layer.var.shape == (3, 1, 2)


def test_layers_are_put_before_and_after_hidden_ones():
    mlp = add_batch_norm(MLP(4, (8, 6), activation="tanh"), 5)
    hidden = ["Linear", "Tanh", "BatchRenorm"]
    assert [type(layer).__name__ for layer in mlp] == ["BatchRenorm", *hidden, *hidden]
    assert [tuple(mlp[at].weight.shape) for at in (0, 3, 6)] == [(1, 4), (1, 8), (1, 6)]
    ensemble = add_batch_norm(EnsembleMLP(2, 4, (8,), 1), 5)
    hidden = ["EnsembleLinear", "ReLU", "BatchRenorm"]
    assert [type(layer).__name__ for layer in ensemble] == ["BatchRenorm", *hidden, "EnsembleLinear"]
    assert [tuple(ensemble[at].weight.shape) for at in (0, 3)] == [(1, 4), (2, 1, 8)]
    assert ensemble[3].warmup == 5
    assert list(add_batch_norm(MLP(4, ()), 5)) == []


def test_what_was_learned_is_shipped_with_a_policy():
    def policy():
        box = spaces.Box(-1, 1, (3,), np.float32)
        return add_batch_norm(SquashedGaussianPolicy(box, box, NetConfig(hidden_sizes=(8,))), 5)

    first, second, x = policy(), policy(), torch.randn(20, 3) + 4.0
    with batch_statistics(first, all_rows(x)):
        first.actor.trunk(x)
    second.load_checkpoint(first.get_checkpoint())
    assert second.actor.trunk[0].mean.abs().min() > 0.0
    assert torch.equal(first.actor.trunk(x), second.actor.trunk(x))
