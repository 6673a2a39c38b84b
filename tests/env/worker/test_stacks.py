"""The processes of envs say where they are, and which env is at work."""

import threading
import time

import gymnasium as gym
import numpy as np
import pytest

from argosy.env.worker.process import ProcessWorker, env_stacks


class Hang(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (3,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return np.zeros(3, np.float32), {}

    def step(self, action):
        if action:
            time.sleep(60.0)
        return np.zeros(3, np.float32), 0.0, False, False, {}


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_process_tells_where_its_env_hangs(method):
    worker = ProcessWorker([Hang, Hang], first=4, start_method=method)
    try:
        assert worker.made() is not None
        worker.send("step", None, [0, 1])
        pid, deadline = worker.process.pid, time.monotonic() + 20.0
        while "busy" not in str(stacks := env_stacks(threading.get_ident())) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert list(stacks) == [f"envs 4 to 5 (pid {pid}, busy with env 5)"]
        assert "in step" in stacks[f"envs 4 to 5 (pid {pid}, busy with env 5)"]
        assert env_stacks(-1) == {}  # of no other thread's making
    finally:
        worker.process.kill()
        worker.close(0.0)
    assert env_stacks(threading.get_ident()) == {}
