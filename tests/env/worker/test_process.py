"""Worker processes that die, hang or are interrupted: errors that name them, and nothing left behind."""

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import gymnasium as gym
import numpy as np
import psutil
import pytest
import torch
from gymnasium import spaces

from argosy.env import ShmemVectorEnv, SubprocVectorEnv
from argosy.errors import EnvError

KINDS = [SubprocVectorEnv, ShmemVectorEnv]


class Slow(gym.Env):
    """Env `index` sleeps `sleep_s` at its second step; the observation is (index, step)."""

    observation_space = spaces.Box(0, 100, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, index, sleep_s=0.0):
        self.index, self.sleep_s = index, sleep_s

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return np.array([self.index, 0], np.float32), {}

    def step(self, action):
        self.t += 1
        if self.t == 2:
            time.sleep(self.sleep_s)
        return np.array([self.index, self.t], np.float32), 0.0, False, False, {}


def slow(n, sleeper=-1, sleep_s=0.0):
    return [lambda i=i: Slow(i, sleep_s if i == sleeper else 0.0) for i in range(n)]


def children():
    """Processes below this one, but for Python's own resource tracker, which stays."""
    found = psutil.Process().children(recursive=True)
    return [process for process in found if "resource_tracker" not in " ".join(process.cmdline())]


def wait_until(condition, limit_s=20.0):
    deadline = time.monotonic() + limit_s
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert condition()


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def kind(request):
    return request.param


def shared_memory():
    """What lies in shared memory, but for semaphores: those are of neighbours, as envs have none."""
    return {name for name in os.listdir("/dev/shm") if not name.startswith("sem.")}


@pytest.fixture(autouse=True)
def nothing_left():
    files = shared_memory()
    gc.collect()
    before = {child.pid for child in children()}
    yield
    gc.collect()
    wait_until(lambda: {child.pid for child in children()} <= before)
    assert shared_memory() <= files


def test_killed_worker_is_named_at_once_and_the_others_go_on(kind):
    env = kind(slow(5), envs_per_worker=2)  # workers of envs 0-1, 2, 3-4
    env.reset()
    env.step(np.zeros(5, int))
    os.kill(env.workers[1].process.pid, signal.SIGKILL)
    start = time.monotonic()
    with pytest.raises(EnvError, match=r"worker process of env 2 .* died with exit code -9, SIGKILL"):
        env.step(np.zeros(5, int))
    assert time.monotonic() - start < 5  # generous for a loaded machine; about a millisecond
    obs, *_ = env.step(np.zeros(3, int), [4, 0, 3])
    assert obs[:, 0].tolist() == [4, 0, 3]
    with pytest.raises(EnvError, match="worker process of env 2"):
        env.reset([2])
    env.close()


def test_worker_killed_at_work_names_the_env(kind):
    env = kind(slow(4, sleeper=1, sleep_s=60), envs_per_worker=4)
    env.reset()
    env.step(np.zeros(4, int))
    worker = env.workers[0]

    def kill():
        wait_until(lambda: worker._current[0] == 1)
        os.kill(worker.process.pid, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(EnvError, match=r"envs 0 to 3 .* exit code -9, SIGKILL .*; env 1 was at work"):
        env.step(np.zeros(4, int))
    killer.join()
    env.close()


def test_killed_worker_is_named_while_another_one_is_busy(kind):
    for busy, killed in ((0, 1), (1, 0)):  # whichever of them is waited for first
        env = kind(slow(2, sleeper=busy, sleep_s=60), envs_per_worker=1)
        env.reset()
        env.step(np.zeros(2, int))
        pid = env.workers[killed].process.pid
        os.kill(pid, signal.SIGSTOP)  # still at work when it is killed
        killer = subprocess.Popen([sys.executable, "-c", f"import os, time; time.sleep(0.3); os.kill({pid}, 9)"])
        start = time.monotonic()
        with pytest.raises(EnvError, match=rf"worker process of env {killed} .* exit code -9, SIGKILL"):
            env.step(np.zeros(2, int))
        assert time.monotonic() - start < 20  # long before the sleeper wakes
        killer.wait()
        env.workers[busy].process.kill()
        env.close()


def test_killed_worker_of_asynchronous_envs(kind):
    env = kind(slow(3, sleeper=1, sleep_s=60), wait_num=1)
    env.reset()
    for awake in ({0, 1, 2}, {0, 2}):  # in its second step env 1 falls asleep
        env.send(np.zeros(3, int))
        seen = set()
        while seen != awake:
            seen |= set(env.recv().env_id.tolist())
    wait_until(lambda: env.workers[1]._current[0] == 1)
    start = time.monotonic()
    os.kill(env.workers[1].process.pid, signal.SIGKILL)
    with pytest.raises(EnvError, match=r"worker process of env 1 .* exit code -9, SIGKILL .*; env 1 was at work"):
        env.recv()
    assert time.monotonic() - start < 20
    env.send(np.zeros(2, int), [0, 2])
    assert set(env.recv().env_id.tolist()) <= {0, 2}
    env.close()


def test_worker_that_exits_by_itself(kind):
    class Quitter(Slow):
        def step(self, action):
            os._exit(7)

    env = kind([lambda: Quitter(0), lambda: Slow(1)], envs_per_worker=1)
    env.reset()
    with pytest.raises(EnvError, match=r"env 0 .* exit code 7 "):
        env.step(np.zeros(2, int))
    env.close()


def test_worker_that_dies_while_its_env_is_made(kind):
    with pytest.raises(EnvError, match=r"worker process of env 0 .* exit code 3 during being made; env 0 was at work"):
        kind([lambda: os._exit(3)])


def test_hanging_worker_times_out_and_the_others_go_on(kind):
    env = kind(slow(4, sleeper=2, sleep_s=60), envs_per_worker=1, hang_timeout_s=0.5)
    env.reset()
    env.step(np.zeros(4, int))
    with pytest.raises(EnvError, match=r"did not finish .* in 0.5 s and was killed; env 2 was at work"):
        env.step(np.zeros(4, int))
    assert env.step(np.zeros(3, int), [3, 1, 0])[0][:, 0].tolist() == [3, 1, 0]
    env.close()


@pytest.mark.parametrize("timeout", [None, 0.05])
def test_hanging_worker_is_found_while_others_get_ready(kind, timeout):
    env = kind(slow(3, sleeper=2, sleep_s=60), wait_num=1, timeout=timeout, hang_timeout_s=0.5)
    env.reset()

    def play(limit_s=20):
        ids, start = list(range(3)), time.monotonic()
        while time.monotonic() < start + limit_s:
            ids = [info["env_id"] for info in env.step(np.zeros(len(ids), int), ids)[4]]

    with pytest.raises(EnvError, match=r"did not finish .* in 0.5 s and was killed; env 2 was at work"):
        play()
    env.close()


def test_worker_that_takes_no_commands_times_out():
    class Painter(Slow):
        action_space = spaces.Box(0, 255, (1000, 1000), np.uint8)

    env = SubprocVectorEnv([lambda i=i: Painter(i) for i in range(2)], envs_per_worker=1, hang_timeout_s=0.5)
    env.reset()
    os.kill(env.workers[1].process.pid, signal.SIGSTOP)
    with pytest.raises(EnvError, match=r"env 1 .* did not finish taking a command in 0.5 s and was killed"):
        env.step(np.zeros((2, 1000, 1000), np.uint8))
    env.close()


def test_envs_may_use_torch_in_forked_processes(kind):
    class Model(Slow):
        def step(self, action):
            weight = torch.ones(400, 400)
            return np.full(2, (weight @ weight)[0, 0]) - 399, 0.0, False, False, {}

    _ = torch.ones(400, 400) @ torch.ones(400, 400)  # starts the threads that a fork does not take along
    env = kind([lambda i=i: Model(i) for i in range(2)], hang_timeout_s=10)
    env.reset()
    assert env.step(np.zeros(2, int))[0].tolist() == [[1, 1], [1, 1]]
    env.close()


def test_closing_does_not_wait_for_a_sleeper(kind, monkeypatch):
    monkeypatch.setattr("argosy.env.vector.base.CLOSE_GRACE_S", 0.3)
    env = kind(slow(2, sleeper=0, sleep_s=60), envs_per_worker=1)
    env.reset()
    env.step(np.zeros(2, int))
    env.send(np.zeros(2, int))
    start = time.monotonic()
    env.close()
    assert time.monotonic() - start < 20


def test_gc_ends_the_processes(kind):
    before = {child.pid for child in children()}
    env = kind(slow(3))
    env.reset()
    assert {child.pid for child in children()} - before
    kept, *_ = env.step(np.zeros(3, int))
    del env
    gc.collect()
    wait_until(lambda: {child.pid for child in children()} <= before)
    assert kept.tolist() == [[0, 1], [1, 1], [2, 1]]  # results outlive the env


def test_envs_are_closed_in_their_process(kind, tmp_path):
    class Closing(Slow):
        def close(self):
            (tmp_path / f"closed{self.index}").touch()

    env = kind([lambda i=i: Closing(i) for i in range(3)])
    env.reset()
    env.close()
    assert len(list(tmp_path.iterdir())) == 3


def test_failure_of_one_group_leaves_no_stale_answers(kind):
    class Once(Slow):
        def step(self, action):
            if self.index == 0 and self.t == 0:
                self.t = 1
                raise ValueError("once")
            return super().step(action)

    env = kind([lambda i=i: Once(i) for i in range(4)], envs_per_worker=1)
    env.reset()
    with pytest.raises(EnvError, match="env 0 failed in step: ValueError: once"):
        env.step(np.zeros(4, int))
    obs, *_ = env.step(np.zeros(4, int))
    assert obs.tolist() == [[0, 2], [1, 2], [2, 2], [3, 2]]
    env.close()


def test_infos_that_cannot_be_pickled_are_refused(kind):
    class Lively(Slow):
        def step(self, action):
            obs, *rest, _ = super().step(action)
            return obs, *rest, {"undo": lambda: None}

    env = kind([lambda: Lively(0)])
    env.reset()
    with pytest.raises(EnvError, match="what the envs returned cannot be pickled"):
        env.step(np.zeros(1, int))
    assert env.reset()[0].tolist() == [[0, 0]]
    env.close()


def test_a_fork_of_the_caller_leaves_the_workers_alone(kind):
    env = kind(slow(2))
    env.reset()
    pid = os.fork()
    if pid == 0:
        try:
            env.close()
            del env
            gc.collect()
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    assert env.step(np.zeros(2, int))[0].tolist() == [[0, 1], [1, 1]]
    env.close()


SCRIPT = """
    import os, signal, sys, time
    import gymnasium as gym, numpy as np
    from argosy.env import {kind}

    class Env(gym.Env):
        observation_space = gym.spaces.Box(0, 1, (1000,), np.float32)
        action_space = gym.spaces.Discrete(2)
        def reset(self, *, seed=None, options=None):
            return np.zeros(1000, np.float32), {{}}
        def step(self, action):
            time.sleep(0.01)
            return np.zeros(1000, np.float32), 0.0, False, False, {{}}

    if __name__ == "__main__":
        env = {kind}([Env] * 2, context="{context}")
        env.reset()
        assert env.step(np.zeros(2, int))[0].shape == (2, 1000)
        print(*(worker.process.pid for worker in env.workers), flush=True)
        while True:
            env.step(np.zeros(2, int))
"""


def start_script(tmp_path, kind, context):
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(SCRIPT.format(kind=kind.__name__, context=context)))
    script = subprocess.Popen(
        [sys.executable, str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    pids = [int(pid) for pid in script.stdout.readline().split()]
    assert pids, script.stderr.read()
    return script, pids


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_ctrl_c_ends_everything_with_one_traceback(tmp_path, context):
    script, pids = start_script(tmp_path, ShmemVectorEnv, context)
    time.sleep(0.2)
    os.killpg(script.pid, signal.SIGINT)  # as a terminal does: to every process of the group
    _, errors = script.communicate(timeout=60)
    assert errors.count("KeyboardInterrupt") == 1, errors
    assert errors.count("Traceback") == 1, errors
    wait_until(lambda: not any(psutil.pid_exists(pid) for pid in pids))


def test_workers_end_when_their_owner_is_killed(tmp_path):
    script, pids = start_script(tmp_path, SubprocVectorEnv, "fork")
    os.kill(script.pid, signal.SIGKILL)
    script.communicate(timeout=60)
    wait_until(lambda: not any(psutil.pid_exists(pid) for pid in pids))


def test_interrupted_step_can_be_repeated(kind):
    """Ctrl-C in the middle of a step leaves an env that still works: answers that were not read are dropped."""
    env = kind(slow(2, sleeper=1, sleep_s=1.0), envs_per_worker=1)
    env.reset()
    env.step(np.zeros(2, int))

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(KeyboardInterrupt):
            env.step(np.zeros(2, int))
    finally:
        signal.signal(signal.SIGALRM, before)
    obs, *_ = env.step(np.zeros(2, int))
    assert obs.tolist() == [[0, 3], [1, 3]]
    env.close()
