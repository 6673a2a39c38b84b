"""Environments for fleets: names that only the describing process knows travel along."""

import subprocess
import sys
from pathlib import Path

import cloudpickle
import gymnasium as gym
import numpy as np
import pytest

from argosy.collect.source import Agents, EnvSource
from argosy.env import EnvConfig, Environment, register, register_wrapper
from argosy.env.wrappers import wrapper_sources
from argosy.errors import ConfigError, EnvError


def pendulum():
    return gym.make("Pendulum-v1")


def source(task, wrappers=(), registered=None, **settings):
    config = EnvConfig(wrappers=wrappers, **settings)
    return EnvSource(task, registered, {}, config, (Agents(".*"),), wrapper_sources(wrappers))


register_wrapper("travelling flat", lambda env: gym.wrappers.FlattenObservation(env))


@pytest.mark.parametrize("registered", [None, (lambda: gym.make("Pendulum-v1"), None)], ids=["task", "registered"])
def test_wrappers_in_a_process_that_lacks_their_names(registered, tmp_path):
    task = "Pendulum-v1" if registered is None else "travelling swing"
    made = source(task, ("FrameStack(num_stack=2)", "travelling flat"), registered)
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    try:
        (tmp_path / "source").write_bytes(cloudpickle.dumps(made))
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    code = (
        "import cloudpickle, sys; made = cloudpickle.load(open(sys.argv[1], 'rb'));"
        "print(made.spaces()[0][0].shape, made.rows(3))"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "source")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr
    assert done.stdout == "(6,) [3]\n"


def test_registered_envs_end_at_the_limit():
    arena = source("limited swing", registered=(pendulum, None), max_episode_steps=3).arena(2, 0)
    arena.reset()
    ends = [arena.step([np.zeros((2, 1), np.float32)])[0].truncated.tolist() for _ in range(4)]
    assert ends == [[False] * 2, [False] * 2, [True] * 2, [False] * 2]


def test_gymnasium_s_wrappers_and_limits_are_for_its_envs():
    class Nobody(Environment):
        def reset(self):
            return []

        def step(self, actions):
            return []

    register("nobody here", Nobody)
    with pytest.raises(EnvError, match=r"wrapper 'travelling flat' does not fit"):
        source("nobody here", ("travelling flat",), (Nobody, None)).spaces()
    with pytest.raises(ConfigError, match=r"EnvConfig\.max_episode_steps is 5, but 'nobody here' is no gym"):
        source("nobody here", (), (Nobody, None), max_episode_steps=5).spaces()
