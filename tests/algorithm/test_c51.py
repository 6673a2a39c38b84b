import math

import numpy as np
import pytest
import torch
from gymnasium import spaces
from probes import FAST_VALUES, Probed
from stand_ins import Recorder, transitions

from argosy.algorithm import C51, C51Config, OptimConfig, Task
from argosy.data import Batch
from argosy.net import NetConfig
from argosy.policy import EpsilonConfig

OBS = spaces.Box(-10, 10, (4,), np.float32)
LOG3 = math.log(3.0)  # odds of 3 to 1

CASES = {
    "plain": (C51Config(target_update_freq=2, num_atoms=5), spaces.Discrete(3)),
    "double": (
        C51Config(num_atoms=4, double=True, dueling=True, tau=0.1, target_update_freq=1),
        spaces.Discrete(3),
    ),
}
FOLLOWS = ("policy_target", "update_target")
RANGES = [
    ("n_step", 0),
    ("num_atoms", 1),
    ("v_max", -10.0),
    ("tau", 0.0),
    ("target_update_freq", 0),
]
RESUME = {
    "num_atoms": 7,
    "n_step": 3,
    "target_update_freq": 7,
    "exploration": EpsilonConfig(eps_decay_steps=300),
    "optim": OptimConfig(lr_schedule="linear"),
}
PROBED = {
    case: Probed(config=C51Config(**FAST_VALUES, double=double, num_atoms=21, v_min=-2.0, v_max=3.0), updates=180)
    for case, double in (("double", True), ("single", False))
}


def make(net=None, obs=OBS, **config):
    task = Task(observation_space=obs, action_space=spaces.Discrete(2), net=net)
    return C51.make(C51Config(**config), task, seed=0)


def with_tables(online, target, obs=OBS, **config):
    """Two atoms, at 0 and 4, for each of two actions; their logits are scale times the observation."""
    algorithm = make(NetConfig(hidden_sizes=()), obs, num_atoms=2, v_min=0.0, v_max=4.0, **config)
    for policy, scale in ((algorithm.policy, online), (algorithm.policy_target, target)):
        policy.head.weight.data, policy.head.bias.data = scale * torch.eye(4), torch.zeros(4)
    return algorithm


def test_loss_by_hand():
    # Row 0: prediction (1/4, 3/4). The greedy next action has (1/4, 3/4) at 0 and 4, and 1 + 0.5 * (0, 4) is
    # (1, 3): projected 1/4 * (3/4, 1/4) + 3/4 * (1/4, 3/4) = (3/8, 5/8). Row 1, terminated, reward 4: (0, 1) against
    # the prediction (1/2, 1/2).
    algorithm = with_tables(1.0, 1.0)
    algorithm.optim = Recorder()
    stats = algorithm.update(
        transitions(
            [[0, LOG3, 9, 9], [9, 9, 1, 1]],
            [0, 1],
            [1, 4],
            [[1, 1, 0, LOG3], [5, 5, 5, 5]],
            discount=[0.5, 0],
            weight=[1, 0.5],
        )
    )
    errors = [-(3 / 8) * math.log(1 / 4) - (5 / 8) * math.log(3 / 4), math.log(2)]
    expected = (errors[0] + 0.5 * errors[1]) / 2
    assert algorithm.optim.losses[0].item() == pytest.approx(expected)
    assert stats.loss == pytest.approx(expected)
    assert stats.q_mean == pytest.approx(2.5)
    entropy = -(3 / 8) * math.log(3 / 8) - (5 / 8) * math.log(5 / 8)
    assert stats.priorities.tolist() == pytest.approx([errors[0] - entropy, errors[1]])  # divergences


def targets(algorithm, obs_next, rew=0.0, discount=1.0):
    count = len(obs_next["x"] if isinstance(obs_next, dict) else obs_next)
    data = Batch(obs_next=obs_next, rew=torch.full((count,), rew), discount=torch.full((count,), discount))
    return algorithm._target(data)


def test_the_greedy_action_is_the_targets_own_or_with_double_the_online_networks():
    obs_next = torch.tensor([[0.0, 0.0, 0.0, LOG3]])  # means 2 and 3; online, reversed, 2 and 1
    assert targets(with_tables(-1.0, 1.0), obs_next)[0].tolist() == pytest.approx([0.25, 0.75])
    assert targets(with_tables(-1.0, 1.0, double=True), obs_next)[0].tolist() == pytest.approx([0.5, 0.5])


@pytest.mark.parametrize("double", [True, False])
def test_masks_hold_in_the_target_and_a_state_without_legal_action_gives_no_nan(double):
    space = spaces.Dict({"x": OBS, "action_mask": spaces.MultiBinary(2)})
    algorithm = with_tables(1.0, 1.0, space, double=double)
    obs = {"x": torch.tensor([[0.0, 0.0, 0.0, LOG3]] * 3), "action_mask": torch.tensor([[1, 1], [1, 0], [0, 0]])}
    assert targets(algorithm, obs).flatten().tolist() == pytest.approx([0.25, 0.75, 0.5, 0.5, 0.5, 0.5])


def test_the_distribution_of_a_random_return_is_learned():
    """Reward 0 or 1 with probabilities 0.7 and 0.3, atoms at 0, 0.5 and 1."""
    algorithm = make(NetConfig(hidden_sizes=()), num_atoms=3, v_min=0.0, v_max=1.0, optim=OptimConfig(lr=0.05))
    rng = np.random.default_rng(0)
    for _ in range(300):
        rew = rng.random(256) < 0.3
        algorithm.update(
            transitions(np.zeros((256, 4)), np.zeros(256, int), rew, np.zeros((256, 4)), [0] * 256, [1] * 256)
        )
    found = algorithm.policy.analyze(Batch(obs=torch.zeros(1, 4), act=torch.zeros(1, dtype=torch.int64)))
    assert found.log_probs_taken[0].exp().tolist() == pytest.approx([0.7, 0.0, 0.3], abs=0.05)
