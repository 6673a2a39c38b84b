"""Games for several agents whose best return is known, and that of an untrained policy, too.

An agent sees two signs. Agent 0 is paid 1 for saying whether they are equal, agent 1 for the opposite. What a network
without biases says first changes with the signs' sign, and so it is right half of the time, whatever its weights.
"""

import numpy as np
from gymnasium import spaces

from argosy.data import Batch
from argosy.env import Environment, StepResult
from argosy.policy import ForwardPolicy


class Pairs(Environment):
    """Two agents act at once for 8 steps."""

    agent_count = 2

    def __init__(self):
        self.observation_spaces = [spaces.Box(-1, 1, (2,)), spaces.Box(-1, 1, (3,))]
        self.action_spaces = [spaces.Discrete(2), spaces.Discrete(2)]
        self.rng = np.random.default_rng(0)

    def seed(self, seed):
        self.rng = np.random.default_rng(seed)

    def _look(self):
        signs = self.rng.choice([-1.0, 1.0], (2, 2)).astype(np.float32)
        self.right = [int(signs[0, 0] == signs[0, 1]), int(signs[1, 0] != signs[1, 1])]
        return [signs[0], np.append(signs[1], np.float32(0.0))]

    def reset(self):
        self.t = 0
        return [StepResult(obs) for obs in self._look()]

    def step(self, actions):
        paid = [float(act == right) for act, right in zip(actions, self.right, strict=True)]
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
        self.owed[actor] = float(actions[actor] == self.right[actor])
        self.t += 1
        obs = self._look()
        if self.t == 8:
            return [StepResult(obs[i], self.owed[i], terminated=True) for i in range(2)]
        results = [None, None]
        results[1 - actor] = StepResult(obs[1 - actor], self.owed[1 - actor])
        self.owed[1 - actor] = 0.0
        return results


def pettingzoo_turns():
    """The same as a PettingZoo AEC env, where the library's own bookkeeping says who is paid when."""
    from pettingzoo import AECEnv

    from argosy.env import PettingZoo

    class AEC(AECEnv):
        def __init__(self):
            super().__init__()
            self.metadata = {"name": "turns"}
            self.game = Pairs()
            self.possible_agents = ["even", "odd"]

        def observation_space(self, agent):
            return self.game.observation_spaces[self.possible_agents.index(agent)]

        def action_space(self, agent):
            return self.game.action_spaces[self.possible_agents.index(agent)]

        def reset(self, seed=None, options=None):
            if seed is not None:
                self.game.seed(seed)
            self.agents = list(self.possible_agents)
            self.rewards, self._cumulative_rewards = dict.fromkeys(self.agents, 0.0), dict.fromkeys(self.agents, 0.0)
            self.terminations, self.truncations = dict.fromkeys(self.agents, False), dict.fromkeys(self.agents, False)
            self.infos = {agent: {} for agent in self.agents}
            self.seen, self.moves, self.agent_selection = self.game._look(), 0, "even"

        def observe(self, agent):
            return self.seen[self.possible_agents.index(agent)]

        def step(self, action):
            if self.terminations[self.agent_selection]:
                self._was_dead_step(action)
                return
            actor = self.possible_agents.index(self.agent_selection)
            self._cumulative_rewards[self.agent_selection] = 0.0
            self._clear_rewards()
            self.rewards[self.agent_selection] = float(action == self.game.right[actor])
            self._accumulate_rewards()
            self.seen, self.moves = self.game._look(), self.moves + 1
            if self.moves == 8:
                self.terminations = dict.fromkeys(self.agents, True)
            self.agent_selection = self.possible_agents[1 - actor]

    return PettingZoo(AEC())


class Line(Environment):
    """Two agents name a number for 4 steps; each is paid what the other one names."""

    agent_count = 2
    observation_spaces = [spaces.Box(-1, 1, (2,))] * 2
    action_spaces = [spaces.Discrete(5)] * 2

    def seed(self, seed):
        pass

    def reset(self):
        self.t = 0
        return [StepResult(np.zeros(2, np.float32))] * 2

    def step(self, actions):
        self.t += 1
        return [StepResult(np.zeros(2, np.float32), float(a), terminated=self.t == 4) for a in actions[::-1]]


class Three(ForwardPolicy):
    """Always the same; no parameters."""

    def forward(self, batch, state=None):
        return Batch(act=np.full(len(batch.obs), 3))
