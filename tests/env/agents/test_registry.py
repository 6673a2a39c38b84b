"""Environments by name, and PettingZoo and gymnasium envs registered as they are."""

import gymnasium as gym
import numpy as np
import pytest

from argosy.env import Environment, PettingZoo, make_environment, register, test_environment
from argosy.env.tasks import task_family
from argosy.errors import ConfigError, EnvError


class Empty(Environment):
    def reset(self):
        return []

    def step(self, actions):
        return []


def test_names_are_taken_once_and_the_nearest_is_offered():
    register("duel", Empty)
    assert isinstance(make_environment("duel"), Empty)
    with pytest.raises(ConfigError, match="registered already"):
        register("duel", Empty)
    with pytest.raises(ConfigError, match="did you mean 'duel'"):
        make_environment("duell")
    with pytest.raises(ConfigError, match="needs module"):
        register("other", "Empty")


def test_lazy_registration_and_missing_classes():
    register("lazy", "node", module="platform")
    register("no env", "OrderedDict", module="collections")
    with pytest.raises(ConfigError, match=r"'no env' is the class .* which has no reset and no step"):
        make_environment("no env")
    with pytest.raises(EnvError, match=r"must be an argosy\.env\.Environment"):
        make_environment("lazy")
    with pytest.raises(ConfigError, match="'Nothing' could not be imported"):
        make_environment("argosy.env.agents.registry:Nothing")


def test_pettingzoo_envs_are_registered_as_they_are():
    pytest.importorskip("pettingzoo")
    from pettingzoo.classic import rps_v2

    register("rps", rps_v2.parallel_env)
    register("tictactoe", "env", module="pettingzoo.classic.tictactoe_v3")
    assert isinstance(make_environment("rps", {"max_cycles": 5}), PettingZoo)
    assert test_environment("rps", {"max_cycles": 5}) == []
    assert test_environment("tictactoe") == []
    assert task_family("rps") == "other"


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
