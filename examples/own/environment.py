import gymnasium as gym
import numpy as np

import argosy


class Walk(gym.Env):
    """Walk to the right end of a line."""

    action_space = gym.spaces.Discrete(2)

    def __init__(self, length=10):
        self.length = length
        self.observation_space = gym.spaces.Box(0.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        return np.array([0.0], np.float32), {}

    def step(self, action):
        self.at = max(0, self.at + (1 if action == 1 else -1))
        arrived = self.at == self.length
        return np.array([self.at / self.length], np.float32), float(arrived) - 0.1, arrived, False, {}


if __name__ == "__main__":
    short = {"max_epoch": 2, "step_per_epoch": 1000, "start_steps": 200}  # a short run, for the example
    env = {"kwargs": {"length": 4}, "max_episode_steps": 50}
    result = argosy.train("dqn", Walk, env=env, trainer=short, stop={"episodes": 5}, show_progress=False)
    print(result.test_return_mean)
