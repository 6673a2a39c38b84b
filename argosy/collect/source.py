"""Where the environments of several agents or several workers come from, and which agent is whose."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gymnasium import spaces
from gymnasium.vector.utils import batch_space

from argosy.collect.seats import AgentArena, Arena, StackedArena, VectorArena
from argosy.config import check_arguments
from argosy.env import EnvConfig, Environment, make_environment, make_vector_env, registered_environments, task_spaces
from argosy.env.agents.registry import environment_maker, environment_source, register
from argosy.env.spaces import Space, normal_form
from argosy.env.wrappers import register_missing, wrapper_sources
from argosy.errors import ConfigError
from argosy.named import Maker, Source, given_code, take_code
from argosy.rng import spawn_seeds


@dataclass(frozen=True)
class Agents:
    """Agents that share a policy, by their numbers, and how they see their env."""

    pattern: str
    """Regular expression that matches the whole of an agent's number."""
    frame_stack: int = 1
    """Observations that are stacked before the policy sees them."""


@dataclass(frozen=True)
class EnvSource:
    """Makes arenas. Travels to the workers of a fleet."""

    task: str
    registered: Source | None
    """What stands behind the name of a registered environment; None: the task is a vector env's."""
    args: Mapping[str, object]
    config: EnvConfig
    """Settings of a vector env."""
    agents: tuple[Agents, ...]
    """The first that matches an agent is its."""
    wrappers: Mapping[str, Source] = field(default_factory=dict)
    """What stands behind the names of registered wrappers."""
    code: Mapping[str, Maker] = field(default_factory=dict)
    """Classes and functions that were given themselves, by their names."""

    @classmethod
    def of(cls, task: str, args: Mapping[str, object], config: EnvConfig, agents: Iterable[Agents]) -> EnvSource:
        """Look up what this process knows by the names."""
        wrappers, code = wrapper_sources(config.wrappers), given_code([task, *config.wrappers])
        args = {**config.kwargs, **args}
        return cls(task, environment_source(task), args, config, tuple(agents), wrappers, code)

    def spaces(self) -> list[tuple[Space, Space]]:
        """Return the observation and the action space of each agent spec.

        Raises:
            ConfigError: an agent that no spec matches, or agents of one spec that differ in their spaces.
        """
        if self.registered is None:
            if not re.fullmatch(self.agents[0].pattern, "0"):
                raise ConfigError(f"{self.task!r} has one agent, '0', and no spec matches it")
            self._nobody_for(range(1, len(self.agents)))
            self.register_names()
            return [self._stacked(0, *task_spaces(self.task, self.config))]
        found: dict[int, tuple[Space, Space]] = {}
        with contextlib.closing(self._make_environment()) as env:
            for agent, spec in enumerate(self._specs(env)):
                own = (normal_form(env.observation_spaces[agent]), env.action_spaces[agent])
                if found.setdefault(spec, own) != own:
                    raise ConfigError(
                        f"agent {agent} has the spaces {own}, another agent of {self.agents[spec].pattern!r} has "
                        f"{found[spec]}; give them specs and policies of their own"
                    )
        self._nobody_for(set(range(len(self.agents))) - set(found))
        return [self._stacked(i, *found[i]) for i in range(len(self.agents))]

    def rows(self, num_envs: int) -> list[int]:
        """Return the number of rows of each agent spec in an arena of `num_envs` environments."""
        if self.registered is None:
            return [num_envs]
        with contextlib.closing(self._make_environment()) as env:
            specs = self._specs(env)
        return [num_envs * specs.count(i) for i in range(len(self.agents))]

    def arena(self, num_envs: int, seed: int, *, test: bool = False, render_mode: str | None = None) -> Arena:
        """Make environments that start from `seed`; `render_mode` is for those that know it."""
        arena: Arena
        if self.registered is None:
            self.register_names()
            arena = VectorArena(
                make_vector_env(self.task, num_envs, seed=seed, test=test, config=self.config, render_mode=render_mode)
            )
        else:
            envs = [self._make_environment(render_mode) for _ in range(num_envs)]
            for env, own in zip(envs, spawn_seeds(seed, num_envs), strict=True):
                env.seed(own)
            arena = AgentArena(envs, self._specs(envs[0]))
        depths = [agent.frame_stack for agent in self.agents]
        return arena if max(depths) == 1 else StackedArena(arena, depths)

    def register_names(self) -> None:
        """Let this process know the names that the one which described the fleet knew."""
        take_code(self.code)
        register_missing(self.wrappers)
        if self.registered is not None and self.task not in registered_environments() and ":" not in self.task:
            register(self.task, self.registered[0], module=self.registered[1])

    def _make_environment(self, render_mode: str | None = None) -> Environment:
        self.register_names()
        args = dict(self.args)
        if render_mode is not None:
            with contextlib.suppress(ConfigError):  # most games draw without being told, or not at all
                check_arguments(environment_maker(self.task), {**args, "render_mode": render_mode}, "env_args")
                args["render_mode"] = render_mode
        limit = self.config.max_episode_steps
        return make_environment(self.task, args, wrappers=self.config.wrappers, max_episode_steps=limit)

    def _stacked(self, spec: int, observation: Space, action: Space) -> tuple[Space, Space]:
        depth = self.agents[spec].frame_stack
        if depth == 1:
            return observation, action
        if not isinstance(observation, spaces.Box):
            raise ConfigError(f"AgentSpec.frame_stack needs a Box observation space, got {observation}")
        return batch_space(observation, depth), action

    def _nobody_for(self, specs: Collection[int]) -> None:
        if specs:
            names = [self.agents[i].pattern for i in sorted(specs)]
            raise ConfigError(f"no agent of {self.task!r} is left for the specs {names}")

    def _specs(self, env: Environment) -> list[int]:
        specs = []
        for agent in range(env.agent_count):
            matching = [i for i, spec in enumerate(self.agents) if re.fullmatch(spec.pattern, str(agent))]
            if not matching:
                shown: Sequence[str] = [spec.pattern for spec in self.agents]
                raise ConfigError(f"agent {agent} of {self.task!r} matches no spec, by its number; there are {shown}")
            specs.append(matching[0])
        return specs
