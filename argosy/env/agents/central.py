"""What all agents see at once, for critics that are to know more than the policies (`NetConfig.critic_only`)."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from gymnasium import spaces

from argosy.env.agents.environment import Environment, StepResult
from argosy.env.spaces import Space, nearest_to_zero
from argosy.errors import SpaceError

STATE = "state"


class CentralState(Environment):
    """Adds an entry "state" to what each agent sees: the game's state, where it tells it, or what all agents see.

    An observation that is no Dict becomes the entry "obs" beside it. Of an agent that does not act now, the state has
    what it saw last, zeros before (or what is nearest to them, where its space has none).

    Args:
        env: of several agents.

    Raises:
        SpaceError: there is one agent, or observations have an entry "state".
    """

    def __init__(self, env: Environment) -> None:
        if not isinstance(env, Environment) or env.agent_count < 2:
            raise SpaceError(f"CentralState is for games of several agents, which {type(env).__name__} is not")
        self.env, self.agent_count, self.action_spaces = env, env.agent_count, env.action_spaces
        self.observation_spaces = [self._with_state(space) for space in env.observation_spaces]
        self._last: dict[str, Any] = {}

    def _with_state(self, space: Space) -> Space:
        parts = dict(space.spaces) if isinstance(space, spaces.Dict) else {"obs": space}
        if STATE in parts:
            raise SpaceError(f"observations have an entry {STATE!r} already: {space}")
        seen = {str(agent): each for agent, each in enumerate(self.env.observation_spaces)}
        return spaces.Dict({**parts, STATE: self.env.state_space or spaces.Dict(seen)})

    def reset(self) -> list[StepResult | None]:
        """Start an episode."""
        self._last = {str(agent): nearest_to_zero(space) for agent, space in enumerate(self.env.observation_spaces)}
        return self._seen(self.env.reset())

    def step(self, actions: list[Any]) -> list[StepResult | None]:
        """Apply the agents' actions."""
        return self._seen(self.env.step(actions))

    def _seen(self, results: Sequence[StepResult | None]) -> list[StepResult | None]:
        for agent, result in enumerate(results):
            if result is not None:
                self._last[str(agent)] = copy.deepcopy(result.obs)  # a game may write into it
        state = dict(self._last) if self.env.state_space is None else self.env.state()
        seen: list[StepResult | None] = []
        for result, space in zip(results, self.env.observation_spaces, strict=True):
            if result is not None:
                own = result.obs if isinstance(space, spaces.Dict) else {"obs": result.obs}
                result = replace(result, obs={**own, STATE: state})
            seen.append(result)
        return seen

    def seed(self, seed: int) -> None:
        """Make the episodes that follow reproducible."""
        self.env.seed(seed)

    def set_curriculum_stage(self, name: str) -> None:
        """Change to another stage of a curriculum, from the next reset on."""
        self.env.set_curriculum_stage(name)

    def render(self) -> object:
        """Return a picture, or None."""
        return self.env.render()

    def close(self) -> None:
        """Free everything."""
        self.env.close()
