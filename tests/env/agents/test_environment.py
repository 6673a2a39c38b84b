import re

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from argosy.env.agents.environment import (
    Environment,
    PettingzooAEC,
    PettingzooParallel,
    StepResult,
    make_environment,
    register,
    registered_environments,
    test_environment,
)
from argosy.env.registry import task_family
from argosy.errors import ConfigError, EnvError


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


def test_faultless_environment_passes():
    register("duel", Duel)
    assert test_environment("duel") == []
    with pytest.raises(ConfigError, match="registered already"):
        register("duel", Duel)
    with pytest.raises(ConfigError, match="did you mean 'duel'"):
        make_environment("duell")
    with pytest.raises(ConfigError, match="needs module"):
        register("other", "Duel")


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


def test_lazy_registration_and_missing_classes():
    register("lazy", "OrderedDict", module="collections")
    with pytest.raises(EnvError, match=r"must be an argosy\.env\.Environment"):
        make_environment("lazy")
    with pytest.raises(ConfigError, match="'Nothing' could not be imported"):
        make_environment("argosy.env.agents.environment:Nothing")


def test_pettingzoo_parallel_and_turn_based():
    pytest.importorskip("pettingzoo")
    from pettingzoo.classic import rps_v2, tictactoe_v3

    register("rps", rps_v2.parallel_env)  # as they are
    register("tictactoe", "env", module="pettingzoo.classic.tictactoe_v3")
    assert isinstance(make_environment("rps", {"max_cycles": 5}), PettingzooParallel)
    assert test_environment("rps", {"max_cycles": 5}) == []
    assert test_environment("tictactoe") == []
    assert task_family("rps") == "other"

    env = PettingzooAEC(tictactoe_v3.env)
    first, second = env.reset()
    assert second is None
    assert first.obs["action_mask"].tolist() == [1] * 9
    # X takes the top row (cells 0, 3, 6 are one line), O answers beside it
    for agent, cell in enumerate([0, 1, 3, 4, 6]):
        results = env.step([cell, None] if agent % 2 == 0 else [None, cell])
    assert (results[0].reward, results[1].reward) == (1.0, -1.0)
    assert results[0].terminated
    assert results[1].terminated
    assert env.reset()[0].reward == 0.0


class Staged(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (1,))
    action_space = gym.spaces.Discrete(2)
    stage = ""

    def set_curriculum_stage(self, name):
        self.stage = name

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.full(1, self.np_random.uniform(), np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), 1, True, True, {"stage": self.stage}


def test_gymnasium_envs_are_registered_as_they_are():
    register("cartpole", lambda: gym.make("CartPole-v1"))
    register("staged", Staged)
    assert test_environment("cartpole") == []
    assert test_environment("staged") == []
    env = make_environment("staged")
    env.seed(3)
    env.set_curriculum_stage("hard")
    (first,) = env.reset()
    env.seed(3)
    assert env.reset()[0].obs == first.obs
    (result,) = env.step([1])
    assert (result.reward, result.terminated, result.truncated, result.info) == (1.0, True, False, {"stage": "hard"})
    with pytest.raises(EnvError, match="no curriculum stages"):
        make_environment("cartpole").set_curriculum_stage("hard")
