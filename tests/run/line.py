"""An env with a setting, and wrappers, of a user's own."""

import gymnasium as gym
import numpy as np


class Line(gym.Env):
    """Walk to the end of a line of `length` steps; `name` is seen in the infos."""

    action_space = gym.spaces.Discrete(2)

    def __init__(self, length: int = 4, name: str = "line", render_mode=None):
        self.length, self.name = length, name
        self.observation_space = gym.spaces.Box(0.0, float(length), (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.t = 0, 0
        return np.array([0.0], np.float32), {"name": self.name}

    def step(self, action):
        self.at, self.t = max(0, self.at + (1 if action == 1 else -1)), self.t + 1
        arrived = self.at == self.length
        return np.array([self.at], np.float32), float(arrived), arrived, self.t == 20, {"name": self.name}


class Car(gym.Env):
    """The gear that is seen pays 1, being off its way of steering costs; five steps, 5 at most."""

    observation_space = gym.spaces.Box(0.0, 2.0, (1,), np.float32)
    action_space = gym.spaces.Dict(gear=gym.spaces.Discrete(3), steer=gym.spaces.Box(-1.0, 1.0, (1,), np.float32))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self._seen(), {}

    def step(self, action):
        off = abs(action["steer"].item() - self.wanted / 2)
        rew, self.t = float(action["gear"] == self.wanted) - off, self.t + 1
        return self._seen(), rew, False, self.t == 5, {}

    def _seen(self):
        self.wanted = int(self.np_random.integers(3))
        return np.array([self.wanted], np.float32)


def short_line(length: int = 2) -> gym.Env:
    """A function that makes an env."""
    return Line(length)


class Doubled(gym.RewardWrapper):
    """Pay twice."""

    def reward(self, reward):
        return 2.0 * reward


def tenth(env):
    """A function from env to env."""
    return gym.wrappers.TransformReward(env, lambda reward: reward / 10)
