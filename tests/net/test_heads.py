import numpy as np
import pytest
import torch
from gymnasium import spaces

from argosy.data import Batch
from argosy.net import DuelingHead, EnsembleCritic, NetConfig
from argosy.policy import QPolicy

BOX = spaces.Box(-1, 1, (3,), np.float32)


def test_dueling_advantages_have_mean_zero():
    torch.manual_seed(0)
    head = DuelingHead(4, 8, 5)
    x = torch.randn(6, 4)
    value = head.value(head.hidden(x).relu().chunk(2, -1)[0])
    torch.testing.assert_close(head(x).mean(-1, keepdim=True), value)


@pytest.mark.parametrize("lead", [(), (6,), (2, 3)])
def test_dueling_streams_of_several_atoms_by_hand(lead):
    head = DuelingHead(1, 1, 3, atoms=2)
    with torch.no_grad():  # the value stream's hidden number is x, that of the advantages 2 x
        head.hidden.weight.copy_(torch.tensor([[1.0, 2.0]]))
        head.value.weight.copy_(torch.tensor([[1.0, 10.0]]))
        head.advantage.weight.copy_(torch.tensor([[1.0, 0.0, 2.0, 3.0, 3.0, 6.0]]))  # [actions, atoms]
        for layer in (head.hidden, head.value, head.advantage):
            layer.bias.zero_()
    q = head(torch.full((*lead, 1), 0.5))
    assert q.shape == (*lead, 6)
    # values 0.5 and 5; advantages (1, 0), (2, 3), (3, 6), whose means over the actions are 2 and 3
    assert q.unflatten(-1, (3, 2)).reshape(-1, 3, 2)[0].tolist() == [[-0.5, 2.0], [0.5, 5.0], [1.5, 8.0]]


def test_dueling_moves_the_last_hidden_layer_into_the_streams():
    policy = QPolicy(BOX, spaces.Discrete(2), NetConfig(hidden_sizes=(16, 8)), dueling=True)
    assert policy.backbone.out_features == 16
    assert policy.head.hidden.out_features == 16  # two streams of 8
    assert policy(Batch(obs=torch.zeros(5, 3))).logits.shape == (5, 2)


def test_dueling_cnn_streams_start_from_the_convolutions():
    policy = QPolicy(spaces.Box(0, 255, (4, 84, 84), np.uint8), spaces.Discrete(6), dueling=True)
    assert policy.head.hidden.in_features == 3136
    assert policy.head.hidden.out_features == 1024


def test_ensemble_critic_shapes_and_independence():
    torch.manual_seed(0)
    critic = EnsembleCritic(BOX, 2, NetConfig(hidden_sizes=(8,)), size=3)
    q = critic.value(Batch(obs=torch.randn(5, 3)), torch.randn(5, 2))
    assert q.shape == (3, 5)
    assert not torch.allclose(q[0], q[1])
    sample = Batch(obs=torch.ones(1, 3))
    assert torch.equal(critic.value(sample, torch.ones(1, 2, 1)), critic.value(sample, torch.ones(1, 2)))
    sequences = Batch(obs=torch.randn(4, 5, 3))
    act = torch.randn(4, 5, 2)
    q = critic.value(sequences, act)
    assert q.shape == (3, 4, 5)
    torch.testing.assert_close(q[:, 2], critic.value(Batch(obs=sequences.obs[2]), act[2]))


def test_ensemble_critic_values_successors_as_it_would_the_observations():
    torch.manual_seed(0)
    critic = EnsembleCritic(BOX, 2, NetConfig(hidden_sizes=(8,)))
    obs_next, act = torch.randn(5, 3), torch.randn(5, 2)
    found = critic.next_value(Batch(obs=torch.zeros(5, 3), obs_next=obs_next), act)
    assert torch.equal(found, critic.value(Batch(obs=obs_next), act))


@pytest.mark.parametrize("memory", ["gru", "lstm"])
def test_ensemble_critic_with_memory_starts_every_sequence_from_nothing(memory):
    torch.manual_seed(0)
    critic = EnsembleCritic(BOX, 2, NetConfig(hidden_sizes=(8,), memory=memory, memory_size=4))
    obs, obs_next, act = torch.randn(3, 2, 3), torch.randn(3, 2, 3), torch.randn(3, 2, 2)
    on_reset = torch.tensor([[True, True], [False, True], [False, False]])
    # what a policy has stored is its own memory's and not the critic's
    sample = Batch(obs=obs, obs_next=obs_next, on_reset=on_reset, policy=Batch(state=torch.randn(3, 2, 8)))
    q, q_next = critic.value(sample, act), critic.next_value(sample, act)
    assert q.shape == q_next.shape == (2, 3, 2)

    def alone(first, last, column, successor=False):
        """Value of the last row of a sequence that begins at its first one."""
        rows = (slice(first, last + 1), slice(column, column + 1))
        part = Batch(
            obs=obs[rows], obs_next=obs_next[rows], policy=Batch(), on_reset=torch.zeros(last - first + 1, 1) > 0
        )
        ask = critic.next_value if successor else critic.value
        return ask(part, act[rows])[:, -1, 0]

    torch.testing.assert_close(q[:, 2, 0], alone(0, 2, 0))
    torch.testing.assert_close(q[:, 2, 1], alone(1, 2, 1))
    torch.testing.assert_close(q_next[:, 2, 1], alone(1, 2, 1, successor=True))
    torch.testing.assert_close(q_next[:, 0, 1], alone(0, 0, 1, successor=True))
    assert not torch.allclose(q_next[:, 2, 1], alone(0, 2, 1, successor=True))
