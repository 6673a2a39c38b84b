"""Envs in Ray actors: values, failures, asynchronous stepping."""

import os
import signal
import subprocess
import sys
import time

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from argosy.env import RayVectorEnv
from argosy.errors import EnvError

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.slow  # Ray takes some ten seconds to start


class Counter(gym.Env):
    observation_space = spaces.Box(0, 1000, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, index, delay=0.0):
        self.index, self.delay = index, delay

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.array([self.index, 0], np.float32), {"seed": seed}

    def step(self, action):
        time.sleep(self.delay)
        self.t += 1
        if action == 1 and self.index == 1:
            raise ValueError("boom")
        return np.array([self.index, self.t], np.float32), float(self.t), False, self.t == 3, {"pid": os.getpid()}


@pytest.fixture(scope="module", autouse=True)
def local_ray():
    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def test_a_ray_that_is_started_listens_on_loopback_alone():
    script = """
import contextlib, psutil
from argosy.env.worker.ray import _running_ray
_running_ray()
own = psutil.Process()
for process in [own, *own.children(recursive=True)]:
    with contextlib.suppress(psutil.Error):
        for connection in process.net_connections(kind="inet"):
            if connection.status == psutil.CONN_LISTEN:
                print("at", connection.laddr.ip.removeprefix("::ffff:"))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert {line for line in done.stdout.splitlines() if line.startswith("at ")} == {"at 127.0.0.1"}


def test_values_failures_and_killed_actors():
    env = RayVectorEnv([lambda i=i: Counter(i) for i in range(5)], envs_per_worker=2, num_cpus=0.1)
    seeds = env.seed(1)
    obs, info = env.reset()
    assert obs[:, 0].tolist() == [0, 1, 2, 3, 4]
    assert [one["seed"] for one in info] == seeds
    obs, rew, _, _, info = env.step(np.zeros(5, int))
    assert rew.tolist() == [1] * 5
    pids = [one["pid"] for one in info]
    assert len(set(pids)) == 3
    assert env.step(np.zeros(2, int), [4, 0])[0].tolist() == [[4, 2], [0, 2]]
    assert env.get_env_attr("index", [3]) == [3]
    with pytest.raises(EnvError, match="env 1 failed in step: ValueError: boom") as caught:
        env.step(np.ones(5, int))
    assert "test_ray.py" in str(caught.value)
    assert env.reset()[0][:, 1].tolist() == [0] * 5
    os.kill(pids[4], signal.SIGKILL)
    with pytest.raises(EnvError, match="Ray actor of envs 3 to 4 died"):
        env.step(np.zeros(5, int))
    assert env.step(np.zeros(1, int), [2])[0].tolist() == [[2, 2]]
    env.close()


def test_killed_actor_is_named_while_another_one_is_busy():
    env = RayVectorEnv([lambda i=i: Counter(i, 60.0 * (i == 0)) for i in range(2)], num_cpus=0.1)
    env.reset()
    pid = env.step(np.zeros(1, int), [1])[4][0]["pid"]
    env.send(np.zeros(1, int), [1])
    env.recv()
    os.kill(pid, signal.SIGKILL)
    start = time.monotonic()
    with pytest.raises(EnvError, match="Ray actor of env 1 died"):
        env.step(np.zeros(2, int))
    assert time.monotonic() - start < 30  # long before env 0 has stepped
    ray.kill(env.workers[0].actor)
    env.close()


def test_killed_actor_of_asynchronous_envs_and_timeout():
    env = RayVectorEnv([lambda i=i: Counter(i, 60.0 * (i == 0)) for i in range(3)], timeout=0.5, num_cpus=0.1)
    env.reset()
    env.send(np.zeros(3, int))
    seen = {}
    while seen.keys() != {1, 2}:
        got = env.recv()
        seen |= {int(i): info["pid"] for i, info in zip(got.env_id, got.info, strict=True)}
    os.kill(seen[1], signal.SIGKILL)
    with pytest.raises(EnvError, match="Ray actor of env 1 died"):
        env.step(np.zeros(1, int), [1])
    assert [info["env_id"] for info in env.step(np.zeros(1, int), [2])[4]] == [2]
    ray.kill(env.workers[0].actor)
    env.close()


def test_asynchronous_and_hanging():
    env = RayVectorEnv([lambda i=i: Counter(i, 3.0 if i == 0 else 0.0) for i in range(3)], wait_num=2, num_cpus=0.1)
    env.reset()
    *_, info = env.step(np.zeros(3, int))
    assert sorted(one["env_id"] for one in info) == [1, 2]
    assert sorted(one["env_id"] for one in env.step(None)[4]) == [0]
    env.close()
    env = RayVectorEnv([lambda: Counter(0, 60.0)], num_cpus=0.1, hang_timeout_s=5.0)
    env.reset()
    with pytest.raises(EnvError, match=r"env 0 did not answer in 5.0 s and was killed"):
        env.step(np.zeros(1, int))
    env.close()


def test_more_envs_than_cores_find_a_place():
    env = RayVectorEnv([lambda i=i: Counter(i) for i in range(8)], hang_timeout_s=60.0)
    assert env.reset()[0][:, 0].tolist() == list(range(8))
    env.close()


def test_actors_that_will_not_find_a_place_are_told_of_at_once():
    with (
        pytest.warns(UserWarning, match=r"5 actors of envs ask for 1 cores each \(num_cpus\), and Ray has 4"),
        pytest.raises(EnvError, match=r"did not answer in 1\.0 s"),
    ):
        RayVectorEnv([lambda: Counter(0)] * 5, num_cpus=1, hang_timeout_s=1.0)
