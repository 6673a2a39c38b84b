import pytest
import torch
from torch import nn

from argosy.net import Memory


@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_steps_and_sequences_agree_and_marked_rows_start_from_the_stored_state(kind):
    torch.manual_seed(0)
    memory = Memory(kind, 2, 3)
    x, stored = torch.randn(5, 4, 2), torch.randn(5, 4, memory.state_size)
    on_reset = torch.zeros(5, 4, dtype=torch.bool)
    on_reset[0], on_reset[2, 1], on_reset[4, 3] = True, True, True
    after = memory(x, stored, on_reset)

    h = stored[0].clone()
    for t in range(5):
        h[on_reset[t]] = stored[t][on_reset[t]]
        h = memory.step(x[t], h).detach()
        torch.testing.assert_close(after[t], h)
    on = memory(x, stored, torch.zeros_like(on_reset))  # the first row starts from the stored state, marked or not
    assert torch.equal(on[:2], after[:2])
    assert not torch.equal(on[2, 1], after[2, 1])


def test_states_are_one_array_whose_first_columns_are_the_output():
    gru, lstm = Memory("gru", 2, 3), Memory("lstm", 2, 3)
    assert (gru.state_size, gru.out_features, lstm.state_size, lstm.out_features) == (3, 3, 6, 3)
    state = torch.arange(6.0).expand(4, 6)
    assert torch.equal(gru.output(state[:, :3]), state[:, :3])
    assert lstm.output(state).tolist() == [[0, 1, 2]] * 4
    for memory in (gru, lstm):  # any leading axes, none too
        for lead in ((), (4,), (2, 4)):
            assert memory.step(torch.ones(*lead, 2), torch.ones(*lead, memory.state_size)).shape == (
                *lead,
                memory.state_size,
            )


def test_one_step_is_the_gated_unit_and_gradient_stops_at_resets():
    gru = Memory("gru", 1, 1)
    for p in gru.parameters():
        nn.init.ones_(p)
    x, state = torch.ones(1, 1), torch.zeros(1, 1)
    # gates: sigmoid(1 + 1 + 0 + 1) = 0.952574; candidate: tanh(1 + 1 + 0.952574 * (0 + 1)) = 0.994556
    assert abs(gru.step(x, state).item() - (1 - 0.952574) * 0.994556) < 1e-6

    x = torch.ones(3, 2, 1, requires_grad=True)
    on_reset = torch.tensor([[True, True], [False, False], [False, True]])
    gru(x, torch.zeros(3, 2, 1), on_reset)[2].sum().backward()
    assert (x.grad[:, 0] != 0).all()
    assert (x.grad[:2, 1] == 0).all()
    assert (x.grad[2, 1] != 0).all()


def test_one_step_of_the_long_short_term_memory_by_hand():
    lstm = Memory("lstm", 1, 1)
    for p in lstm.parameters():
        nn.init.ones_(p)
    after = lstm.step(torch.ones(1, 1), torch.tensor([[0.0, 2.0]]))
    # gates: sigmoid(1 + 1 + 0 + 1) = 0.952574; candidate: tanh(3) = 0.995055; cell: 0.952574 * (2 + 0.995055)
    # = 2.853012; output: 0.952574 * tanh(2.853012) = 0.952574 * 0.993370
    assert after[0].tolist() == pytest.approx([0.946259, 2.853012], abs=2e-6)


@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_gradient_flows_through_time(kind):
    memory = Memory(kind, 1, 2)
    x = torch.ones(4, 1, 1, requires_grad=True)
    memory.output(memory(x, torch.zeros(4, 1, memory.state_size), torch.zeros(4, 1) > 0))[3].sum().backward()
    assert (x.grad != 0).all()
