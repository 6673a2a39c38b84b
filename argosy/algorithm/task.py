"""What an algorithm is made for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar, cast

import torch
from gymnasium import spaces

from argosy.net import NetConfig
from argosy.policy import Policy

Space = spaces.Space[Any]
P = ParamSpec("P")
PolicyT = TypeVar("PolicyT", bound=Policy)
Kind = Literal["onpolicy", "offpolicy", "offline"]
"""Where an algorithm's experience comes from."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """What an algorithm is made for."""

    observation_space: Space
    """Of one agent."""
    action_space: Space
    """Of one agent."""
    net: NetConfig | None = None
    """Shape of the networks; None: the algorithm's own."""
    device: str | torch.device = "cpu"
    """Where the networks are."""
    state_space: Space | None = None
    """What critics alone see (the simulator's state, all agents' observations); None: the same as the policy."""
    num_agents: int = 1
    """More than 1: a joint learner, whose rows have an axis of agents, with rewards [B, N]."""
    policy: Callable[[Space, Space], Policy] | None = None
    """Makes a policy of one's own for the two spaces; None: the algorithm's."""

    def policy_or(
        self, make: Callable[Concatenate[Space, Space, P], PolicyT], *args: P.args, **kwargs: P.kwargs
    ) -> PolicyT:
        """Return the policy that is asked for, or else what `make` makes of the two spaces and what follows.

        It is on the device.
        """
        both = self.observation_space, self.action_space
        own = None if self.policy is None else self.policy(*both)
        return (make(*both, *args, **kwargs) if own is None else cast(PolicyT, own)).to(self.device)
