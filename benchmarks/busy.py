"""An environment that keeps its core busy for a given time per step, for the rows on vector environments."""

from __future__ import annotations

import time
from typing import Any

import gymnasium as gym
import numpy as np


class Busy(gym.Env[Any, Any]):
    """Counts for `step_s` seconds in every step; the observation is zeros with the number of the step in front."""

    def __init__(self, step_s: float, shape: tuple[int, ...] = (4,), dtype: Any = np.float32) -> None:
        self.observation_space = gym.spaces.Box(0, 255, shape, dtype)
        self.action_space = gym.spaces.Discrete(2)
        self.step_s = step_s
        self.obs = np.zeros(shape, dtype)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.t = 0
        return self.obs, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        end = time.perf_counter() + self.step_s
        while time.perf_counter() < end:
            pass
        self.t += 1
        self.obs.flat[0] = self.t % 200
        return self.obs, 1.0, False, False, {}


class Waiting(Busy):
    """Waits 1 to 20 ms in every step, as for a simulator or a model somewhere else."""

    def __init__(self, seed: int) -> None:
        super().__init__(0.0)
        self.rng = np.random.default_rng(seed)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        time.sleep(self.rng.uniform(0.001, 0.020))
        return super().step(action)
