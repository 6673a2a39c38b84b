"""Environments with goals, for hindsight."""

import gymnasium as gym
from gymnasium import spaces

from argosy.env import bitflip


class BitFlip(bitflip.BitFlip):
    """Few bits."""

    def __init__(self, bits=6, render_mode=None):
        super().__init__(bits, render_mode)


class TenBits(bitflip.BitFlip):
    """Too many bits to meet the goal by chance."""

    def __init__(self, render_mode=None):
        super().__init__(10, render_mode)


class Rewardless(gym.Env):
    """Has goals, but does not say what reaching another one would have earned."""

    observation_space = BitFlip(2).observation_space
    action_space = spaces.Discrete(2)
