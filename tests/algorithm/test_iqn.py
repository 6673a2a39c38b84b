import math

import numpy as np
import pytest
import torch
from gymnasium import spaces
from probes import FAST_VALUES, Probed
from stand_ins import Recorder, transitions

from argosy.algorithm import IQN, IQNConfig, OptimConfig, Task
from argosy.data import Batch
from argosy.net import NetConfig
from argosy.policy import EpsilonConfig

OBS = spaces.Box(-10, 10, (2,), np.float32)

CASES = {
    "plain": (IQNConfig(target_update_freq=2, num_cosines=6), spaces.Discrete(3)),
    "double": (
        IQNConfig(
            num_quantiles=3,
            num_target_quantiles=5,
            num_mean_quantiles=4,
            num_cosines=6,
            double=True,
            tau=0.1,
            target_update_freq=1,
            kappa=0.5,
        ),
        spaces.Discrete(3),
    ),
}
FOLLOWS = ("policy_target", "update_target")
RANGES = [
    ("n_step", 0),
    ("num_quantiles", 0),
    ("num_target_quantiles", 0),
    ("num_mean_quantiles", 0),
    ("num_cosines", 0),
    ("kappa", 0.0),
    ("tau", 0.0),
    ("target_update_freq", 0),
]
RESUME = {
    "num_quantiles": 3,
    "n_step": 3,
    "target_update_freq": 7,
    "exploration": EpsilonConfig(eps_decay_steps=300),
    "optim": OptimConfig(lr_schedule="linear"),
}
PROBED = {
    case: Probed(config=IQNConfig(**FAST_VALUES, double=double), updates=180)
    for case, double in (("double", True), ("single", False))
}


def make(net=None, obs=OBS, **config):
    task = Task(observation_space=obs, action_space=spaces.Discrete(2), net=net)
    return IQN.make(IQNConfig(**config), task, seed=0)


def with_tables(online, target, obs=OBS, **config):
    """Quantiles of two actions: scale * observation * (1 - cos(pi * tau) / 2); fractions are embedded as the last."""
    algorithm = make(NetConfig(hidden_sizes=(), cnn_features=4), obs, num_cosines=1, **config)
    for policy, scale in ((algorithm.policy, online), (algorithm.policy_target, target)):
        head = policy.head
        head.embed.weight.data, head.embed.bias.data = torch.full((1, 2), -0.5), torch.ones(2)
        head.hidden.weight.data = torch.cat((torch.eye(2), -torch.eye(2)), dim=1)  # both signs survive the relu
        head.out.weight.data = scale * torch.cat((torch.eye(2), -torch.eye(2)))
        head.hidden.bias.data, head.out.bias.data = torch.zeros(4), torch.zeros(2)
    return algorithm


def give(algorithm, *draws):
    """Let the algorithm draw these fractions, in order, the same for every row."""
    left = [torch.tensor(draw) for draw in draws]
    algorithm._draw = lambda batch, count: left.pop(0).expand(*batch.rew.shape, count)


def test_loss_by_hand():
    # cos(pi * tau) is 0.5 at 1/3, -0.5 at 2/3, 0 at 1/2: factors 0.75, 1.25 and 1.
    # Row 0: predictions 4 * (0.75, 1.25) = (3, 5); the better next action has 2, so that the sample is 1 + 0.5 * 2 = 2.
    # Differences -1 and -3, Huber 0.5 and 2.5, weights |1/3 - 1| and |2/3 - 1|: 1/3 + 2.5/3 = 3.5/3.
    # Row 1, terminated: predictions (0, 0), sample 1: Huber 0.5 and 0.5, weights 1/3 and 2/3: 0.5.
    algorithm = with_tables(1.0, 1.0, num_quantiles=2, num_target_quantiles=1)
    algorithm.optim = Recorder()
    give(algorithm, [1 / 3, 2 / 3], [0.5])
    stats = algorithm.update(
        transitions([[4, 9], [9, 0]], [0, 1], [1, 1], [[1, 2], [5, 5]], discount=[0.5, 0], weight=[1, 0.5])
    )
    expected = (3.5 / 3 + 0.5 * 0.5) / 2
    assert algorithm.optim.losses[0].item() == pytest.approx(expected, rel=1e-5)
    assert stats.loss == pytest.approx(expected, rel=1e-5)
    assert stats.q_mean == pytest.approx(2.0)
    assert stats.priorities.tolist() == pytest.approx([2.0, 1.0])  # of the means: 4 - 2 and 0 - 1


def targets(algorithm, obs_next, rew=0.0, discount=1.0):
    count = len(obs_next["x"] if isinstance(obs_next, dict) else obs_next)
    data = Batch(obs_next=obs_next, rew=torch.full((count,), rew), discount=torch.full((count,), discount))
    give(algorithm, [0.5, 1.0])  # factors 1 and 1.5
    return [row.tolist() for row in algorithm._target(data)]


def test_the_greedy_action_is_the_targets_own_or_with_double_the_online_networks():
    obs_next = torch.tensor([[1.0, 2.0]])
    options = {"num_target_quantiles": 2}
    assert targets(with_tables(-1.0, 2.0, **options), obs_next, 1.0, 0.5)[0] == pytest.approx([3.0, 4.0])
    found = targets(with_tables(-1.0, 2.0, double=True, **options), obs_next, 1.0, 0.5)
    assert found[0] == pytest.approx([2.0, 2.5])


@pytest.mark.parametrize("double", [True, False])
def test_masks_hold_in_the_target_and_a_state_without_legal_action_gives_no_nan(double):
    space = spaces.Dict({"x": OBS, "action_mask": spaces.MultiBinary(2)})
    algorithm = with_tables(1.0, 2.0, space, double=double, num_target_quantiles=2)
    obs = {"x": torch.tensor([[1.0, 3.0]] * 3), "action_mask": torch.tensor([[1, 1], [1, 0], [0, 0]])}
    assert np.ravel(targets(algorithm, obs)).tolist() == pytest.approx([6.0, 9.0, 2.0, 3.0, 2.0, 3.0])


def test_fractions_are_uniform_and_of_the_algorithms_own_draws():
    algorithm, other = make(), make()
    rows = Batch(rew=torch.zeros(500))
    drawn = algorithm._draw(rows, 8)
    assert drawn.shape == (500, 8)
    assert drawn.mean().item() == pytest.approx(0.5, abs=0.02)
    assert drawn.std().item() == pytest.approx(math.sqrt(1 / 12), abs=0.01)
    assert torch.equal(drawn, other._draw(rows, 8))
    assert not torch.equal(drawn, other._draw(rows, 8))


def test_quantiles_of_a_random_return_are_learned():
    """Reward 0 or 1 with probabilities 0.7 and 0.3: the quantile function is a step at 0.7."""
    net = NetConfig(hidden_sizes=(32,))
    algorithm = make(net, kappa=0.01, optim=OptimConfig(lr=0.01, lr_schedule="linear"))
    rng = np.random.default_rng(0)
    for i in range(400):
        rew = rng.random(64) < 0.3
        algorithm.schedule(i, 400)
        algorithm.update(transitions(np.ones((64, 2)), np.zeros(64, int), rew, np.zeros((64, 2)), [0] * 64, [1] * 64))
    found = algorithm.policy.analyze(Batch(obs=torch.ones(1, 2), act=torch.zeros(1, dtype=torch.int64)))
    quantiles = found.quantiles_taken(torch.tensor([[0.1, 0.3, 0.5, 0.6, 0.8, 0.9]]))[0].tolist()
    assert quantiles == pytest.approx([0, 0, 0, 0, 1, 1], abs=0.15)
