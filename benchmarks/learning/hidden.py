"""Tasks that need memory: observations without velocities, as a wrapper for `env.wrappers`.

    python benchmarks/learning/run.py dqn CartPole-v1 --label hidden-gru --bar 450 \
        --set 'env.wrappers=["hidden:HideVelocities"]' --set 'net.memory="gru"'
"""

from __future__ import annotations

import gymnasium as gym
import numpy as np
from gymnasium import spaces

POSITIONS = {"CartPoleEnv": (0, 2), "PendulumEnv": (0, 1)}
"""Entries of the observation that are no velocities, by the env's class."""


class HideVelocities(gym.ObservationWrapper):
    """Leaves the positions: cart and pole of CartPole, the angle's cosine and sine of Pendulum."""

    def __init__(self, env: gym.Env) -> None:
        super().__init__(env)
        self.keep = list(POSITIONS[type(env.unwrapped).__name__])
        full = env.observation_space
        self.observation_space = spaces.Box(full.low[self.keep], full.high[self.keep], dtype=np.float32)

    def observation(self, observation: np.ndarray) -> np.ndarray:
        return np.asarray(observation[self.keep], np.float32)
