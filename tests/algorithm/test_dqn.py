import math

import numpy as np
import pytest
import torch
from gymnasium import spaces
from probes import FAST_VALUES, Probed

from argosy.algorithm import DQN, DQNConfig, OptimConfig, Task
from argosy.data import Batch
from argosy.net import NetConfig
from argosy.policy import EpsilonConfig

OBS = spaces.Box(-10, 10, (2,), np.float32)

CASES = {
    "plain": (DQNConfig(target_update_freq=2), spaces.Discrete(3)),
    "clipped": (
        DQNConfig(optim=OptimConfig(max_grad_norm=0.1), loss="mse", tau=0.1, target_update_freq=1),
        spaces.Discrete(3),
    ),
    "dueling": (DQNConfig(target_update_freq=2, dueling=True), spaces.Discrete(3)),
    "noisy": (DQNConfig(target_update_freq=2, noisy_std=0.5), spaces.Discrete(3)),
    "munchausen": (DQNConfig(target_update_freq=2, munchausen_alpha=0.9), spaces.Discrete(3)),
}
FOLLOWS = ("policy_target", "update_target")
RANGES = [
    ("gamma", 1.5),
    ("n_step", 0),
    ("noisy_std", -0.5),
    ("munchausen_alpha", 1.5),
    ("munchausen_tau", 0.0),
    ("munchausen_low", 0.5),
    ("loss", "l1"),
    ("tau", 0.0),
    ("target_update_freq", 0),
]
RESUME = {
    "n_step": 3,
    "target_update_freq": 7,
    "exploration": EpsilonConfig(eps_decay_steps=300),
    "optim": OptimConfig(lr_schedule="linear"),
}
PROBED = {
    case: Probed(config=DQNConfig(**FAST_VALUES, **variant), updates=200)
    for case, variant in (
        ("double", {"double": True}),
        ("single", {"double": False}),
        ("munchausen", {"munchausen_alpha": 0.9}),
    )
}


def make(net=None, space=OBS, **config):
    task = Task(observation_space=space, action_space=spaces.Discrete(2), net=net)
    return DQN.make(DQNConfig(**config), task, seed=0)


def read_from_observation(policy, scale):
    """Let Q be read from the observation itself: Q(s, .) = scale * s."""
    policy.head.weight.data, policy.head.bias.data = scale * torch.eye(2), torch.zeros(2)


def with_tables(config, online, target, observation_space=OBS):
    task = Task(observation_space=observation_space, action_space=spaces.Discrete(2), net=NetConfig(hidden_sizes=()))
    algorithm = DQN.make(config, task)
    read_from_observation(algorithm.policy, online)
    read_from_observation(algorithm.policy_target, target)
    return algorithm


def next_value(algorithm, obs_next):
    return algorithm._target(Batch(obs_next=obs_next, rew=torch.zeros(()), discount=torch.ones(()))).tolist()


def batch(obs, act, rew, obs_next, discount, weight=(1.0,)):
    fields = {"rew": rew, "discount": discount, "weight": weight}
    arrays = {key: np.asarray(value, np.float32) for key, value in fields.items()}
    as_obs = [value if isinstance(value, dict) else np.asarray(value, np.float32) for value in (obs, obs_next)]
    return Batch(obs=as_obs[0], act=np.asarray(act), obs_next=as_obs[1], **arrays)


@pytest.mark.parametrize(
    ("double", "expected"),
    [
        (True, -2.0 * 1.0),  # online (scale -1) prefers action 0 of [1, 3]; the target (-2) values it at -2
        (False, -2.0 * 1.0),  # the target's own maximum of [-2, -6]
    ],
)
def test_next_value_with_a_target_of_the_same_order(double, expected):
    algorithm = with_tables(DQNConfig(double=double), -1.0, -2.0)
    assert next_value(algorithm, torch.tensor([[1.0, 3.0]])) == [expected]


def test_double_dqn_chooses_online_and_values_by_the_target():
    # Online Q = [1, 3] chooses action 1; the target says [-2, -6]
    assert next_value(with_tables(DQNConfig(double=True), 1.0, -2.0), torch.tensor([[1.0, 3.0]])) == [-6.0]
    assert next_value(with_tables(DQNConfig(double=False), 1.0, -2.0), torch.tensor([[1.0, 3.0]])) == [-2.0]


@pytest.mark.parametrize("double", [True, False])
def test_masks_hold_in_the_target_and_a_state_without_legal_action_gives_no_nan(double):
    space = spaces.Dict({"x": OBS, "action_mask": spaces.MultiBinary(2)})
    algorithm = with_tables(DQNConfig(double=double), 1.0, 2.0, space)
    obs = {"x": torch.tensor([[1.0, 3.0]] * 3), "action_mask": torch.tensor([[1, 1], [1, 0], [0, 0]])}
    assert next_value(algorithm, obs) == [6.0, 2.0, 2.0]


@pytest.mark.parametrize(
    ("act", "low", "bonus"), [(0, -9.0, -math.log(4.0)), (1, -9.0, math.log(0.75)), (0, -1.0, -1.0)]
)
def test_munchausen_target_by_hand(act, low, bonus):
    """Of Q / tau = (0, log 3) the policy is (1/4, 3/4), and the soft value tau * log 4."""
    tau = 2.0
    config = DQNConfig(munchausen_alpha=0.5, munchausen_tau=tau, munchausen_low=low)
    algorithm = with_tables(config, -7.0, 1.0)  # the online network has no say
    q = torch.tensor([[0.0, tau * math.log(3.0)]])
    found = algorithm._target(
        Batch(obs=q, obs_next=q, act=torch.tensor([act]), rew=torch.tensor([3.0]), discount=torch.tensor([0.5]))
    )
    assert found.item() == pytest.approx(3.0 + 0.5 * max(tau * bonus, low) + 0.5 * tau * math.log(4.0), rel=1e-5)


def test_munchausen_knows_allowed_actions_alone():
    space = spaces.Dict({"x": OBS, "action_mask": spaces.MultiBinary(2)})
    algorithm = with_tables(DQNConfig(munchausen_alpha=1.0), 1.0, 1.0, space)
    obs = {"x": torch.tensor([[1.0, 3.0]] * 2), "action_mask": torch.tensor([[1, 0]] * 2)}
    obs_next = {"x": torch.tensor([[1.0, 3.0]] * 2), "action_mask": torch.tensor([[1, 0], [0, 0]])}
    rows = {"act": torch.tensor([0, 0]), "rew": torch.zeros(2), "discount": torch.tensor([1.0, 0.0])}
    assert algorithm._target(Batch(obs=obs, obs_next=obs_next, **rows)).tolist() == [1.0, 0.0]  # the bonus is log 1


@pytest.mark.parametrize(("loss", "expected"), [("mse", (0.25 + 0.5 * 9.0) / 2), ("huber", (0.125 + 0.5 * 2.5) / 2)])
def test_loss_by_hand(loss, expected):
    # Row 0: Q = 2, target = 1 + 0.5 * max(1, 1) * 1 = 1.5, error 0.5. Row 1: Q = 4, target = 1 + 0 = 1, error 3.
    # Weights 1 and 0.5. Huber with threshold 1: 0.5 * 0.25 and 3 - 0.5.
    algorithm = with_tables(DQNConfig(loss=loss), 1.0, 1.0)
    algorithm.optim = StepCounter()
    stats = algorithm.update(batch([[2, 0], [0, 4]], [0, 1], [1, 1], [[1, 1], [9, 9]], [0.5, 0.0], [1.0, 0.5]))
    assert stats.loss == pytest.approx(expected)
    assert stats.q_mean == pytest.approx(3.0)
    assert stats.priorities.tolist() == pytest.approx([0.5, 3.0])


class StepCounter:
    def step(self, loss):
        return None


def random_batch(count=8, seed=0):
    rng = np.random.default_rng(seed)
    obs, obs_next = rng.normal(size=(2, count, 2))
    return batch(obs, rng.integers(2, size=count), rng.normal(size=count), obs_next, [0.9] * count, [1.0] * count)


def test_no_decay_means_the_final_exploration_from_the_start():
    algorithm = make(exploration=EpsilonConfig(eps_decay_steps=0, eps_end=0.3))
    algorithm.schedule(0, 1000)
    assert algorithm.policy.exploration.eps == 0.3


def test_dueling_network_learns_too():
    algorithm = make(NetConfig(hidden_sizes=(16,)), optim=OptimConfig(lr=0.01), loss="mse", dueling=True)
    losses = [algorithm.update(random_batch(32)).loss for _ in range(60)]
    assert losses[-1] < 0.6 * losses[0]
