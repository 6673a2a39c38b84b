import numpy as np
import torch
from gymnasium import spaces

from argosy.net import DuelingHead, EnsembleCritic, NetConfig, QNet

BOX = spaces.Box(-1, 1, (3,), np.float32)


def test_dueling_advantages_have_mean_zero():
    torch.manual_seed(0)
    head = DuelingHead(4, 8, 5)
    x = torch.randn(6, 4)
    value = head.value(head.hidden(x).relu().chunk(2, -1)[0])
    torch.testing.assert_close(head(x).mean(-1, keepdim=True), value)


def test_dueling_moves_the_last_hidden_layer_into_the_streams():
    net = QNet(BOX, 2, NetConfig(hidden_sizes=(16, 8), dueling=True))
    assert net.backbone.out_features == 16
    assert net.head.hidden.out_features == 16  # two streams of 8
    q, _ = net(torch.zeros(5, 3))
    assert q.shape == (5, 2)


def test_dueling_cnn_streams_start_from_the_convolutions():
    net = QNet(spaces.Box(0, 255, (4, 84, 84), np.uint8), 6, NetConfig(dueling=True))
    assert net.head.hidden.in_features == 3136
    assert net.head.hidden.out_features == 1024


def test_ensemble_critic_shapes_and_independence():
    torch.manual_seed(0)
    critic = EnsembleCritic(BOX, 2, NetConfig(hidden_sizes=(8,)), size=3)
    q = critic(torch.randn(5, 3), torch.randn(5, 2))
    assert q.shape == (3, 5)
    assert not torch.allclose(q[0], q[1])
    assert torch.equal(critic(torch.ones(1, 3), torch.ones(1, 2, 1)), critic(torch.ones(1, 3), torch.ones(1, 2)))
