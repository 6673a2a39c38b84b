import torch
from torch import nn

from argosy.net import GRU


def test_steps_and_sequences_agree_and_marked_rows_start_from_the_stored_state():
    torch.manual_seed(0)
    gru = GRU(2, 3)
    x, stored = torch.randn(5, 4, 2), torch.randn(5, 4, 3)
    on_reset = torch.zeros(5, 4, dtype=torch.bool)
    on_reset[0], on_reset[2, 1], on_reset[4, 3] = True, True, True
    out = gru(x, stored, on_reset)

    h = stored[0].clone()
    for t in range(5):
        h[on_reset[t]] = stored[t][on_reset[t]]
        h = gru(x[t], h).detach()
        torch.testing.assert_close(out[t], h)
    assert torch.equal(gru(x, stored)[:2], out[:2])
    assert not torch.equal(gru(x, stored)[2, 1], out[2, 1])


def test_one_step_is_the_gated_unit_and_gradient_stops_at_resets():
    gru = GRU(1, 1)
    for p in gru.parameters():
        nn.init.ones_(p)
    x, state = torch.ones(1, 1), torch.zeros(1, 1)
    # gates: sigmoid(1 + 1 + 0 + 1) = 0.952574; candidate: tanh(1 + 1 + 0.952574 * (0 + 1)) = 0.994556
    assert abs(gru(x, state).item() - (1 - 0.952574) * 0.994556) < 1e-6

    x = torch.ones(3, 2, 1, requires_grad=True)
    on_reset = torch.tensor([[True, True], [False, False], [False, True]])
    gru(x, torch.zeros(3, 2, 1), on_reset)[2].sum().backward()
    assert (x.grad[:, 0] != 0).all()
    assert (x.grad[:2, 1] == 0).all()
    assert (x.grad[2, 1] != 0).all()
