"""From the name of a task to environments, and to what transitions would have earned, had the goal been another."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any, Literal, NamedTuple, TypeAlias, cast

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import load_env_creator
from numpy.typing import NDArray

from argosy.config import check_arguments
from argosy.env.agents.registry import environment_maker, environment_name, gymnasium_env, registered_environments
from argosy.env.atari import make_atari_env
from argosy.env.config import EnvConfig
from argosy.env.spaces import Space
from argosy.env.vector.envpool import EnvPoolVectorEnv, Pool
from argosy.env.vector.kinds import DummyVectorEnv, RayVectorEnv, ShmemVectorEnv, SubprocVectorEnv
from argosy.env.vector.protocol import Info, VectorEnv
from argosy.env.worker.base import EnvFn
from argosy.env.wrappers import wrapped
from argosy.errors import ConfigError, MissingExtraError, nearest, require
from argosy.named import check_maker, elsewhere, given_code, import_module
from argosy.process import num_cores, yield_cpu
from argosy.rng import spawn_seeds

TaskOf: TypeAlias = str | Callable[..., object]
"""A task by its name, or the class or function that makes its envs."""
Family = Literal["classic", "box2d", "mujoco", "fetch", "dm_control", "minatar", "atari", "other"]
FAMILIES: dict[str, Family] = {
    ".classic_control": "classic",
    ".box2d": "box2d",
    ".mujoco": "mujoco",
    "robotics.envs.fetch": "fetch",
    "minatar": "minatar",
}
"""By what stands in the entry point of a gymnasium id."""
ROBOTICS = ("Fetch", "HandManipulate", "HandReach", "AntMaze", "PointMaze", "Adroit", "FrankaKitchen")
DM_CONTROL_NAME = re.compile(r"[A-Za-z0-9]+-v1")
ATARI_NAME = re.compile(r"(?:ALE/)?([A-Za-z0-9]+?)(?:NoFrameskip|Deterministic)?(?:-v[045])?")
Goals: TypeAlias = "NDArray[Any]"
GOAL_KEYS = ("observation", "achieved_goal", "desired_goal")
GoalRule: TypeAlias = Callable[["Goals", "Goals"], "NDArray[Any]"]
"""What achieved goals [N, *goal] are worth for desired goals [N, *goal]: [N]."""


class GoalRules(NamedTuple):
    """The methods of an env with goals, as Gymnasium-Robotics has them, of many goals at once and without an info."""

    reward: GoalRule
    """`compute_reward`."""
    terminated: GoalRule | None
    """`compute_terminated`: whether the episode ends there; None where the env has no such method."""


def make_vector_env(
    task: TaskOf,
    num_envs: int,
    *,
    seed: int | None = None,
    test: bool = False,
    config: EnvConfig | None = None,
    render_mode: str | None = None,
) -> VectorEnv:
    """Make `num_envs` environments of a task.

    Args:
        task: a registered gymnasium id ("CartPole-v1", "HalfCheetah-v5"); an Atari game ("Pong", "Pong-v5",
            "ALE/Pong-v5", "PongNoFrameskip-v4": all the same, see EnvConfig for what is done to its frames);
            a task of the DeepMind Control Suite by EnvPool's name ("CheetahRun-v1");
            "MODULE:NAME" where NAME is an id that MODULE registers, or a class or function in it that makes an env (of
            a PettingZoo game, that of all agents); that class or function itself; or a name that
            `argosy.env.register` was given for such an env.
        num_envs: how many.
        seed: the first reset starts the envs from seeds derived from it.
        test: for testing: no reward clip, no episodic life, synchronous, no update of the observations' statistics.
        config: how they are made and stepped.
        render_mode: "rgb_array" lets `render` return frames.

    Raises:
        ConfigError: unknown task or wrapper (the nearest name is offered) or a config that does not fit the task.
        MissingExtraError: the task or the config needs a package that is not installed.
        EnvError: an env could not be made.
    """
    config, task = config or EnvConfig(), environment_name(task)
    if num_envs < 1:
        raise ConfigError(f"num_envs is {num_envs}; it must be >= 1")
    wait_num = None if test or config.wait_num is None else min(config.wait_num, num_envs)
    vector = vector_kind(task, config, num_envs)
    if config.background and vector != "envpool":
        raise ConfigError(
            f"EnvConfig.background is True, but {task!r} runs in vector={vector!r}; only 'envpool' has it"
        )
    if vector == "envpool":
        seeds = spawn_seeds(seed, num_envs)
        env: VectorEnv = _make_pool(task, seeds, wait_num, config, test=test, render_mode=render_mode)
    else:
        env_fns = [env_factory(task, config, test=test, render_mode=render_mode)] * num_envs
        if vector == "dummy":
            env = DummyVectorEnv(env_fns, wait_num)
        elif vector == "ray":
            # Ray reserves nothing for them: training and test envs, of which one kind rests, would not fit together
            each = config.envs_per_worker or (1 if wait_num else -(-num_envs // num_cores()))
            timeout = config.hang_timeout_s
            env = RayVectorEnv(env_fns, wait_num, envs_per_worker=each, num_cpus=0, hang_timeout_s=timeout)
        else:
            cls = ShmemVectorEnv if vector == "shmem" else SubprocVectorEnv
            env = cls(env_fns, wait_num, envs_per_worker=config.envs_per_worker, hang_timeout_s=config.hang_timeout_s)
    if seed is not None:
        env.seed(seed)
    return env


def task_spaces(task: TaskOf, config: EnvConfig | None = None) -> tuple[Space, Space]:
    """Return the observation and the action space that `make_vector_env` will have for this task.

    Raises:
        ConfigError: unknown task; the nearest name is offered.
    """
    env = make_vector_env(task, 1, config=config, test=True)
    try:
        return env.single_observation_space, env.single_action_space
    finally:
        env.close()


def task_family(task: TaskOf) -> Family:
    """Return the family that presets are chosen by.

    Raises:
        ConfigError: unknown task; the nearest name is offered.
    """
    if not isinstance(task, str) or ":" in task or task in registered_environments():
        return "other"
    if atari_game(task):
        return "atari"
    if is_dm_control(task):
        return "dm_control"
    entry = str(gym.registry[_registered(task)].entry_point)
    return next((family for part, family in FAMILIES.items() if part in entry), "other")


def env_factory(task: str, config: EnvConfig, *, test: bool = False, render_mode: str | None = None) -> EnvFn:
    """Return a function that makes one env of the task with Python wrappers only.

    Raises:
        ConfigError: unknown task, wrapper or argument; the nearest name is offered.
        MissingExtraError: the task needs a package that is not installed.
    """
    return wrapped(_unwrapped_factory(task, config, test=test, render_mode=render_mode), config.wrappers)


def _unwrapped_factory(task: str, config: EnvConfig, *, test: bool, render_mode: str | None) -> EnvFn:
    limit = config.max_episode_steps
    kwargs = {**config.kwargs, **({} if render_mode is None else {"render_mode": render_mode})}
    make: object = None
    if task in registered_environments():
        make = environment_maker(task)
    elif ":" in task:
        make, task = _imported(task), task.partition(":")[2]
    elif game := atari_game(task):
        if config.kwargs:
            raise ConfigError(
                f"env.kwargs are {dict(config.kwargs)}, but {task!r} takes the settings of EnvConfig alone"
            )
        return lambda: make_atari_env(game, config, test=test, render_mode=render_mode)
    if callable(make):
        check_arguments(make, config.kwargs, "env.kwargs")
        made = partial(gymnasium_env, make, **kwargs)
        return made if limit is None else lambda: gym.wrappers.TimeLimit(made(), limit)
    if is_dm_control(task):
        raise ConfigError(f"task {task!r} is EnvPool's alone; leave env.vector at 'auto', and env.wrappers out")
    env_id = _registered(task)
    if config.kwargs:
        spec = gym.spec(env_id)
        creator = load_env_creator(spec.entry_point) if isinstance(spec.entry_point, str) else spec.entry_point
        check_arguments(cast("Callable[..., object]", creator), {**spec.kwargs, **config.kwargs}, "env.kwargs")
    return lambda: gym.make(env_id, max_episode_steps=limit, disable_env_checker=True, **kwargs)


def _imported(task: str) -> object:
    """Return the class or function that "MODULE:NAME" means; None where NAME is an id that MODULE registers."""
    module, name = task.split(":", 1)
    if task in (given := given_code(task)):
        return given[task]
    try:
        home = import_module(module, task)
    except ConfigError as error:
        raise ConfigError(f"{error}{elsewhere(task)}") from error
    found: object = getattr(home, name, None)
    if found is None and elsewhere(task):
        raise ConfigError(f"task {task!r} is not there{elsewhere(task)}")
    if callable(found):
        check_maker(found, task, "task", ("reset", "step"))
        return found
    try:
        _registered(name)
    except ConfigError:
        known = [other for other, value in vars(home).items() if callable(value)] + [*gym.registry]
        raise ConfigError(
            f"unknown task {name!r}: {module} has no class or function of that name and registers no such id; "
            f"{nearest(name, known)}"
        ) from None
    return None


def atari_game(task: str) -> str | None:
    """Return the name of the Atari game that `task` means ("Pong"), or None if it means none."""
    spec = gym.registry.get(task)
    if task in registered_environments() or (spec is not None and "ale_py" not in str(spec.entry_point)):
        return None
    match = ATARI_NAME.fullmatch(task)
    return _atari_games().get(match[1].lower()) if match else None


@cache
def _atari_games() -> dict[str, str]:
    """All games by their name in lower case, as far as an emulator is installed."""
    if importlib.util.find_spec("ale_py"):
        gym.register_envs(require("ale_py", "atari"))
        names = [i[len("ALE/") : -len("-v5")] for i in gym.registry if i.startswith("ALE/") and i.endswith("-v5")]
        return {name.lower(): name for name in names if not name.endswith("-ram")}
    return {name[:-3].lower(): name[:-3] for name, module in _pool_tasks().items() if module == "envpool.atari"}


def is_dm_control(task: str) -> bool:
    """Whether a task is one of the DeepMind Control Suite, by EnvPool's name."""
    if DM_CONTROL_NAME.fullmatch(task) is None or task in gym.registry:  # EnvPool is not imported for these
        return False
    return _pool_tasks().get(task) == "envpool.mujoco.dmc"


@cache
def _pool_tasks() -> dict[str, str]:
    """EnvPool's tasks and the module of each; none where it is not installed."""
    if not importlib.util.find_spec("envpool"):
        return {}
    require("envpool", "atari")
    specs: dict[str, tuple[str, ...]] = require("envpool.registration", "atari").registry.specs
    return {name: module for name, (module, *_) in specs.items()}


def _registered(task: str) -> str:
    if task.startswith(ROBOTICS) and task not in gym.registry:
        gym.register_envs(require("gymnasium_robotics", "mujoco"))  # its ids are registered when asked for
    if task.startswith("MinAtar/") and "MinAtar/Breakout-v1" not in gym.registry:
        require("argosy.env.minatar", "minatar").register_games()
    if task in gym.registry:
        return task
    games = _atari_games()
    if not games and re.fullmatch(r"(ALE/\w+|\w+NoFrameskip)-v\d", task):
        raise MissingExtraError(f"task {task!r}: Atari needs an emulator; install it with: pip install 'argosy[atari]'")
    known = [
        i for i in gym.registry if "NoFrameskip" not in i and "Deterministic" not in i and not i.startswith("ALE/")
    ]
    known += [
        *registered_environments(),
        *(f"{game}-v5" for game in games.values()),
        *filter(is_dm_control, _pool_tasks()),
    ]
    alike = [name for name in known if task.lower() in name.lower()]
    atari = "" if games else "; for Atari's games: pip install 'argosy[atari]'"
    raise ConfigError(f"unknown task {task!r}; {nearest(task, alike or known)}{atari}")


def vector_kind(task: str, config: EnvConfig, num_envs: int) -> str:
    """Return which vector environment `make_vector_env` makes."""
    if config.vector != "auto":
        return config.vector
    if is_dm_control(task):
        return "envpool"
    if ":" in task or atari_game(task) is None:
        return "dummy"
    if not config.wrappers and importlib.util.find_spec("envpool"):
        return "envpool"
    return "shmem" if num_envs > 1 else "dummy"


def _make_pool(
    task: str, seeds: list[int], wait_num: int | None, config: EnvConfig, *, test: bool, render_mode: str | None
) -> VectorEnv:
    envpool = require("envpool", "atari")
    settings: dict[str, object] = {"num_envs": len(seeds), "batch_size": wait_num or len(seeds)}
    is_async = wait_num is not None and wait_num < len(seeds)
    background = is_async and config.background
    if background:
        settings["num_threads"] = min(len(seeds), num_cores())
        if settings["num_threads"] == os.cpu_count():  # left alone, Linux puts two of them on one core
            settings["thread_affinity_offset"] = 0
    elif is_async:  # a core is left to the policy, which acts at the same time
        settings["num_threads"] = min(len(seeds), max(1, num_cores() - 1))
    if render_mode is not None:
        settings["render_mode"] = render_mode
    settings |= config.kwargs
    if config.max_episode_steps is not None:
        settings["max_episode_steps"] = config.max_episode_steps
    if game := atari_game(task):
        task_id = f"{game}-v5"
        settings |= {
            "stack_num": config.frame_stack,
            "frame_skip": config.frame_skip,
            "noop_max": config.noop_max,
            "img_height": config.image_size,
            "img_width": config.image_size,
            "episodic_life": config.episodic_life and not test,
            "reward_clip": config.reward_clip and not test,
            "use_fire_reset": config.fire_reset,
            "repeat_action_probability": config.repeat_action_probability,
            "full_action_space": config.full_action_space,
        }
    else:
        task_id = task
    ids = {name.lower(): name for name in envpool.list_all_envs()}
    if task_id.lower() not in ids:
        raise ConfigError(f"EnvPool has no task {task!r} (vector='envpool'); {nearest(task, ids.values())}")

    def make(seeds: Sequence[int]) -> Pool:
        pool: Pool = envpool.make_gymnasium(ids[task_id.lower()], env_seed=list(seeds), **settings)
        return pool

    def make_in_background(seeds: Sequence[int]) -> Pool:
        with ThreadPoolExecutor(1, initializer=yield_cpu) as thread:  # whose yielding the pool's threads inherit
            return thread.submit(make, seeds).result()

    return EnvPoolVectorEnv(make_in_background if background else make, seeds)


def goal_rules(task: str, config: EnvConfig) -> GoalRules:
    """Return `compute_reward` and `compute_terminated` of an env of the task; wrappers count if they have them, too.

    Raises:
        ConfigError: the task has no goals: its observations lack "achieved_goal" or "desired_goal", or the env has no
            `compute_reward`.
    """
    env = env_factory(task, config)()
    space = env.observation_space
    found = list(space) if isinstance(space, spaces.Dict) else []
    if not set(GOAL_KEYS[1:]) <= set(found):
        raise ConfigError(
            f"buffer.hindsight needs an env with goals, whose observations are a dict of {', '.join(GOAL_KEYS)}; those "
            f"of {task!r} are {space}"
        )
    has = env.has_wrapper_attr
    if not has("compute_reward"):
        raise ConfigError(
            f"buffer.hindsight needs the env's method compute_reward(achieved_goal, desired_goal, info), which {task!r}"
            " lacks"
        )
    return GoalRules(
        _of_many(env.get_wrapper_attr("compute_reward")),
        _of_many(env.get_wrapper_attr("compute_terminated")) if has("compute_terminated") else None,
    )


def _of_many(method: Callable[[Any, Any, Info], Any]) -> GoalRule:
    """Let a method take many pairs of goals, which those of some envs take one by one."""

    def ask(achieved: Goals, desired: Goals) -> NDArray[Any]:
        # "the truth value of an array ... is ambiguous", "only 0-dimensional arrays can be converted"
        with contextlib.suppress(ValueError, TypeError):
            if len(achieved) in achieved.shape[1:]:  # a number per pair, or one per element? Of more pairs it shows
                twice = (np.concatenate((goals, goals)) for goals in np.broadcast_arrays(achieved, desired))
                return ask(*twice)[: len(achieved)]
            found = np.asarray(method(achieved, desired, {}))
            if found.shape == achieved.shape[:1]:
                return found
        return np.array([method(*pair, {}) for pair in zip(achieved, desired, strict=True)])

    return ask
