import math

import numpy as np
import pytest
import torch
from gymnasium import spaces
from probes import FAST_VALUES, Probed
from stand_ins import Recorder, transitions

from argosy.algorithm import FQF, FQFConfig, OptimConfig, Task
from argosy.data import Batch
from argosy.net import NetConfig
from argosy.policy import EpsilonConfig

OBS = spaces.Box(-10, 10, (2,), np.float32)

FAST = OptimConfig(lr=1e-3)  # the default's steps may be lost to rounding
CASES = {
    "plain": (FQFConfig(target_update_freq=2, num_fractions=5, num_cosines=6, fraction_optim=FAST), spaces.Discrete(3)),
    "double": (
        FQFConfig(
            num_fractions=2,
            num_cosines=6,
            entropy_coef=0.1,
            double=True,
            tau=0.1,
            target_update_freq=1,
            kappa=0.5,
            fraction_optim=FAST,
        ),
        spaces.Discrete(3),
    ),
}
FOLLOWS = ("policy_target", "update_target")
RANGES = [
    ("n_step", 0),
    ("num_fractions", 1),
    ("entropy_coef", -1.0),
    ("num_cosines", 0),
    ("kappa", 0.0),
    ("tau", 0.0),
    ("target_update_freq", 0),
]
RESUME = {
    "num_fractions": 3,
    "n_step": 3,
    "target_update_freq": 7,
    "exploration": EpsilonConfig(eps_decay_steps=300),
    "optim": OptimConfig(lr_schedule="linear"),
    "fraction_optim": OptimConfig(lr=1e-3),
}
PROBED = {
    case: Probed(config=FQFConfig(**FAST_VALUES, double=double, num_fractions=8), updates=180)
    for case, double in (("double", True), ("single", False))
}


def make(net=None, obs=OBS, **config):
    task = Task(observation_space=obs, action_space=spaces.Discrete(2), net=net)
    return FQF.make(FQFConfig(**config), task, seed=0)


def with_tables(online, target, obs=OBS, shares=(1 / 3, 2 / 3), **config):
    """Quantiles of two actions: scale * observation * (1 - cos(pi * tau) / 2); fractions are embedded as the last."""
    algorithm = make(NetConfig(hidden_sizes=(), cnn_features=4), obs, num_cosines=1, num_fractions=2, **config)
    for policy, scale in ((algorithm.policy, online), (algorithm.policy_target, target)):
        head = policy.head
        head.embed.weight.data, head.embed.bias.data = torch.full((1, 2), -0.5), torch.ones(2)
        head.hidden.weight.data = torch.cat((torch.eye(2), -torch.eye(2)), dim=1)  # both signs survive the relu
        head.out.weight.data = scale * torch.cat((torch.eye(2), -torch.eye(2)))
        head.hidden.bias.data, head.out.bias.data = torch.zeros(4), torch.zeros(2)
        head.fractions.logits.weight.data.zero_()
        head.fractions.logits.bias.data = torch.tensor(shares).log()
    return algorithm


def test_losses_by_hand():
    # Shares 2/3 and 1/3 have their middles at 1/3 and 5/6, their edge at 2/3; cos(pi * tau) is 1/2, -sqrt(3)/2, -1/2.
    # Row 0: predictions 6 * (low, high), samples of the better next action 1 + 0.5 * 2 * (low, high).
    # Row 1, terminated: predictions (0, 0), samples (1, 1).
    low, high, edge = 0.75, 1 + math.sqrt(3) / 4, 1.25
    algorithm = with_tables(1.0, 1.0, shares=(2 / 3, 1 / 3), entropy_coef=0.5)
    algorithm.optim, algorithm.fraction_optim = Recorder(), Recorder()
    stats = algorithm.update(
        transitions([[6, 9], [9, 0]], [0, 1], [1, 1], [[1, 2], [5, 5]], discount=[0.5, 0], weight=[1, 0.5])
    )
    tau, quantile = (1 / 3, 5 / 6), 0.0
    for i, taken in enumerate((6 * low, 6 * high)):
        for sample in (1 + low, 1 + high):
            quantile += (1 - tau[i]) * (taken - sample - 0.5) / 2  # all samples lie below, by more than 1
    quantile = (quantile + 0.5 * 0.5 * (1 / 3 + 5 / 6)) / 2
    entropy = -(2 / 3) * math.log(2 / 3) - (1 / 3) * math.log(1 / 3)
    distance = 6 * (2 * edge - low - high) * 2 / 3
    assert min(6 * low, 6 * high) - 1 - high > 1
    assert stats.loss_quantile == pytest.approx(quantile, rel=1e-5)
    assert stats.loss_fraction == pytest.approx((distance - 0.75 * entropy) / 2, rel=1e-5)
    assert stats.entropy == pytest.approx(entropy)
    mean = 6 * (2 / 3 * low + 1 / 3 * high)
    assert stats.q_mean == pytest.approx(mean / 2)
    expected = 1 + 2 / 3 * low + 1 / 3 * high  # of the staircase, as the prediction
    assert stats.priorities.tolist() == pytest.approx([mean - expected, 1.0], rel=1e-5)
    assert [loss.item() for loss in algorithm.optim.losses] == pytest.approx([stats.loss_quantile])
    assert [loss.item() for loss in algorithm.fraction_optim.losses] == pytest.approx([stats.loss_fraction])


def test_each_optimiser_has_its_own_parameters():
    algorithm = make()
    proposing = list(algorithm.policy.head.fractions.parameters())
    assert [id(p) for p in algorithm.fraction_optim.parameters] == [id(p) for p in proposing]
    both = {id(p) for p in (*algorithm.optim.parameters, *proposing)}
    assert both == {id(p) for p in algorithm.policy.parameters()}
    assert len(algorithm.optim.parameters) == len(both) - len(proposing)


def targets(algorithm, obs_next, rew=0.0, discount=1.0):
    count = len(obs_next["x"] if isinstance(obs_next, dict) else obs_next)
    data = Batch(obs_next=obs_next, rew=torch.full((count,), rew), discount=torch.full((count,), discount))
    return [row.tolist() for row in algorithm._target(data)[0]]


def factors(*tau):
    return np.array([1 - math.cos(math.pi * t) / 2 for t in tau])


def test_action_and_shares_are_the_targets_own_or_with_double_the_online_networks():
    obs_next = torch.tensor([[1.0, 2.0]])
    for double, value, tau in ((False, 4.0, (1 / 6, 2 / 3)), (True, 2.0, (0.45, 0.95))):
        algorithm = with_tables(-1.0, 2.0, double=double)
        algorithm.policy.head.fractions.logits.bias.data = torch.tensor([0.9, 0.1]).log()
        expected = 1 + 0.5 * value * factors(*tau)
        assert targets(algorithm, obs_next, 1.0, 0.5)[0] == pytest.approx(expected.tolist(), rel=1e-5)


@pytest.mark.parametrize("double", [True, False])
def test_masks_hold_in_the_target_and_a_state_without_legal_action_gives_no_nan(double):
    space = spaces.Dict({"x": OBS, "action_mask": spaces.MultiBinary(2)})
    algorithm = with_tables(1.0, 2.0, space, double=double)
    obs = {"x": torch.tensor([[1.0, 3.0]] * 3), "action_mask": torch.tensor([[1, 1], [1, 0], [0, 0]])}
    expected = np.outer([6.0, 2.0, 2.0], factors(1 / 6, 2 / 3)).ravel()
    assert np.ravel(targets(algorithm, obs)).tolist() == pytest.approx(expected.tolist(), rel=1e-5)


def test_shares_move_to_where_the_quantile_function_needs_them():
    """F(tau) = relu(-cos(pi * tau)) is 0 up to 1/2: its best staircase has one step from 0 to about there."""
    algorithm = with_tables(1.0, 1.0, shares=(0.2, 0.8), fraction_optim=OptimConfig(lr=0.01))
    algorithm.optim = Recorder()
    for policy in (algorithm.policy, algorithm.policy_target):
        policy.head.embed.weight.data, policy.head.embed.bias.data = torch.full((1, 2), -1.0), torch.zeros(2)

    tau = np.linspace(0, 1, 10_001)

    def distance(edge):
        curve = np.maximum(-np.cos(np.pi * tau), 0)
        stairs = np.where(tau < edge, np.interp(edge / 2, tau, curve), np.interp((1 + edge) / 2, tau, curve))
        return np.abs(curve - stairs).mean()

    for _ in range(400):
        algorithm.update(transitions([[1, 1]] * 4, [0] * 4, [0] * 4, [[1, 1]] * 4, [0] * 4, [1] * 4))
    found = algorithm.policy.analyze(Batch(obs=torch.ones(1, 2), act=torch.zeros(1)))
    edge = found.shares[0, 0].item()
    best = min(np.linspace(0.05, 0.95, 91), key=distance)
    assert edge == pytest.approx(best, abs=0.03)
