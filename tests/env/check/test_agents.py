"""The checker of environments for several agents: one planted fault per sentence, and a sound one without any."""

import re

import numpy as np
import pytest
from gymnasium import spaces

from argosy.env import Environment, StepResult, register, registered_environments, test_environment


class Duel(Environment):
    """Two agents in turn, three turns each; `fault` plants a mistake."""

    def __init__(self, fault=None):
        if fault == "constructor":
            raise RuntimeError("planted")
        self.fault, self.agent_count = fault, 0 if fault == "no agents" else 2
        if fault == "nothing set":
            del self.agent_count
        self.observation_spaces = [spaces.Box(0, 10, (1,))] * (1 if fault == "spaces" else 2)
        self.action_spaces = [spaces.Discrete(2)] * 2

    def reset(self):
        self.turn = 0
        if self.fault == "reset":
            raise RuntimeError("planted")
        return self._results(0)

    def _obs(self):
        value = {"obs value": 11.0, "obs nan": np.nan}.get(self.fault, float(self.turn))
        return np.full(2 if self.fault == "obs shape" else 1, value, np.float32)

    def _results(self, agent):
        results = [None, None]
        results[agent] = StepResult(self._obs(), np.inf if self.fault == "reward" else 1.0)
        return results

    def step(self, actions):
        if self.fault == "list":
            return self._results(0)[0]
        assert [a is None for a in actions] == [self.turn % 2 == 1, self.turn % 2 == 0]
        self.turn += 1
        if self.fault == "nobody":
            return [None, None]
        if self.turn == 6:
            both = self.fault == "both flags"
            return [StepResult(self._obs(), 1.0, terminated=True, truncated=both) for _ in range(2)]
        if self.fault == "ghost" and self.turn > 2:
            return [StepResult(self._obs(), terminated=True), StepResult(self._obs())]
        return self._results(self.turn % 2)


def test_a_sound_environment_passes():
    register("duel to check", Duel)
    assert test_environment("duel to check") == []


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ("constructor", "planted"),
        ("nothing set", "has no agent_count"),
        ("no agents", "agent_count is 0"),
        ("spaces", "observation_spaces has 1 entries for 2 agents"),
        ("reset", "reset of episode 0 raised RuntimeError"),
        ("obs value", "agent 0: observation"),
        ("obs nan", "NaN"),
        ("obs shape", r"shape \(2,\)"),
        ("reward", "reward is inf"),
        ("list", "instead of a list of 2"),
        ("nobody", "no agent is to act"),
        ("both flags", "terminated and truncated are both True"),
        ("ghost", "whose episode is over"),
    ],
)
def test_faults_are_said_in_sentences(fault, sentence):
    if "faulty duel" not in registered_environments():
        register("faulty duel", Duel)
    found = test_environment("faulty duel", {"fault": fault})
    assert found
    assert re.search(sentence, found[0]), found
