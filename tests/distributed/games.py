"""Games for several agents whose best return is known."""

import numpy as np
from gymnasium import spaces

from argosy.env import Environment, StepResult


class Pairs(Environment):
    """Two agents act at once for 8 steps; each sees a sign and is paid 1 for naming it (agent 1: for the opposite)."""

    agent_count = 2

    def __init__(self):
        self.observation_spaces = [spaces.Box(-1, 1, (1,)), spaces.Box(-1, 1, (2,))]
        self.action_spaces = [spaces.Discrete(2), spaces.Discrete(2)]
        self.rng = np.random.default_rng(0)

    def seed(self, seed):
        self.rng = np.random.default_rng(seed)

    def _look(self):
        self.signs = self.rng.integers(2, size=2)
        return [np.array([2.0 * self.signs[0] - 1], np.float32), np.full(2, 2.0 * self.signs[1] - 1, np.float32)]

    def reset(self):
        self.t = 0
        return [StepResult(obs) for obs in self._look()]

    def step(self, actions):
        paid = [float(actions[0] == self.signs[0]), float(actions[1] != self.signs[1])]
        self.t += 1
        return [StepResult(obs, pay, terminated=self.t == 8) for obs, pay in zip(self._look(), paid, strict=True)]


class Turns(Pairs):
    """The same in turn: agent 0 acts in even steps, agent 1 in odd ones; 4 actions each."""

    def reset(self):
        self.t = 0
        self.owed = [0.0, 0.0]
        return [StepResult(self._look()[0]), None]

    def step(self, actions):
        actor = self.t % 2
        assert actions[1 - actor] is None
        right = actions[actor] == self.signs[actor] if actor == 0 else actions[actor] != self.signs[actor]
        self.owed[actor] = float(right)
        self.t += 1
        obs = self._look()
        if self.t == 8:
            return [StepResult(obs[i], self.owed[i], terminated=True) for i in range(2)]
        results = [None, None]
        results[1 - actor] = StepResult(obs[1 - actor], self.owed[1 - actor])
        self.owed[1 - actor] = 0.0
        return results
