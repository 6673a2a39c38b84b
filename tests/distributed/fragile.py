"""CartPole that fails on demand."""

import os
import time
from pathlib import Path

import gymnasium
import numpy as np

from argosy.env import Environment, StepResult


class FragileCartPole(Environment):
    """Raises instead of every `raise_every`-th step, and hangs while the file `hang`/PID is there."""

    agent_count = 1

    def __init__(self, raise_every=None, hang=None):
        self.env = gymnasium.make("CartPole-v1")
        self.observation_spaces, self.action_spaces = [self.env.observation_space], [self.env.action_space]
        self.raise_every, self.steps, self.start = raise_every, 0, None
        self.hang = None if hang is None else Path(hang) / str(os.getpid())

    def seed(self, seed):
        self.start = seed

    def reset(self):
        obs, _ = self.env.reset(seed=self.start)
        self.start = None
        return [StepResult(obs)]

    def step(self, actions):
        self.steps += 1
        if self.raise_every and self.steps % self.raise_every == 0:
            raise RuntimeError("the simulator crashed")
        while self.hang is not None and self.hang.exists():
            time.sleep(1.0)
        obs, reward, terminated, truncated, _ = self.env.step(np.asarray(actions[0]).item())
        return [StepResult(obs, float(reward), terminated=terminated, truncated=truncated)]

    def close(self):
        self.env.close()
