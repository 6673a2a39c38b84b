import pytest
import torch
from torch import nn

from argosy.errors import ConfigError
from argosy.net import NetConfig, ScaledLinear, TargetUpdate, frozen_copy, orthogonal_


def layer(value):
    net = nn.Linear(2, 1)
    nn.init.constant_(net.weight, value)
    nn.init.constant_(net.bias, value)
    return net


@pytest.mark.parametrize(("tau", "expected"), [(1.0, 3.0), (0.25, 1.5)])
def test_target_moves_by_tau(tau, expected):
    online, target = layer(3.0), layer(1.0)
    TargetUpdate(target, online, tau)()
    assert target.weight.tolist() == [[expected, expected]]
    assert target.bias.tolist() == [expected]
    assert online.bias.tolist() == [3.0]


def test_target_moves_once_in_so_many_calls_and_goes_on_counting_after_a_resume():
    online, target = layer(3.0), layer(1.0)
    update = TargetUpdate(target, online, 0.5, every=3)
    found = []
    for _ in range(5):
        update()
        found.append(target.bias.item())
    assert found == [1.0, 1.0, 2.0, 2.0, 2.0]
    resumed = TargetUpdate(target, online, 0.5, every=3)
    resumed.load_state_dict(update.state_dict())
    resumed()
    assert target.bias.item() == 2.5


@pytest.mark.parametrize(("tau", "expected"), [(1.0, 4.0), (0.25, 1.0)])
def test_buffers_of_numbers_follow_and_counters_do_not(tau, expected):
    online, target = nn.BatchNorm1d(2), nn.BatchNorm1d(2)
    online.running_mean.fill_(4.0)
    online.num_batches_tracked.fill_(7)
    TargetUpdate(target, online, tau)()
    assert target.running_mean.tolist() == [expected, expected]
    assert target.num_batches_tracked == 0


def test_frozen_copy_takes_no_gradient_and_stays_behind():
    online = layer(1.0)
    target = frozen_copy(online)
    assert not any(parameter.requires_grad for parameter in target.parameters())
    nn.init.constant_(online.weight, 5.0)
    assert target.weight.tolist() == [[1.0, 1.0]]


def test_orthogonal_rows_have_the_gain_as_length():
    net = nn.Linear(8, 4)
    orthogonal_(net, 2.0)
    torch.testing.assert_close(net.weight @ net.weight.T, 4.0 * torch.eye(4))
    assert net.bias.abs().sum() == 0


@pytest.mark.parametrize(
    "bad",
    [
        {"kind": "rnn"},
        {"hidden_sizes": (64, 0)},
        {"activation": "step"},
        {"cnn_features": 0},
        {"memory": "rnn"},
        {"memory_size": 0},
        {"sequence_length": 0},
        {"burn_in": -1},
        {"encoder_args": {"width": 3}},
    ],
)
def test_net_config_checks_itself(bad):
    with pytest.raises(ConfigError, match=next(iter(bad))):
        NetConfig(**bad)


@pytest.mark.parametrize("tau", [1.0, 0.005])
def test_targets_keep_their_outputs_where_popart_s_statistics_move(tau):
    """The weights move bit by bit, and their units at once: both apart would be outputs that nobody has learned."""
    torch.manual_seed(0)
    online, x = ScaledLinear(3, 2, "popart"), torch.randn(4, 3)
    target = frozen_copy(online)
    follow, before = TargetUpdate(target, online, tau), online(x).detach()
    for returns in ([-900.0, -1100.0], [400.0, 7.0]):
        online.take_in(torch.tensor(returns))
        follow()
        torch.testing.assert_close(target(x), before, rtol=1e-3, atol=1e-3)
    assert target.statistics.count == 4
    with torch.no_grad():
        online.bias += 1.0
    follow()
    torch.testing.assert_close(target(x), before + tau * online.std, rtol=1e-3, atol=1e-2)
