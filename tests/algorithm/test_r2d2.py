import math

import numpy as np
import pytest
import torch
from algorithm_checks import play
from gymnasium import spaces
from probes import FAST_VALUES, Probed

from argosy.algorithm import DQN, R2D2, OptimConfig, R2D2Config, Task
from argosy.data import Batch, Priority, VectorReplayBuffer
from argosy.errors import ConfigError
from argosy.net import NetConfig
from argosy.ops.rescaling import unrescale
from argosy.presets import preset

OBS = spaces.Box(-100, 100, (2,), np.float32)

CASES = {
    "plain": (R2D2Config(target_update_freq=2), spaces.Discrete(3)),
    "single": (R2D2Config(double=False, dueling=False, rescale_eps=0.1, tau=0.1), spaces.Discrete(3)),
}
FOLLOWS = ("policy_target", "update_target")
RANGES = [("rescale_eps", 0.0), ("n_step", 0), ("gamma", 1.5)]
RESUME = {
    "n_step": 3,
    "target_update_freq": 7,
    "optim": OptimConfig(lr_schedule="linear"),
}
PROBED = {
    "plain": Probed(
        config=R2D2Config(**FAST_VALUES, n_step=1),
        updates=180,
        value=lambda algorithm, obs: unrescale(algorithm.policy(Batch(obs=obs)).logits.max()),
    )
}


def make(net=None, obs=OBS, **config):
    return R2D2.make(
        R2D2Config(**config), Task(observation_space=obs, action_space=spaces.Discrete(2), net=net), seed=0
    )


@pytest.mark.parametrize(("double", "value"), [(True, 1.0), (False, 2.1)])
def test_target_by_hand(double, value):
    """Rescaled values are the observation, for the target network, and its opposite, online."""
    algorithm = make(NetConfig(hidden_sizes=()), dueling=False, double=double, rescale_eps=0.01)
    for policy, scale in ((algorithm.policy, -1.0), (algorithm.policy_target, 1.0)):
        policy.head.weight.data, policy.head.bias.data = scale * torch.eye(2), torch.zeros(2)
    batch = Batch(obs_next=torch.tensor([[1.0, 2.1]]), rew=torch.tensor([2.0]), discount=torch.tensor([0.5]))
    # y of h(y) = value, by bisection
    low, high = 0.0, 100.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if math.sqrt(middle + 1) - 1 + 0.01 * middle < value else (low, middle)
    total = 2.0 + 0.5 * low
    assert algorithm._target(batch).item() == pytest.approx(math.sqrt(total + 1) - 1 + 0.01 * total, rel=1e-5)


def test_it_remembers_and_draws_by_priority_without_being_asked():
    assert issubclass(R2D2, DQN)
    assert make().policy.is_recurrent
    assert make().sampling.sequence_length == 16
    for task in ("CartPole-v1", "FrozenLake-v1"):
        experiment = preset("r2d2", task)
        assert experiment.net.memory is not None
        assert experiment.buffer.priority.alpha == 0.6


def test_munchausen_is_refused():
    with pytest.raises(ConfigError, match=r"R2D2Config.munchausen_alpha is 0.9.*rescaled"):
        R2D2Config(munchausen_alpha=0.9)


@pytest.mark.parametrize("envs", [1, 12])
def test_the_paper_s_sequences_learn_from_a_ring_that_is_shorter(envs):
    """60 rows, of one environment or of 12, for 40 rows of burn-in and 80 of learning."""
    net = NetConfig(hidden_sizes=(4,), memory="lstm", memory_size=4, sequence_length=80, burn_in=40)
    algorithm = make(net)
    buffer = VectorReplayBuffer(60, envs, priority=Priority(), seed=0)
    rows = play(algorithm.policy, 0, (60 // envs, envs))
    for row in rows:
        buffer.add(row)
    batch, slots = buffer.sample(8, algorithm.sampling)
    stats = algorithm.update(batch)
    assert stats.loss > 0.0
    assert (stats.priorities > 0.0).all()  # of 0, a sequence would hardly ever be drawn again
    buffer.update_weight(slots, stats.priorities)
