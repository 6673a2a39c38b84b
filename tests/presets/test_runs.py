"""Every preset makes a run: a few steps of its task, or of learning from random data, with all else as it stands."""

import numpy as np
import pytest

import argosy
from argosy.algorithm import ALGORITHMS, algorithm_class
from argosy.data import Batch, ReplayBuffer
from argosy.env.tasks import task_spaces
from argosy.presets import tuned_families

PACKAGES = {"box2d": "Box2D", "mujoco": "mujoco", "fetch": "gymnasium_robotics", "dm_control": "envpool"}
PACKAGES |= {"minatar": "minatar", "atari": "ale_py"}
TASKS = {
    "classic": ("CartPole-v1", "Pendulum-v1", "FrozenLake-v1"),
    "box2d": ("BipedalWalker-v3",),
    "mujoco": ("Hopper-v5",),
    "fetch": ("FetchReach-v4",),
    "dm_control": ("CheetahRun-v1",),
    "minatar": ("MinAtar/Breakout-v1",),
    "atari": ("PongNoFrameskip-v4",),
    "other": ("Taxi-v4",),
}
QUICK = {"classic": "dqn", "box2d": "branching_dqn", "mujoco": "td3", "fetch": "ddpg"}
QUICK |= {"dm_control": "sac", "minatar": "discrete_sac", "atari": "ppo"}


def presets():
    """All, but of what asks an expert; one of each family is not slow."""
    for name in ALGORITHMS:
        for family in () if algorithm_class(name).needs_expert else tuned_families(name):
            marks = () if QUICK.get(family) == name else pytest.mark.slow
            yield pytest.param(name, family, marks=marks, id=f"{name}-{family}")


def fitting(cls, family):
    """Return the first task of a family that an algorithm can learn, with its spaces."""
    for task in TASKS[family]:
        seen, taken = task_spaces(task)
        if isinstance(seen, cls.observation_spaces) and isinstance(taken, cls.action_spaces):
            return task, seen, taken
    raise AssertionError(f"{cls.__name__} can learn none of {TASKS[family]}")


def random_data(path, seen, taken, size=64):
    """Write episodes of eight random steps."""
    for seed, space in enumerate((seen, taken)):
        space.seed(seed)
    buffer = ReplayBuffer(size)
    for i in range(size):
        row = {"obs": seen.sample(), "act": taken.sample(), "rew": float(i % 3), "obs_next": seen.sample()}
        buffer.add(Batch(row, terminated=i % 8 == 7, truncated=False))
    buffer.save_hdf5(path)
    return str(path)


@pytest.mark.parametrize(("name", "family"), presets())
def test_a_run_with_a_preset(name, family, tmp_path):
    pytest.importorskip(PACKAGES.get(family, "numpy"))
    cls = algorithm_class(name)
    task, *spaces = fitting(cls, family)
    settings = {"trainer": {"max_epoch": 1, "step_per_epoch": 48, "episode_per_test": 1}, "stop": {"episodes": 1}}
    settings["env"] = {"test_num_envs": 1, "max_episode_steps": 20}
    if cls.kind != "offline":
        settings["env"]["num_envs"] = 2
        settings["trainer"]["step_per_collect"] = 48 if cls.kind == "onpolicy" else 16
    if cls.kind != "onpolicy":
        settings["trainer"]["batch_size"] = 8
    if cls.kind == "offpolicy":
        settings["trainer"]["start_steps"] = 16
    if cls.kind == "offline" or cls.expert_rows:
        settings["data"] = random_data(tmp_path / "data.hdf5", *spaces)
    run = argosy.train(name, task, seed=0, runs=tmp_path, show_progress=False, threads=1, device="cpu", **settings)
    assert run.gradient_steps > 0
    assert np.isfinite(run.test_return_mean)
