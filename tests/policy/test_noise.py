"""Noise objects: moments, the process by its recursion, and a policy of one's own that explores by one."""

import numpy as np
import pytest
from gymnasium import spaces

from argosy.data import Batch
from argosy.errors import ConfigError
from argosy.policy import ForwardPolicy, GaussianNoise, OUNoise, RolloutRequest


def test_gaussian_noise_has_its_moments_and_follows_its_generator():
    drawn = GaussianNoise(2.0, 0.5, rng=np.random.default_rng(1))((2000, 2))
    assert drawn.shape == (2000, 2)
    assert drawn.mean() == pytest.approx(2.0, abs=0.03)
    assert drawn.std() == pytest.approx(0.5, abs=0.03)
    assert (drawn == GaussianNoise(2.0, 0.5, rng=np.random.default_rng(1))((2000, 2))).all()
    assert GaussianNoise()(3).shape == (3,)
    with pytest.raises(ConfigError, match="sigma is -1; a deviation must be >= 0"):
        GaussianNoise(sigma=-1)


def test_ornstein_uhlenbeck_by_its_recursion():
    noise = OUNoise(mu=1.0, sigma=0.3, theta=0.5, dt=0.04, x0=2.0, rng=np.random.default_rng(3))
    normal = np.random.default_rng(3)
    x = 2.0
    for _ in range(5):
        x = x + 0.5 * (1.0 - x) * 0.04 + 0.3 * 0.2 * normal.standard_normal(2)
        assert noise((2,)) == pytest.approx(x)
    noise.sigma = 0.0
    noise.reset()
    assert noise(2).tolist() == [1.98, 1.98]  # from x0 again
    assert noise(3).tolist() == [1.98] * 3  # another shape: anew


def test_a_policy_of_ones_own_explores_by_it():
    class Still(ForwardPolicy):
        def __init__(self):
            super().__init__(action_space=spaces.Box(-1, 1, (2,)))
            self.noise = OUNoise(sigma=1.0, rng=self.rng.numpy)

        def exploration_noise(self, act, batch):
            return act + self.noise(act.shape)

        def forward(self, batch, state=None):
            return Batch(act=np.zeros((len(batch.obs), 2)))

    def first(seed):
        policy = Still()
        policy.seed(seed)
        policy.noise.rng = policy.rng.numpy
        return policy.rollout(RolloutRequest(obs=np.zeros((2, 1)), is_evaluation=np.array([True, False]))).action

    act = first(7)
    assert (act[0] == 0).all()
    assert (act[1] != 0).all()
    assert (act == first(7)).all()
