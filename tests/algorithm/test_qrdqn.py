import numpy as np
import pytest
import torch
from gymnasium import spaces
from probes import FAST_VALUES, Probed
from stand_ins import Recorder, transitions

from argosy.algorithm import QRDQN, OptimConfig, QRDQNConfig, Task
from argosy.data import Batch
from argosy.net import NetConfig
from argosy.policy import EpsilonConfig

OBS = spaces.Box(-10, 10, (4,), np.float32)

CASES = {
    "plain": (QRDQNConfig(target_update_freq=2, num_quantiles=5), spaces.Discrete(3)),
    "double": (
        QRDQNConfig(num_quantiles=4, double=True, dueling=True, tau=0.1, target_update_freq=1, kappa=0.5),
        spaces.Discrete(3),
    ),
}
FOLLOWS = ("policy_target", "update_target")
RANGES = [
    ("n_step", 0),
    ("num_quantiles", 0),
    ("kappa", 0.0),
    ("tau", 0.0),
    ("target_update_freq", 0),
]
RESUME = {
    "num_quantiles": 7,
    "n_step": 3,
    "target_update_freq": 7,
    "exploration": EpsilonConfig(eps_decay_steps=300),
    "optim": OptimConfig(lr_schedule="linear"),
}
PROBED = {
    case: Probed(config=QRDQNConfig(**FAST_VALUES, double=double, num_quantiles=8), updates=180)
    for case, double in (("double", True), ("single", False))
}


def make(net=None, obs=OBS, **config):
    task = Task(observation_space=obs, action_space=spaces.Discrete(2), net=net)
    return QRDQN.make(QRDQNConfig(**config), task, seed=0)


def with_tables(online, target, obs=OBS, **config):
    """Two quantiles for each of two actions, read from the observation itself: scale * [q00, q01, q10, q11]."""
    algorithm = make(NetConfig(hidden_sizes=()), obs, num_quantiles=2, **config)
    for policy, scale in ((algorithm.policy, online), (algorithm.policy_target, target)):
        policy.head.weight.data, policy.head.bias.data = scale * torch.eye(4), torch.zeros(4)
    return algorithm


def test_loss_by_hand():
    # Row 0: predictions (0, 1); the greedy next action has the mean 0.5 of (2, -1), so that the target's samples are
    # 1 + 0.5 * (2, -1) = (2, 0.5). Their differences: (2, 0.5) with tau = 1/4 and (1, -0.5) with tau = 3/4; Huber:
    # (1.5, 0.125) and (0.5, 0.125), weighted by (1/4, 1/4) and (3/4, 1/4): means over the samples 0.203125 + 0.203125.
    # Row 1, terminated: predictions (1, 1), samples (0, 0); all differences -1, Huber 0.5, weights 3/4 and 1/4.
    algorithm = with_tables(1.0, 1.0)
    algorithm.optim = Recorder()
    stats = algorithm.update(
        transitions(
            [[0, 1, 9, 9], [9, 9, 1, 1]],
            [0, 1],
            [1, 0],
            [[0, 0, 2, -1], [5, 5, 5, 5]],
            discount=[0.5, 0],
            weight=[1, 0.5],
        )
    )
    expected = (0.40625 + 0.5 * 0.5) / 2
    assert algorithm.optim.losses[0].item() == pytest.approx(expected)
    assert stats.loss == pytest.approx(expected)
    assert stats.q_mean == pytest.approx(0.75)
    assert stats.priorities.tolist() == pytest.approx([0.75, 1.0])  # of the means: 0.5 - 1.25 and 1 - 0


def test_the_threshold_is_that_of_the_config():
    # differences of 1 under kappa = 0.5: 0.5 * (1 - 0.25) / 0.5 = 0.75, weights 1/4 and 3/4
    algorithm = with_tables(1.0, 1.0, kappa=0.5)
    algorithm.optim = Recorder()
    data = transitions([[0, 0, 0, 0]], [0], [1], [[0, 0, 0, 0]], discount=[0], weight=[1])
    assert algorithm.update(data).loss == pytest.approx(0.75)


def targets(algorithm, obs_next, rew=0.0, discount=1.0):
    count = len(obs_next["x"] if isinstance(obs_next, dict) else obs_next)
    data = Batch(obs_next=obs_next, rew=torch.full((count,), rew), discount=torch.full((count,), discount))
    return algorithm._target(data).tolist()


def test_the_greedy_action_is_the_targets_own_or_with_double_the_online_networks():
    obs_next = torch.tensor([[1.0, 2.0, 3.0, 0.5]])  # means 1.5 and 1.75
    assert targets(with_tables(-1.0, 2.0), obs_next, 1.0, 0.5) == [[4.0, 1.5]]  # 1 + 0.5 * 2 * (3, 0.5)
    assert targets(with_tables(-1.0, 2.0, double=True), obs_next, 1.0, 0.5) == [[2.0, 3.0]]  # 1 + 0.5 * 2 * (1, 2)


@pytest.mark.parametrize("double", [True, False])
def test_masks_hold_in_the_target_and_a_state_without_legal_action_gives_no_nan(double):
    space = spaces.Dict({"x": OBS, "action_mask": spaces.MultiBinary(2)})
    algorithm = with_tables(1.0, 2.0, space, double=double)
    obs = {"x": torch.tensor([[1.0, 1.0, 3.0, 4.0]] * 3), "action_mask": torch.tensor([[1, 1], [1, 0], [0, 0]])}
    assert targets(algorithm, obs) == [[6.0, 8.0], [2.0, 2.0], [2.0, 2.0]]


def test_quantiles_of_a_random_return_are_learned():
    """Reward 0 or 1 with probabilities 0.7 and 0.3: of 4 quantiles at 1/8, 3/8, 5/8, 7/8 the last one is 1."""
    algorithm = make(
        NetConfig(hidden_sizes=()), num_quantiles=4, kappa=0.01, optim=OptimConfig(lr=0.01, lr_schedule="linear")
    )
    rng = np.random.default_rng(0)
    for i in range(1000):
        rew = rng.random(256) < 0.3
        algorithm.schedule(i, 1000)
        algorithm.update(
            transitions(np.zeros((256, 4)), np.zeros(256, int), rew, np.zeros((256, 4)), [0] * 256, [1] * 256)
        )
    found = algorithm.policy.analyze(Batch(obs=torch.zeros(1, 4), act=torch.zeros(1, dtype=torch.int64)))
    assert found.quantiles_taken[0].tolist() == pytest.approx([0, 0, 0, 1], abs=0.05)
