"""Environments for fleets: names that only the describing process knows travel along."""

import subprocess
import sys
from pathlib import Path

import cloudpickle
import gymnasium as gym
import pytest

from argosy.collect.source import Agents, EnvSource
from argosy.env import EnvConfig, Environment, register, register_wrapper
from argosy.env.wrappers import wrapper_sources
from argosy.errors import ConfigError


def pendulum():
    return gym.make("Pendulum-v1")


def source(task, wrappers, registered=None):
    config = EnvConfig(wrappers=wrappers)
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


def test_wrappers_are_for_gymnasium_envs():
    class Nobody(Environment):
        def reset(self):
            return []

        def step(self, actions):
            return []

    register("nobody here", Nobody)
    with pytest.raises(
        ConfigError, match=r"EnvConfig\.wrappers is \('travelling flat',\), but 'nobody here' is no gym"
    ):
        source("nobody here", ("travelling flat",), (Nobody, None)).spaces()
