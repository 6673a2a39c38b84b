import numpy as np
import pytest
import torch
from gymnasium import spaces
from probes import GAMMA, of_both_spaces
from stand_ins import Recorder

from argosy.algorithm import A2C, A2CConfig, OptimConfig, Task
from argosy.data import Batch

OBS = spaces.Box(-10, 10, (1,), np.float32)

CASES = {
    "discrete": (A2CConfig(), spaces.Discrete(3)),
    "multi-discrete": (A2CConfig(normalize_adv=True, popart=True), spaces.MultiDiscrete([2, 3])),
    "box": (A2CConfig(return_scaling=True, gae_lambda=0.95), spaces.Box(-2.0, 2.0, (2,), np.float32)),
    "gsde": (A2CConfig(gsde_steps=3), spaces.Box(-2.0, 2.0, (2,), np.float32)),
}
RANGES = [
    ("gae_lambda", -0.1),
    ("value_coef", -1.0),
    ("entropy_coef", -0.1),
    ("entropy_coef_end", -0.1),
    ("action_bound_method", "cut"),
    ("log_std_init", 3.0),
    ("gsde_steps", 0),
]
PROBED = of_both_spaces(A2CConfig(gamma=GAMMA, optim=OptimConfig(lr=0.02), entropy_coef=0.0), 80)


def make(**config):
    return A2C.make(A2CConfig(**config), Task(observation_space=OBS, action_space=spaces.Discrete(2)), seed=0)


def rollout(rew, terminated, obs_next):
    """One env, whose observations are 1, 2, ..."""
    T = len(rew)
    cut = np.array([*terminated[:-1], True])
    columns = {"rew": np.float32(rew), "terminated": np.array(terminated), "cut": cut, "act": np.zeros(T, np.int64)}
    obs = {"obs": np.arange(1, T + 1, dtype=np.float32), "obs_next": np.float32(obs_next)}
    data = {**{name: x[:, None] for name, x in columns.items()}, **{name: x[:, None, None] for name, x in obs.items()}}
    return Batch({**data, "policy": Batch(logp=np.zeros((T, 1), np.float32))})


def value_is_observation(algorithm, logp, entropy):
    def said(obs):
        value = obs.squeeze(-1)
        return Batch(value=value, logp=0 * value + logp, entropy=0 * value + entropy)

    algorithm.policy.analyze = lambda sample: said(sample.obs)
    algorithm.policy.analyze_next = lambda sample, rows: said(sample.obs_next[rows])


def test_loss_by_hand():
    algorithm = make(gamma=0.5, value_coef=0.25, entropy_coef=0.1)
    algorithm.optim = Recorder()
    value_is_observation(algorithm, logp=-2.0, entropy=0.5)
    stats = algorithm.update(rollout([1, 2, 3], [False, True, False], [2, 99, 8]))
    # returns: 1 + 0.5 * 2 = 2; 2 (terminated); 3 + 0.5 * 8 = 7. Values 1, 2, 3: advantages 1, 0, 4
    assert stats.loss_policy == pytest.approx(2.0 * 5 / 3)
    assert stats.loss_value == pytest.approx((1 + 0 + 16) / 3)
    assert stats.entropy == pytest.approx(0.5)
    assert stats.loss == pytest.approx(2.0 * 5 / 3 + 0.25 * 17 / 3 - 0.1 * 0.5)
    assert algorithm.optim.losses[0].item() == pytest.approx(stats.loss)
    assert stats.explained_variance == pytest.approx(1 - np.var([1, 0, 4]) / np.var([2, 2, 7]))
    assert stats.gradient_steps == 1


def test_advantages_may_be_normalised():
    algorithm = make(gamma=0.5, normalize_adv=True)
    algorithm.optim = Recorder()
    value_is_observation(algorithm, logp=torch.tensor([-1.0]), entropy=0.0)
    stats = algorithm.update(rollout([1, 2, 3], [False, True, False], [2, 99, 8]))
    assert stats.loss_policy == pytest.approx(0.0, abs=1e-6)


def test_schedule_of_the_entropy_bonus():
    algorithm = make(entropy_coef=0.1, entropy_coef_end=0.0)
    algorithm.schedule(500, 1000)
    assert algorithm.entropy_coef == pytest.approx(0.05)
    value_is_observation(algorithm, logp=0.0, entropy=2.0)
    algorithm.optim = Recorder()
    stats = algorithm.update(rollout([1.0], [True], [9]))
    assert stats.loss == pytest.approx(-0.05 * 2.0)
