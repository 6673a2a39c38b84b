"""Environments for several agents: one `StepResult` per agent, None for an agent that does not act now.

Turn-based games, games in which agents leave early and ordinary simultaneous games are written the same way. PettingZoo
and gymnasium envs need none of this: they are registered as they are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from argosy.env.spaces import Space
from argosy.errors import EnvError


@dataclass(slots=True)
class StepResult:
    """What one agent sees, and what its action before brought."""

    obs: Any
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
    state_space: Space | None = None
    """Space of the game's state, where it tells it (see `state`)."""

    @abstractmethod
    def reset(self) -> list[StepResult | None]:
        """Start an episode; one result per agent, None for those that do not act first."""

    @abstractmethod
    def step(self, actions: list[Any]) -> list[StepResult | None]:
        """Apply one action per agent (None for those that do not act); one result per agent."""

    def state(self) -> Any:
        """Return the game's state of this moment, which critics may see and no agent does, see `CentralState`."""
        raise NotImplementedError(f"{type(self).__name__} has a state_space, but no state() that tells its state")

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
