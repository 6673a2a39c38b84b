"""Asynchronous stepping: whoever is ready comes first, every env keeps its own stream."""

import threading
import time

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from argosy.env import AsyncVectorEnv, DummyVectorEnv, ShmemVectorEnv, SubprocVectorEnv
from argosy.errors import ConfigError, EnvError

KINDS = [DummyVectorEnv, SubprocVectorEnv, ShmemVectorEnv]
PROCESSES = KINDS[1:]


class Gate(gym.Env):
    """Observation (index, step); env i sleeps `delays[i]` in a step."""

    observation_space = spaces.Box(0, 1000, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, index, delay=0.0):
        self.index, self.delay, self.t = index, delay, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.array([self.index, 0], np.float32), {"seed": seed}

    def step(self, action):
        time.sleep(self.delay)
        self.t += 1
        return np.array([self.index, self.t], np.float32), float(action), False, self.t == 5, {}


def gates(*delays):
    return [lambda i=i, d=d: Gate(i, d) for i, d in enumerate(delays)]


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def kind(request):
    return request.param


def test_fast_envs_are_handed_out_first():
    for kind in PROCESSES:
        env = kind(gates(5.0, 0.0, 0.0, 5.0), wait_num=2)
        assert env.is_async
        assert [len(worker.ids) for worker in env.workers] == [1, 1, 1, 1]
        env.reset()
        obs, rew, _, _, info = env.step(np.array([0, 1, 0, 1]))
        assert sorted(one["env_id"] for one in info) == [1, 2]
        assert {int(o[0]): r for o, r in zip(obs, rew, strict=True)} == {1: 1.0, 2: 0.0}
        with pytest.raises(EnvError, match="env 0 is still at work"):
            env.step(np.zeros(1, int), [0])
        with pytest.raises(EnvError, match="env 3 is still at work"):
            env.get_env_attr("t", [3])
        with pytest.raises(EnvError, match="env 0 is still at work"):
            env.reset([0])
        assert env.get_env_attr("t", [1, 2]) == [1, 1]
        assert env.reset([2, 1])[0].tolist() == [[2, 0], [1, 0]]
        _, _, _, _, info = env.step(np.zeros(2, int), [2, 1])
        assert sorted(one["env_id"] for one in info) == [1, 2]
        for worker in env.workers:
            worker.process.kill()  # do not wait for the sleepers
        env.close()


def test_timeout_hands_out_what_is_ready():
    for kind in PROCESSES:
        env = kind(gates(5.0, 0.0, 0.0), wait_num=3, timeout=0.2)
        env.reset()
        _, _, _, _, info = env.step(np.zeros(3, int))
        assert sorted(one["env_id"] for one in info) == [1, 2]
        for worker in env.workers:
            worker.process.kill()
        env.close()
        # nobody is ready in time: wait for the first
        env = kind(gates(0.3, 5.0), timeout=0.01)
        env.reset()
        assert [one["env_id"] for one in env.step(np.zeros(2, int))[4]] == [0]
        for worker in env.workers:
            worker.process.kill()
        env.close()


def test_every_env_keeps_its_stream(kind):
    env = kind(gates(*[0.0] * 5), wait_num=2)
    assert isinstance(env, AsyncVectorEnv)
    seeds = env.seed(4)
    env.send_reset()
    steps, counts, seen_seeds = np.full(5, -1), np.zeros(5, int), {}
    for _ in range(100):
        got = env.recv()
        assert len(got.env_id) >= 2
        assert got.obs[:, 0].tolist() == got.env_id.tolist()
        assert [one["env_id"] for one in got.info] == got.env_id.tolist()
        for row, i in enumerate(got.env_id):
            if got.is_reset[row]:
                seen_seeds.setdefault(int(i), got.info[row]["seed"])
                assert (got.rew[row], got.truncated[row]) == (0, False)
                steps[i] = 0
            else:
                steps[i] += 1
                counts[i] += 1
                assert got.rew[row] == steps[i] % 2
            assert got.obs[row, 1] == steps[i]
            assert got.truncated[row] == (steps[i] == 5)
        done = got.env_id[got.truncated]
        going = got.env_id[~got.truncated]
        if len(done):
            env.send_reset(done)
        if len(going):
            env.send((steps[going] + 1) % 2, going)
    assert counts.min() > 5
    assert seen_seeds == dict(enumerate(seeds))
    env.close()


def test_synchronous_envs_send_and_receive_too(kind):
    env = kind(gates(*[0.0] * 4))
    assert not env.is_async
    with pytest.raises(EnvError, match="no env is at work"):
        env.recv()
    env.send_reset()
    first = env.recv()
    assert sorted(first.env_id.tolist()) == [0, 1, 2, 3]
    assert first.is_reset.all()
    env.send(np.array([1, 0]), [3, 1])
    env.send(np.array([1]), [2])
    got = env.recv()
    assert dict(zip(got.env_id.tolist(), got.rew.tolist(), strict=True)) == {3: 1, 1: 0, 2: 1}
    assert env.step(np.ones(4, int))[0][:, 1].tolist() == [1, 2, 2, 2]
    env.close()


def test_step_without_action_only_fetches(kind):
    env = kind(gates(*[0.0] * 4), wait_num=1)
    env.reset()
    env.send(np.zeros(4, int))
    seen = []
    while len(seen) < 4:
        seen += [one["env_id"] for one in env.step(None)[4]]
    assert sorted(seen) == [0, 1, 2, 3]
    env.close()


def test_one_env_that_raises_leaves_the_others(kind):
    class Bad(Gate):
        def step(self, action):
            if self.index == 1:
                raise ValueError("bad")
            return super().step(action)

    env = kind([lambda i=i: Bad(i) for i in range(3)], wait_num=1)
    env.reset()
    env.send(np.zeros(3, int))
    seen, failures = [], []
    while len(seen) < 2 or not failures:
        try:
            seen += env.recv().env_id.tolist()
        except EnvError as error:
            failures.append(str(error))
    assert sorted(seen) == [0, 2]
    assert len(failures) == 1
    assert "env 1 failed in step: ValueError: bad" in failures[0]
    assert env.reset([1])[0].tolist() == [[1, 0]]
    env.close()


def test_a_reset_of_all_gives_up_what_is_at_work(kind):
    env = kind(gates(0.0, 0.0, 0.02), wait_num=1)
    env.reset()
    for _ in range(2):
        env.send(np.zeros(3, int))
        env.recv()
        assert env.reset([2, 0, 1])[0].tolist() == [[2, 0], [0, 0], [1, 0]]
        with pytest.raises(EnvError, match="no env is at work"):
            env.recv()
    env.send(np.zeros(3, int))
    assert sum(len(env.recv().env_id) for _ in range(1 if kind is DummyVectorEnv else 2)) >= 2
    env.close()


def test_groups_of_envs_asynchronously():
    for kind in PROCESSES:
        env = kind(gates(*[0.0] * 6), wait_num=2, envs_per_worker=3)
        env.reset()
        env.send(np.zeros(6, int))
        seen = []
        while len(seen) < 6:
            seen += env.recv().env_id.tolist()
        assert sorted(seen) == list(range(6))
        assert env.reset([5, 0, 4])[0][:, 0].tolist() == [5, 0, 4]
        env.close()


def test_asynchronous_use_from_another_thread():
    """A vector env made in one thread is stepped in another (a fleet's actor does that)."""
    env = ShmemVectorEnv(gates(0.0, 0.0))
    results = []

    def work():
        env.reset()
        results.append(env.step(np.ones(2, int))[1].tolist())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    env.close()
    assert results == [[1, 1]]


def test_what_is_refused_starts_nothing(kind):
    env = kind(gates(0.0, 0.0, 0.0), wait_num=2)
    env.reset()
    with pytest.raises(EnvError, match=r"2 action\(s\) for 3 env"):
        env.step(np.zeros(2, int))
    with pytest.raises(ConfigError, match="seed is a list of 2"):
        env.reset(seed=[1, 2])
    if kind is not DummyVectorEnv:
        with pytest.raises(TypeError, match="cannot pickle"):
            env.reset(options={"lock": threading.Lock()})
    obs, _ = env.reset()
    assert obs[:, 0].tolist() == [0, 1, 2]
    assert len(env.step(np.zeros(3, int))[1]) >= 2
    env.close()


def test_nothing_can_be_fetched_after_close(kind):
    env = kind(gates(0.0, 0.2), wait_num=1)
    env.reset()
    env.send(np.zeros(2, int))
    env.close()
    for use in (env.recv, lambda: env.step(None), lambda: env.send(np.zeros(2, int)), env.reset):
        with pytest.raises(EnvError, match="this vector env is closed"):
            use()
