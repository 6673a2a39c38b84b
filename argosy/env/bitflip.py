"""Flip bits, one per step, until they are the wanted ones: what cannot be learned without hindsight.

    argosy train dqn --task argosy.env.bitflip:BitFlip --buffer.hindsight.future-k 4 --buffer.hindsight.horizon 15

By chance the goal is never met, so that no reward tells what to do (Andrychowicz et al., 2017,
https://arxiv.org/abs/1707.01495, section 3.1).
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

Bits = NDArray[np.float32]


class BitFlip(gym.Env[Any, Any]):
    """An episode has as many steps as bits at most; each costs 1 unless it makes them those of the goal, the last one.

    Args:
        bits: how many.
        render_mode: None.
    """

    def __init__(self, bits: int = 15, render_mode: str | None = None) -> None:
        self.bits, self.render_mode = bits, render_mode
        box = spaces.Box(0.0, 1.0, (bits,), np.float32)
        self.observation_space = spaces.Dict(dict.fromkeys(("observation", "achieved_goal", "desired_goal"), box))
        self.action_space = spaces.Discrete(bits)

    def compute_reward(self, achieved_goal: Bits, desired_goal: Bits, info: object) -> Bits:
        """0 where all bits are the goal's, else -1: [..., bits] -> [...]."""
        return self.compute_terminated(achieved_goal, desired_goal, info).astype(np.float32) - 1.0

    def compute_terminated(self, achieved_goal: Bits, desired_goal: Bits, info: object) -> NDArray[np.bool_]:
        """Whether all bits are the goal's: [..., bits] -> [...]."""
        return np.asarray((achieved_goal == desired_goal).all(axis=-1))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Bits], dict[str, Any]]:
        """Draw bits and goal."""
        super().reset(seed=seed)
        self._steps = 0
        self._now, self._goal = self.np_random.integers(2, size=(2, self.bits)).astype(np.float32)
        return self._obs(), {}

    def step(self, action: int) -> tuple[dict[str, Bits], float, bool, bool, dict[str, Any]]:
        """Flip the bit `action`."""
        self._steps += 1
        self._now[action] = 1.0 - self._now[action]
        reward = float(self.compute_reward(self._now, self._goal, {}))
        solved = reward == 0.0
        return self._obs(), reward, solved, self._steps == self.bits, {"is_success": solved}

    def _obs(self) -> dict[str, Bits]:
        return {"observation": self._now.copy(), "achieved_goal": self._now.copy(), "desired_goal": self._goal.copy()}
