"""Environments by name: what `register` was given, and how it becomes an `Environment`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import gymnasium as gym

from argosy.env.agents.environment import Environment, StepResult
from argosy.env.agents.pettingzoo import PettingZoo, joint_env
from argosy.env.worker.base import Env
from argosy.env.wrappers import wrapped
from argosy.errors import ConfigError, EnvError
from argosy.named import Maker, Registry, Source

_ENVIRONMENTS = Registry("environment", has=("reset", "step"))

register = _ENVIRONMENTS.register
"""Give a name to the class of an environment, or to what makes an `Environment`, a PettingZoo or a gymnasium env."""
registered_environments = _ENVIRONMENTS.names
environment_maker = _ENVIRONMENTS.load
"""Return what `register` was given for a name."""


def environment_name(task: str | Callable[..., object]) -> str:
    """Return the name of a class or a function that makes envs, for settings; a name stays as it is."""
    return task if isinstance(task, str) else _ENVIRONMENTS.name_of(task)


def environment_source(name: str) -> Source | None:
    """Return what `register` was given for a name: (class or its name, module); None for names that it was not given.

    "MODULE:CLASS" counts as given where it names an `Environment`.
    """
    if name in _ENVIRONMENTS:
        return _ENVIRONMENTS.source(name)
    try:
        found = _ENVIRONMENTS.load(name)
    except ConfigError:
        return None  # whoever makes it will say so
    return _ENVIRONMENTS.source(name) if isinstance(found, type) and issubclass(found, Environment) else None


def gymnasium_env(make: Maker, **kwargs: object) -> Env:
    """Call what makes an env; of a PettingZoo game all agents become one env.

    Raises:
        EnvError: it made an `Environment`.
    """
    env = make(**kwargs)
    if isinstance(env, Environment):
        raise EnvError(f"{type(env).__name__} is an Environment of several agents; fleets play those (docs: The fleet)")
    return joint_env(env) if hasattr(env, "possible_agents") else cast(Env, env)


def make_environment(
    name: str,
    args: Mapping[str, object] | None = None,
    *,
    wrappers: Sequence[str] = (),
    max_episode_steps: int | None = None,
) -> Environment:
    """Make a registered environment, or "MODULE:CLASS".

    Args:
        name: which.
        args: keyword arguments for it.
        wrappers: around it, as in `EnvConfig.wrappers`; those around several agents take an `Environment`.
        max_episode_steps: of a gymnasium env.

    Raises:
        ConfigError: there is no such environment (the nearest name is offered), or it cannot be imported; or a limit is
            given for one of several agents.
        EnvError: its constructor raised, or a wrapper does not fit.
    """
    cls = _ENVIRONMENTS.load(name)
    try:
        env = cls(**(args or {}))
    except (Exception, SystemExit) as error:
        raise EnvError(f"environment {name!r} could not be made with {dict(args or {})}: {error!r}") from error
    if isinstance(env, gym.Env):
        made = env if max_episode_steps is None else gym.wrappers.TimeLimit(env, max_episode_steps)
        return Gymnasium(wrapped(lambda: made, wrappers)())
    if max_episode_steps:
        raise ConfigError(
            f"EnvConfig.max_episode_steps is {max_episode_steps}, but {name!r} is no gymnasium env; leave it out"
        )
    if hasattr(env, "possible_agents"):
        env = PettingZoo(env)
    if not isinstance(env, Environment):
        raise EnvError(
            f"environment {name!r} is a {type(env).__name__}; it must be an argosy.env.Environment, a PettingZoo or a "
            "gymnasium env"
        )
    game: Environment = env
    return wrapped(lambda: game, wrappers, Environment)()


class Gymnasium(Environment):
    """A gymnasium env as an `Environment` of one agent."""

    def __init__(self, env: Any) -> None:  # a gymnasium.Env, whose rewards are of any type
        self._env = env
        self._seed: int | None = None
        self.agent_count = 1
        self.observation_spaces = [self._env.observation_space]
        self.action_spaces = [self._env.action_space]

    def seed(self, seed: int) -> None:
        """Make the episodes that follow reproducible."""
        self._seed = seed

    def reset(self) -> list[StepResult | None]:
        """Start an episode."""
        seed, self._seed = self._seed, None
        obs, info = self._env.reset(seed=seed)
        return [StepResult(obs, info=info)]

    def step(self, actions: list[Any]) -> list[StepResult | None]:
        """Apply the agent's action."""
        obs, rew, terminated, truncated, info = self._env.step(actions[0])
        return [StepResult(obs, rew, terminated, False if terminated else truncated, info)]

    def set_curriculum_stage(self, name: str) -> None:
        """Pass it on to an env that knows stages."""
        change = getattr(self._env.unwrapped, "set_curriculum_stage", None)
        if change is None:
            super().set_curriculum_stage(name)
        else:
            change(name)

    def render(self) -> object:
        """Return what the env's `render` gives."""
        return self._env.render()

    def close(self) -> None:
        """Close the env."""
        self._env.close()
