"""Flip one of some bits per step until they are the wanted ones (Andrychowicz et al., 2017, section 3.1)."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class BitFlip(gym.Env):
    """An episode has as many steps as bits; each step costs 1 while the bits are not the goal's."""

    def __init__(self, bits=6, render_mode=None):
        self.bits = bits
        box = spaces.Box(0, 1, (bits,), np.float32)
        self.observation_space = spaces.Dict(dict.fromkeys(("observation", "achieved_goal", "desired_goal"), box))
        self.action_space = spaces.Discrete(bits)

    def compute_reward(self, achieved_goal, desired_goal, info):
        return -(achieved_goal != desired_goal).any(axis=-1).astype(np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        self.state, self.goal = self.np_random.integers(2, size=(2, self.bits)).astype(np.float32)
        return self.obs(), {}

    def step(self, action):
        self.t += 1
        self.state[action] = 1 - self.state[action]
        return self.obs(), float(self.compute_reward(self.state, self.goal, {})), False, self.t == self.bits, {}

    def obs(self):
        return {"observation": self.state.copy(), "achieved_goal": self.state.copy(), "desired_goal": self.goal.copy()}


class TenBits(BitFlip):
    """Too many bits to meet the goal by chance."""

    def __init__(self, render_mode=None):
        super().__init__(10)


class Rewardless(gym.Env):
    """Has goals, but does not say what reaching another one would have earned."""

    observation_space = BitFlip(2).observation_space
    action_space = spaces.Discrete(2)
