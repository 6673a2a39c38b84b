import gymnasium as gym
import numpy as np
from stable_baselines3 import DQN
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor


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
    env = Monitor(gym.wrappers.TimeLimit(Walk(length=4), 50))
    model = DQN("MlpPolicy", env, learning_starts=200)
    model.learn(2000)
    mean, _ = evaluate_policy(model, env, n_eval_episodes=5)
    print(mean)
