"""Environments for several agents: one `StepResult` per agent, None for an agent that does not act now.

Turn-based games, games in which agents leave early and ordinary simultaneous games are written the same way. PettingZoo
and gymnasium envs need none of this: they are registered as they are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Discrete

from argosy.env.spaces import Space, mismatch
from argosy.errors import ConfigError, EnvError
from argosy.named import Registry, Source


@dataclass(slots=True)
class StepResult:
    """What one agent sees, and what its action before brought."""

    obs: object
    reward: float = 0.0
    """All that this agent was given since its last action; not read at a reset."""
    terminated: bool = False
    """The episode is over for this agent, by the rules of the game. Its observation is the last one."""
    truncated: bool = False
    """The episode is over for this agent for another reason, e.g. a time limit."""
    info: Mapping[str, object] = field(default_factory=dict)


class Environment(ABC):
    """Several agents in one world.

    An episode is over when no agent is left that is not done; then `reset` is called. An agent acts in a step if
    `reset` or `step` returned a result for it just before that is not done; all others get None as their action.
    A subclass sets the three attributes in its constructor.
    """

    agent_count: int
    """Number of agents, the same during the whole run."""
    observation_spaces: Sequence[Space]
    """Space of each agent's observation."""
    action_spaces: Sequence[Space]
    """Space of each agent's action."""

    @abstractmethod
    def reset(self) -> list[StepResult | None]:
        """Start an episode; one result per agent, None for those that do not act first."""

    @abstractmethod
    def step(self, actions: list[Any]) -> list[StepResult | None]:
        """Apply one action per agent (None for those that do not act); one result per agent."""

    def seed(self, seed: int) -> None:  # noqa: B027  # a game without chance needs no seed
        """Make the episodes that follow reproducible."""

    def set_curriculum_stage(self, name: str) -> None:
        """Change to another stage of a curriculum, from the next reset on."""
        raise EnvError(f"{type(self).__name__} has no curriculum stages; asked for {name!r}")

    def render(self) -> object:
        """Return a picture, or None."""
        return None

    def close(self) -> None:  # noqa: B027  # most games hold nothing
        """Free everything."""


_ENVIRONMENTS = Registry("environment")


def register(name: str, cls: Callable[..., object] | str, *, module: str | None = None) -> None:
    """Give an environment a name.

    Args:
        name: how experiments call it.
        cls: the class, or a function that makes an `Environment`, a PettingZoo or a gymnasium env; or its name in
            `module`, which is imported when it is needed.
        module: needed with a class's name.

    Raises:
        ConfigError: the name is taken, or a class's name came without module.
    """
    _ENVIRONMENTS.register(name, cls, module)


def registered_environments() -> list[str]:
    """Return the names of the registered environments."""
    return _ENVIRONMENTS.names()


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


def make_environment(name: str, args: Mapping[str, object] | None = None) -> Environment:
    """Make a registered environment, or "MODULE:CLASS", with keyword arguments.

    Raises:
        ConfigError: there is no such environment (the nearest name is offered), or it cannot be imported.
        EnvError: its constructor raised.
    """
    cls = _ENVIRONMENTS.load(name)
    try:
        env = _adapted(cls(**(args or {})))
    except Exception as error:
        raise EnvError(f"environment {name!r} could not be made with {dict(args or {})}: {error!r}") from error
    if not isinstance(env, Environment):
        raise EnvError(
            f"environment {name!r} is a {type(env).__name__}; it must be an argosy.env.Environment, a PettingZoo or a "
            "gymnasium env"
        )
    return env


def _adapted(env: object) -> object:
    """Wrap PettingZoo's and gymnasium's envs."""
    if isinstance(env, Environment):
        return env
    if hasattr(env, "possible_agents"):
        return PettingzooAEC(env) if hasattr(env, "agent_iter") else PettingzooParallel(env)
    return Gymnasium(env) if isinstance(env, gym.Env) else env


def test_environment(
    name: str,
    args: Mapping[str, object] | None = None,  # noqa: PT028  # not a test
    *,
    test_stepping: bool = True,  # noqa: PT028
    episodes: int = 3,  # noqa: PT028
    seed: int = 0,  # noqa: PT028
) -> list[str]:
    """Say in sentences what is wrong with an environment; an empty list means: nothing was found.

    Args:
        name: a registered name, or "MODULE:CLASS".
        args: for its constructor.
        test_stepping: play some episodes with random actions.
        episodes: how many; each ends after 10,000 steps at the latest.
        seed: of the actions and the environment.
    """
    try:
        env = make_environment(name, args)
    except (ConfigError, EnvError) as error:
        return [str(error)]
    try:
        return _check_spaces(env) or (_check_episodes(env, episodes, seed) if test_stepping else [])
    finally:
        env.close()


test_environment.__test__ = False  # type: ignore[attr-defined]  # tells pytest that this is no test


def _check_spaces(env: Environment) -> list[str]:
    for name in ("agent_count", "observation_spaces", "action_spaces"):
        if not hasattr(env, name):
            return [f"{type(env).__name__} has no {name}; set it in the constructor."]
    found = []
    count: object = env.agent_count  # what users return is what is checked here
    if not isinstance(count, int) or count < 1:
        return [f"agent_count is {count!r}; it must be a whole number >= 1."]
    for what, spaces in (("observation_spaces", env.observation_spaces), ("action_spaces", env.action_spaces)):
        if len(spaces) != count:
            found.append(f"{what} has {len(spaces)} entries for {count} agents.")
    return found


def _check_episodes(env: Environment, episodes: int, seed: int) -> list[str]:
    env.seed(seed)
    for i, space in enumerate(env.action_spaces):
        space.seed(seed + i)
    for episode in range(episodes):
        found = _check_episode(env, f"episode {episode}")
        if found:
            return found
    return []


def _check_episode(env: Environment, where: str) -> list[str]:
    count = env.agent_count
    done = np.zeros(count, bool)
    actions: list[object] = []
    for step in range(10_001):
        call = f"step {step} of {where}" if step else f"reset of {where}"
        try:
            results = env.step(actions) if step else env.reset()
        except Exception as error:
            return [f"{call} raised {error!r}; the actions were {actions}."]
        if not isinstance(results, list) or len(results) != count:
            return [f"{call} returned {type(results).__name__} instead of a list of {count} StepResults (or None)."]
        found = []
        actions = [None] * count
        for agent, result in enumerate(results):
            if result is None:
                continue
            found += _check_result(env, agent, result, bool(done[agent]), step == 0, f"{call}, agent {agent}")
            if found:
                continue
            done[agent] = result.terminated or result.truncated
            if not done[agent]:
                actions[agent] = _sampled(env.action_spaces[agent], result.obs)
        if found or done.all():
            return found
        if all(action is None for action in actions):
            return [f"{call}: no agent is to act, but agents {np.flatnonzero(~done).tolist()} are not done."]
    return []


def _sampled(space: Space, obs: object) -> object:
    """Return a random action, an allowed one where the observation says which are."""
    if isinstance(space, Discrete) and isinstance(obs, Mapping) and "action_mask" in obs:
        return space.sample(np.asarray(obs["action_mask"], np.int8))
    return space.sample()


def _check_result(
    env: Environment, agent: int, result: StepResult, was_done: bool, at_reset: bool, where: str
) -> list[str]:
    given: object = result
    if not isinstance(given, StepResult):
        return [f"{where}: {type(given).__name__} instead of a StepResult or None."]
    found = []
    if was_done:
        found.append(f"{where}: a result for an agent whose episode is over; it must be None until the next reset.")
    if problem := mismatch(env.observation_spaces[agent], result.obs):
        found.append(f"{where}: {problem}.")
    try:
        finite = np.isfinite(float(result.reward))
    except (TypeError, ValueError):
        finite = False
    if not finite:
        found.append(f"{where}: reward is {result.reward!r}; it must be one finite number.")
    if result.terminated and result.truncated:
        found.append(f"{where}: terminated and truncated are both True; terminated alone says that the game is over.")
    if at_reset and (result.terminated or result.truncated):
        found.append(f"{where}: the episode is over before its first step.")
    return found


class Gymnasium(Environment):
    """A gymnasium env as an `Environment` of one agent.

    Args:
        env: the env, or a function that makes it.
    """

    def __init__(self, env: Any) -> None:
        self._env = env() if callable(env) else env
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
        return [StepResult(obs, float(rew), bool(terminated), bool(truncated and not terminated), info)]

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


class _Pettingzoo(Environment):
    """What both kinds of PettingZoo envs have in common."""

    def __init__(self, env: Any) -> None:
        self._env = env
        self._names = list(env.possible_agents)
        self._seed: int | None = None
        self.agent_count = len(self._names)
        self.observation_spaces = [env.observation_space(name) for name in self._names]
        self.action_spaces = [env.action_space(name) for name in self._names]

    def seed(self, seed: int) -> None:
        self._seed = seed

    def _reset(self) -> Any:
        seed, self._seed = self._seed, None
        return self._env.reset(seed=seed)

    def render(self) -> object:
        return self._env.render()

    def close(self) -> None:
        self._env.close()


class PettingzooParallel(_Pettingzoo):
    """A PettingZoo parallel env: all agents act at once.

    Args:
        env: the env, or a function that makes it.
    """

    def __init__(self, env: Any) -> None:
        super().__init__(env() if callable(env) else env)

    def reset(self) -> list[StepResult | None]:
        """Start an episode."""
        obs, _ = self._reset()
        return [StepResult(obs[name]) if name in obs else None for name in self._names]

    def step(self, actions: list[Any]) -> list[StepResult | None]:
        """Apply the actions of the agents that are still there."""
        present = set(self._env.agents)
        given = {name: action for name, action in zip(self._names, actions, strict=True) if name in present}
        obs, rew, terminated, truncated, info = self._env.step(given)
        return [
            StepResult(obs[n], float(rew[n]), bool(terminated[n]), bool(truncated[n] and not terminated[n]), info[n])
            if n in present and n in obs
            else None
            for n in self._names
        ]


class PettingzooAEC(_Pettingzoo):
    """A PettingZoo AEC env: agents act in turn. A reward reaches an agent when it is its turn again, or at the end.

    Args:
        env: the env, or a function that makes it.
    """

    def __init__(self, env: Any) -> None:
        super().__init__(env() if callable(env) else env)
        self._reported: set[str] = set()
        self._owed: dict[str, float] = {}

    def reset(self) -> list[StepResult | None]:
        """Start an episode; the first agent acts."""
        self._reset()
        self._reported, self._owed = set(), dict.fromkeys(self._names, 0.0)
        return self._turn()

    def step(self, actions: list[Any]) -> list[StepResult | None]:
        """Apply the action of the agent whose turn it is."""
        self._env.step(actions[self._names.index(self._env.agent_selection)])
        for name, reward in self._env.rewards.items():
            self._owed[name] += float(reward)
        return self._turn()

    def _turn(self) -> list[StepResult | None]:
        env = self._env
        results: list[StepResult | None] = [None] * len(self._names)
        # Those who are done hear of it at once; PettingZoo wants an empty step from each of them.
        while env.agents:
            name = env.agent_selection
            obs, _, terminated, truncated, info = env.last()
            if name not in self._reported:
                reward, self._owed[name] = self._owed[name], 0.0
                over = bool(truncated and not terminated)
                results[self._names.index(name)] = StepResult(obs, reward, bool(terminated), over, info)
            if not (terminated or truncated):
                break
            self._reported.add(name)
            env.step(None)
        return results
