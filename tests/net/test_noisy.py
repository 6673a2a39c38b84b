import copy
import math
import pickle

import numpy as np
import pytest
import torch
from gymnasium import spaces

from argosy.data import Batch
from argosy.net import Linear, NetConfig
from argosy.net.noisy import FEW_ROWS, Noise, NoisyLinear, add_noise, noise_of
from argosy.policy import QPolicy, RolloutRequest
from argosy.rng import Rng


def layer():
    """[1, 2] * weight + bias = [1 + 2 * 2, 0.5 + 2 * 3] + [0.1, 0.2]; all deviations are 0.5 / sqrt(2)."""
    plain = Linear(2, 2)
    plain.weight.data = torch.tensor([[1.0, 0.5], [2.0, 3.0]])
    plain.bias.data = torch.tensor([0.1, 0.2])
    return NoisyLinear(plain, 0.5)


def test_without_a_draw_it_is_its_mean():
    assert layer()(torch.tensor([[1.0, 2.0]])).tolist() == [[pytest.approx(5.1), pytest.approx(6.7)]]


def test_noise_by_hand():
    noisy, std = layer(), 0.5 / math.sqrt(2)
    noisy.noise = (torch.tensor([1.0, -2.0]), torch.tensor([0.5, 3.0]))
    # weights in -> out are off by std * e_in * e_out, biases by std * e_out: (1 * 1 + 2 * -2 + 1) * std * e_out
    expected = [5.1 - 2 * std * 0.5, 6.7 - 2 * std * 3.0]
    assert noisy(torch.tensor([[1.0, 2.0]]))[0].tolist() == pytest.approx(expected)
    for lead in ((1, 1), (FEW_ROWS,), (2, FEW_ROWS)):
        for row in noisy(torch.tensor([1.0, 2.0]).expand(*lead, 2)).reshape(-1, 2):
            assert row.tolist() == pytest.approx(expected)


def test_many_rows_learn_as_a_few_at_a_time_do():
    noisy, rows, weight = layer(), torch.randn(2 * FEW_ROWS, 2), torch.randn(2 * FEW_ROWS, 2)
    noisy.noise = (torch.tensor([1.0, -2.0]), torch.tensor([0.5, 3.0]))
    (noisy(rows) * weight).sum().backward()
    found = [parameter.grad.clone() for parameter in noisy.parameters()]
    noisy.zero_grad()
    for part, share in zip(rows.split(FEW_ROWS - 1), weight.split(FEW_ROWS - 1), strict=True):
        (noisy(part) * share).sum().backward()
    torch.testing.assert_close(found, [parameter.grad for parameter in noisy.parameters()])


def test_draws_are_signed_roots_of_normal_numbers_anew_for_each_block():
    noisy, rng = layer(), Rng(0)
    noise = Noise((noisy,))
    seen = []
    for _ in range(4000):
        with noise(rng):
            seen.append(torch.cat(noisy.noise))
    assert noisy.noise is None
    drawn = torch.stack(seen)
    z = drawn.sign() * drawn.square()
    torch.testing.assert_close(z.mean(0), torch.zeros(4), atol=0.06, rtol=0)
    torch.testing.assert_close(z.std(0), torch.ones(4), atol=0.06, rtol=0)
    torch.testing.assert_close(torch.corrcoef(z.T), torch.eye(4), atol=0.06, rtol=0)


def test_a_block_that_fails_leaves_no_noise():
    noisy = layer()
    with pytest.raises(KeyError), Noise((noisy,))(Rng(0)):
        raise KeyError
    assert noisy.noise is None


def policy(noisy_std=0.5, **options):
    torch.manual_seed(0)
    space, net = spaces.Box(-1, 1, (3,), np.float32), NetConfig(hidden_sizes=(16, 16))
    return QPolicy(space, spaces.Discrete(4), net, noisy_std=noisy_std, **options)


def test_every_linear_layer_gets_noise_and_keeps_its_mean():
    plain, noisy = policy(0.0), policy()
    assert [type(m) for m in noisy.modules() if isinstance(m, Linear)] == [NoisyLinear] * 3
    assert sum(p.numel() for p in noisy.parameters()) == 2 * sum(p.numel() for p in plain.parameters())
    obs = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    torch.testing.assert_close(noisy(Batch(obs=obs)).logits, plain(Batch(obs=obs)).logits)
    assert len([m for m in policy(dueling=True).modules() if isinstance(m, NoisyLinear)]) == 4


def test_images_have_noise_behind_the_convolutions_and_a_users_network_none():
    space, net = spaces.Box(0, 255, (4, 84, 84), np.uint8), NetConfig(cnn_features=8)
    cnn = QPolicy(space, spaces.Discrete(2), net, noisy_std=0.5)
    assert [(m.in_features, m.out_features) for m in cnn.modules() if isinstance(m, NoisyLinear)] == [
        (3136, 8),
        (8, 2),
    ]
    own = Linear(2, 2)
    own.is_own = True
    assert add_noise(torch.nn.Sequential(own, Linear(2, 1)), 0.5).layers[0].out_features == 1
    assert type(own) is Linear


def rollout(policy, count, evaluates=None):
    obs = np.tile(np.array([[0.3, -0.2, 0.1]], np.float32), (count, 1))
    return policy.rollout(RolloutRequest(obs=obs, is_evaluation=evaluates)).action


def test_exploring_rows_act_with_noise_and_evaluating_ones_without():
    acting = policy(5.0)
    best = acting(Batch(obs=np.array([[0.3, -0.2, 0.1]], np.float32))).act.item()
    evaluates = np.array([True, False] * 8)
    acts = np.stack([rollout(acting, 16, evaluates) for _ in range(30)])
    assert (acts[:, evaluates] == best).all()
    assert len(np.unique(acts[:, ~evaluates])) > 1
    assert (np.ptp(acts[:, ~evaluates], axis=1) == 0).all()  # one draw for all rows of a call
    assert (rollout(acting, 4, np.ones(4, bool)) == best).all()


def test_acting_is_seeded_and_travels_with_copies():
    first, second = policy(5.0), policy(5.0)
    for other in (second, copy.deepcopy(first), pickle.loads(pickle.dumps(first))):
        first.seed(3)
        other.seed(3)
        assert [rollout(first, 1).item() for _ in range(20)] == [rollout(other, 1).item() for _ in range(20)]
    state = first.rng.state_dict()
    acts = [rollout(first, 1).item() for _ in range(20)]
    first.rng.load_state_dict(state)
    assert [rollout(first, 1).item() for _ in range(20)] == acts


def test_networks_without_noisy_layers_have_none():
    with noise_of(policy(0.0))(Rng(0)):
        pass
    assert policy(0.0).noise is None
