"""Algorithms of every kind of action with curiosity, or another wrapper, around them."""

import numpy as np
from algorithm_checks import observation_space
from gymnasium import spaces

from argosy.algorithm import Task, algorithm_class
from argosy.algorithm.wrapper import wrapped
from argosy.net import NetConfig

BOX = spaces.Box(-1, 1, (2,), np.float32)
ACTIONS = {
    "dqn": spaces.Discrete(3, start=1),
    "ppo": BOX,
    "sac": BOX,
    "a2c": spaces.MultiBinary(3),
    "branching_dqn": spaces.MultiDiscrete([2, 4]),
    "gail": BOX,
    "bc": BOX,
    "dagger": BOX,
}


def make(name, *wrap, seed=0, observation="vector", memory=None, **config):
    cls, space = algorithm_class(name), ACTIONS[name]
    net = NetConfig(hidden_sizes=(8,), memory=memory, memory_size=4)
    task = Task(observation_space=observation_space(observation, space), action_space=space, net=net)
    return wrapped(cls.make(cls.config_type(**config), task, seed), wrap, task, seed)
