import numpy as np
import pytest
import torch
from gymnasium import spaces

from argosy.data import Batch
from argosy.net import DuelingHead, NetConfig
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
