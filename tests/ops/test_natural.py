import pytest
import torch

from argosy.ops import conjugate_gradient, fisher_product, flat_gradient, move


def test_gradients_lie_one_after_the_other_and_are_0_where_nothing_depends():
    a, b, c = (torch.tensor(x, requires_grad=True) for x in ([1.0, 2.0], [[3.0]], [4.0]))
    assert flat_gradient((a * a).sum() * b.sum(), [a, c, b]).tolist() == [6.0, 12.0, 0.0, 5.0]


def test_a_linear_system_by_hand():
    matrix, target = torch.tensor([[4.0, 1.0], [1.0, 3.0]]), torch.tensor([1.0, 2.0])
    found, square = conjugate_gradient(lambda v: matrix @ v, target, iterations=2)
    assert found.tolist() == pytest.approx([1 / 11, 7 / 11])
    assert square.item() == pytest.approx(15 / 11)  # found @ target
    # the first step goes along the target: its square over its image, 5 / (1*6 + 2*7)
    found, square = conjugate_gradient(lambda v: matrix @ v, target, iterations=1)
    assert found.tolist() == pytest.approx([0.25, 0.5])
    assert square.item() == pytest.approx(1.25)  # found @ (1.5, 1.75)
    found, square = conjugate_gradient(lambda v: matrix @ v, torch.zeros(2))
    assert (found.tolist(), square.item()) == ([0.0, 0.0], 0.0)


def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 3)), torch.randn(20, 3)


def test_products_are_those_of_the_explicit_fisher_matrix():
    """F = E[grad log p grad log p'], over inputs and actions, written out for a small network."""
    net, x = network()
    parameters = list(net.parameters())
    log_probs = net(x).log_softmax(-1)
    scores = [[flat_gradient(log_probs[i, a], parameters) for a in range(3)] for i in range(20)]
    old = log_probs.detach()
    terms = [old[i, a].exp() * torch.outer(scores[i][a], scores[i][a]) for i in range(20) for a in range(3)]
    matrix = torch.stack(terms).sum(0) / 20
    vector = torch.randn(len(matrix))
    product = fisher_product(log_probs, lambda change: old.exp() * change / 20, parameters, damping=0.1)
    torch.testing.assert_close(product(vector), matrix @ vector + 0.1 * vector, rtol=1e-4, atol=1e-5)
    divergence = (old.exp() * (old - log_probs)).sum(-1).mean()
    slope = torch.cat([g.flatten() for g in torch.autograd.grad(divergence, parameters, create_graph=True)])
    torch.testing.assert_close(product(vector) - 0.1 * vector, flat_gradient(slope @ vector, parameters))


def test_the_natural_gradient_is_that_of_the_explicit_matrix():
    net, x = network()
    parameters = list(net.parameters())
    log_probs = net(x).log_softmax(-1)
    old = log_probs.detach()
    product = fisher_product(log_probs, lambda change: old.exp() * change / 20, parameters, damping=0.1)
    size = sum(p.numel() for p in parameters)
    matrix = torch.stack([product(row) for row in torch.eye(size)])
    torch.testing.assert_close(matrix, matrix.T, rtol=1e-4, atol=1e-5)
    gradient = flat_gradient(log_probs[:, 0].mean(), parameters)
    found, square = conjugate_gradient(product, gradient, iterations=size)
    torch.testing.assert_close(square, found @ product(found), rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(found, torch.linalg.solve(matrix, gradient), rtol=1e-3, atol=1e-4)


def test_moving_and_back():
    net, _ = network()
    parameters = list(net.parameters())
    before = [p.detach().clone() for p in parameters]
    step = torch.arange(sum(p.numel() for p in parameters), dtype=torch.float32)
    move(parameters, step)
    assert parameters[0].flatten()[1].item() == pytest.approx(before[0].flatten()[1].item() + 1.0)
    assert parameters[-1][-1].item() == pytest.approx(before[-1][-1].item() + len(step) - 1)


@pytest.mark.parametrize("scale", [1e-12, 1e-6, 1.0, 1e6])
def test_solutions_do_not_depend_on_the_target_s_scale(scale):
    matrix, target = torch.tensor([[4.0, 1.0], [1.0, 3.0]]), torch.tensor([1.0, 2.0])
    found, square = conjugate_gradient(lambda v: matrix @ v, scale * target)
    assert (found / scale).tolist() == pytest.approx([1 / 11, 7 / 11])
    assert square.item() == pytest.approx(scale**2 * 15 / 11)
