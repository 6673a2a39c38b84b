"""From the name of a task to environments."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Literal, cast

import gymnasium as gym

from argosy.env.base import VectorEnv
from argosy.env.config import EnvConfig
from argosy.env.spaces import Space
from argosy.env.vector import DummyVectorEnv
from argosy.env.worker.base import EnvFn
from argosy.errors import ConfigError, nearest, require

ROBOTICS = ("Fetch", "HandManipulate", "HandReach", "AntMaze", "PointMaze", "Adroit", "FrankaKitchen")

Family = Literal["classic", "mujoco", "atari", "other"]


def make_vector_env(
    task: str, num_envs: int, *, seed: int | None = None, test: bool = False, config: EnvConfig | None = None
) -> VectorEnv:
    """Make `num_envs` environments of a task.

    Args:
        task: a registered gymnasium id ("CartPole-v1", "HalfCheetah-v5"), or "MODULE:NAME" where
            NAME is an id that MODULE registers, or a class or function in it that makes an env.
        num_envs: how many.
        seed: the first reset starts the envs from seeds derived from it.
        test: for testing: no reward clip, no episodic life.
        config: how they are made and stepped.

    Raises:
        ConfigError: unknown task (the nearest name is offered) or a config that does not fit it.
        EnvError: an env could not be made.
    """
    config = config or EnvConfig()
    if num_envs < 1:
        raise ConfigError(f"num_envs is {num_envs}; it must be >= 1")
    env: VectorEnv = DummyVectorEnv([env_factory(task, config, test=test)] * num_envs)
    if seed is not None:
        env.seed(seed)
    return env


def task_spaces(task: str, config: EnvConfig | None = None) -> tuple[Space, Space]:
    """Return the observation and the action space that `make_vector_env` will have for this task."""
    env = make_vector_env(task, 1, config=config)
    try:
        return env.single_observation_space, env.single_action_space
    finally:
        env.close()


def task_family(task: str) -> Family:
    """Return the family that presets are chosen by.

    Raises:
        ConfigError: unknown task; the nearest name is offered.
    """
    spec = gym.registry.get(_registered(task)) if ":" not in task else None
    entry = str(spec.entry_point) if spec is not None else ""
    if ".classic_control" in entry:
        return "classic"
    return "mujoco" if ".mujoco" in entry else "other"


def env_factory(task: str, config: EnvConfig, *, test: bool = False) -> EnvFn:
    """Return a function that makes one env of the task.

    Raises:
        ConfigError: unknown task; the nearest name is offered.
    """
    if ":" in task:
        module_name, name = task.split(":", 1)
        try:
            module = importlib.import_module(module_name)
        except ImportError as error:
            raise ConfigError(f"task {task!r}: module {module_name!r} could not be imported: {error}") from error
        if callable(make := getattr(module, name, None)):
            return _limited(cast(EnvFn, make), config.max_episode_steps)
        task = name
    env_id = _registered(task)
    limit = config.max_episode_steps
    return lambda: gym.make(env_id, max_episode_steps=limit, disable_env_checker=True)


def _limited(make: Callable[[], gym.Env[object, object]], limit: int | None) -> EnvFn:
    return make if limit is None else lambda: gym.wrappers.TimeLimit(make(), limit)


def _registered(task: str) -> str:
    if task in gym.registry:
        return task
    if task.startswith(ROBOTICS):
        gym.register_envs(require("gymnasium_robotics", "mujoco"))  # its ids are registered when asked for
    if task not in gym.registry:
        raise ConfigError(f"unknown task {task!r}; {nearest(task, gym.registry)}")
    return task
